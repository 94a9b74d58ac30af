// By which upstreams requests leave, and who holds them.

import { h, badge, button, code, debounce, empty } from "../dom.js";
import { get } from "../api.js";
import { count, moment, number } from "../format.js";
import { Pager, Table } from "../table.js";
import { checkUpstream, releaseLease, removeUpstream } from "../actions.js";

export const title = "Upstreams";
const LIMIT = 50;
const tones = { free: "ok", leased: "", taken: "", resting: "bad" };

export function open(root, me) {
  const q = h("input", { type: "search", placeholder: "Address, pool, owner or state", "aria-label": "Search upstreams" });
  const pager = new Pager(() => view.refresh());
  q.addEventListener("input", debounce(() => { pager.reset(); view.refresh(); }, 200));
  const pools = new Table("Pools", [
    { label: "Pool", cell: (p) => h("span", { class: "strong" }, p.pool) },
    ...["Free", "Leased", "Taken", "Resting"].map((name) => ({ label: name, num: true, cell: (p) => number(p[name.toLowerCase()]) })),
    { label: "Requests waiting", num: true, cell: (p) => number(p.waiting) },
  ], (p) => p.pool);
  const operator = me.role === "operator";
  const table = new Table("Upstreams", [
    { label: "Upstream", cell: (u) => [h("span", { class: "muted" }, `${u.pool} / `), h("code", null, u.url)] },
    { label: "State", cell: (u) => [badge(u.state, tones[u.state]), u.rests && [" ", moment(u.rests, "left")]] },
    { label: "Leases", grow: true, cell: (u) => leases(u, operator) },
    { label: "Failures", num: true, cell: (u) => number(u.failures) },
    { label: "Last failure", cell: (u) => u.reason ?? "–" },
    { label: "From", cell: (u) => u.source },
    ...(operator ? [{ label: "", cell: (u) => [
      button("Check", () => checkUpstream(u), { "aria-label": `Check ${u.url}` }),
      button("Remove", () => removeUpstream(u), { class: "danger-quiet", "aria-label": `Remove ${u.url}` })] }] : []),
  ], (u) => `${u.pool}\n${u.id}`);
  const nothing = h("div");
  const tools = h("div", { class: "tools" }, q);
  root.append(h("h1", null, title), pools.el, tools, table.el, nothing, pager.el);

  const view = {
    async refresh() {
      const asked = { q: q.value.trim(), after: pager.after, limit: LIMIT };
      const list = await get("upstreams", asked);
      if (asked.q !== q.value.trim() || asked.after !== pager.after) return;
      pools.update(list.states);
      table.update(list.upstreams);
      tools.hidden = list.pools.length === 0;
      pager.el.hidden = list.pools.length === 0;
      pager.update(count(list.total, "upstream"), list.next);
      nothing.replaceChildren(...(list.total > 0 ? [] : [none(list.pools.length > 0, asked.q)]));
    },
  };
  return view;
}

function leases(u, operator) {
  if (u.leases.length === 0) return "–";
  return h("ul", { class: "plain" }, u.leases.map((l) => h("li", null, h("span", null, l.owner), h("span", { class: "muted" }, " for ", moment(l.since, "age")),
    operator && [" ", button("Release", () => releaseLease(u.pool, l.owner), { "aria-label": `Release the lease of ${l.owner}` })])));
}

function none(declared, q) {
  if (q) return empty(`No upstream has “${q}”.`);
  if (declared) return empty("The pools are empty.", h("p", null, "Add an upstream: ", h("code", null, "sessionproxy upstreams add URL"), "."));
  return empty("No pool is declared: requests leave by this machine's own address.",
    h("p", null, "To lease each worker an exit of its own, declare a pool, and name it at a site:"),
    code("upstreams:\n  eu:\n    proxies: [\"http://user:password@10.0.0.1:3128\", \"socks5://10.0.0.2:1080\"]\nsites:\n  - {name: shop, hosts: [shop.example.com], upstream: eu}"));
}
