// How the logins of sites stand, and why the proxy's own rest.

import { h, badge, button, code, empty } from "../dom.js";
import { get } from "../api.js";
import { moment, number } from "../format.js";
import { Table } from "../table.js";
import { logIn } from "../actions.js";
import { link, loginBadge } from "./sessions.js";

export const title = "Logins";

export function open(root, me) {
  const table = new Table("Logins", [
    { label: "Site", cell: (r) => h("span", { class: "strong" }, r.site) },
    { label: "Session", cell: (r) => (r.session ? link(r.site, r.session) : h("span", { class: "muted" }, "by its clients")) },
    { label: "Login", cell: (r) => (r.login ? loginBadge(r.login) : "–") },
    { label: "Seen", cell: (r) => (r.login?.seen ? [moment(r.login.seen), h("span", { class: "muted" }, ` ${r.login.rule ?? ""}`)] : "–") },
    { label: "Failures", num: true, cell: (r) => number(r.login?.failures ?? 0) },
    { label: "Why it fails", grow: true, cell: (r) => r.login?.error ?? "–" },
    { label: "Next try", cell: (r) => rest(r.login) },
    ...(me.role === "operator" ? [{ label: "", cell: (r) => (r.session ? button("Log in", () => logIn(r.site, r.session), { "aria-label": `Log in to ${r.site} ${r.session}` }) : "") }] : []),
  ], (r) => `${r.site}\n${r.session}`);
  const nothing = h("div");
  root.append(h("h1", null, title), table.el, nothing);

  return {
    async refresh() {
      const { sites } = await get("logins");
      const rows = sites.flatMap((s) => (s.recipe && s.accounts.length > 0 ? s.accounts.map((a) => ({ site: s.site, ...a })) : [{ site: s.site }]));
      table.update(rows);
      if (rows.length > 0) nothing.replaceChildren();
      else if (!nothing.firstChild) nothing.append(none());
    },
  };
}

/** A rest of hours is a stop: somebody has to look first. */
function rest(l) {
  if (!l?.next_try) return "–";
  const stopped = Date.parse(l.next_try) - Date.now() > 3600_000;
  return [stopped && [badge("stopped", "bad"), " "], moment(l.next_try, "left")].filter(Boolean);
}

const none = () => empty("No site declares a login.",
  h("p", null, "With one, clients log in one at a time and the others get its answer; with a recipe, the proxy logs in by itself:"),
  code("sites:\n  - name: shop\n    hosts: [shop.example.com]\n    login:\n      request: {path: /login}\n      logged_out: {redirect: \"*/login*\"}\n      recipe:\n        - {get: /login, take: {csrf: \"input[name=csrf_token]\"}}\n        - {post: /login, form: {user: \"{user}\", password: \"{password}\", csrf_token: \"{csrf}\"}}\n      accounts: [{user: \"${SHOP_USER}\", password: \"${SHOP_PASS}\"}]"));
