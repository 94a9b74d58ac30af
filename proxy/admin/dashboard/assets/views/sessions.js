// All sessions, a page at a time.

import { h, badge, button, code, debounce, empty } from "../dom.js";
import { get, path } from "../api.js";
import { count, moment, number } from "../format.js";
import { Pager, Table } from "../table.js";
import { revoke } from "../actions.js";

export const title = "Sessions";
const LIMIT = 50;

export const stateBadge = (s) => badge(s.state, { live: "ok", revoked: "bad" }[s.state]);
export const loginBadge = (l) => (l.error ? badge("login fails", "bad") : l.verdict === "unknown" ? "–" : badge(`logged ${l.verdict}`, l.verdict === "in" ? "ok" : "warn"));
export const user = (u) => (u ? [h("span", null, u.client || "unnamed"), h("span", { class: "muted" }, ` ${u.worker}`)] : "–");
export const link = (site, session) => h("a", { href: `#/sessions/${path(site, session)}` }, session);

export function open(root, me) {
  const q = h("input", { type: "search", placeholder: "Site, session, client or worker", "aria-label": "Search sessions" });
  const order = h("select", { "aria-label": "Order" }, h("option", { value: "used" }, "Last used first"), h("option", { value: "name" }, "By name"));
  const pager = new Pager(() => view.refresh());
  const again = () => { pager.reset(); view.refresh(); };
  q.addEventListener("input", debounce(again, 200));
  order.addEventListener("change", again);
  const table = new Table("Sessions", [
    { label: "Session", cell: (s) => [h("span", { class: "muted" }, `${s.site} / `), link(s.site, s.session)] },
    { label: "State", cell: stateBadge },
    { label: "Login", cell: (s) => loginBadge(s.login) },
    { label: "Cookies", num: true, cell: (s) => number(s.cookies) },
    { label: "Used by", cell: (s) => user(s.last_use) },
    { label: "Last used", cell: (s) => moment(s.last_use?.at ?? s.used) },
    { label: "Age", cell: (s) => moment(s.created, "age") },
    { label: "Ends", cell: (s) => moment(s.expires, "left") },
    ...(me.role === "operator" ? [{ label: "", cell: (s) => button("Revoke", () => revoke(s.site, s.session), { "aria-label": `Revoke ${s.site} ${s.session}` }) }] : []),
  ], (s) => `${s.site}\n${s.session}`);
  const nothing = h("div");
  root.append(h("h1", null, title), h("div", { class: "tools" }, q, order), table.el, nothing, pager.el);

  const view = {
    async refresh() {
      const asked = { q: q.value.trim(), order: order.value, after: pager.after, limit: LIMIT };
      const list = await get("sessions", asked);
      if (asked.q !== q.value.trim() || asked.after !== pager.after) return; // another is under way
      table.update(list.sessions);
      pager.update(count(list.total, "session"), list.next);
      if (list.total > 0) nothing.replaceChildren();
      else if (asked.q) nothing.replaceChildren(empty(`No session has “${asked.q}” in its site, its name, its client or its worker.`));
      else if (!nothing.firstChild) nothing.replaceChildren(await first());
    },
  };
  return view;
}

/** How to get the first session. */
async function first() {
  const [proxy, sites] = await Promise.all([get("proxy"), get("sites")]);
  const host = sites.sites[0]?.hosts[0]?.replace(/^\*\./, "www.") ?? "shop.example.com";
  const port = proxy.listeners[0];
  const url = `${port?.tls ? "https" : "http"}://${port?.addr ?? "127.0.0.1:8080"}`;
  return empty("No session yet. A session begins when a declared site sets a cookie through the proxy.",
    h("p", null, "Send a request, with the ", h("a", { href: "/ca.pem" }, "CA"), " that clients are to trust:"),
    code(`curl -x ${url} --cacert ca.pem https://${host}/`),
    h("p", null, "Or run a program through it: ", h("code", null, "sessionproxy run -- CMD"), "."));
}
