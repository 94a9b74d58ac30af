// What is going on, and what wants somebody.

import { h, badge, section } from "../dom.js";
import { get } from "../api.js";
import { count, moment, number, rate, seconds } from "../format.js";
import { Chart } from "../chart.js";
import { Table } from "../table.js";

export const title = "Overview";

const sum = (points, of) => points.reduce((n, p) => n + of(p), 0);

export function open(root) {
  const tiles = h("dl", { class: "tiles" });
  const wants = h("div");
  const requests = new Chart("Requests per second", [
    { label: "all", tone: "a", area: true, of: (p) => p.exchanges / 5 },
    { label: "failed", tone: "bad", of: (p) => p.failed / 5, sparse: true },
  ], rate);
  const added = new Chart("Time added by the proxy", [
    { label: "half within", tone: "a", of: (p) => p.added_50 || null },
    { label: "99 % within", tone: "b", of: (p) => p.added_99 || null },
  ], seconds);
  const proxies = new Table("Proxies", [
    { label: "Host", cell: (p) => [h("span", { class: "strong" }, p.host || "unknown"), p.here && [" ", badge("this one")]] },
    { label: "Admin", cell: (p) => h("code", null, p.admin) },
    { label: "Up for", cell: (p) => moment(p.started, "age") },
    { label: "Last word", cell: (p) => moment(p.seen) },
    { label: "Requests/min", num: true, cell: (p) => number(p.exchanges) },
    { label: "Failed/min", num: true, cell: (p) => number(p.failed) },
    { label: "Workers", num: true, cell: (p) => number(p.workers) },
    { label: "Version", cell: (p) => p.version },
  ], (p) => p.id);
  root.append(h("h1", null, title), wants, tiles, h("div", { class: "charts" }, requests.el, added.el), section("Proxies", proxies.el));

  return {
    async refresh() {
      const [o, config, logins, upstreams, captcha] = await Promise.all([
        get("overview"), get("config"), get("logins"), get("upstreams", { limit: 1 }), get("captcha"),
      ]);
      requests.update(o.points);
      added.update(o.points);
      proxies.update(o.proxies);
      tiles.replaceChildren(...figures(o));
      wants.replaceChildren(...attention(o, config, logins, upstreams, captcha));
    },
  };
}

function figures(o) {
  const all = sum(o.points, (p) => p.exchanges);
  const failed = sum(o.points, (p) => p.failed);
  const minute = sum(o.points.slice(-12), (p) => p.exchanges);
  const timed = o.points.findLast((p) => p.added_50 > 0);
  const tile = (name, value, more, tone) => h("div", { class: "tile" }, h("dt", null, name), h("dd", { class: tone }, value), h("dd", { class: "muted" }, more));
  return [
    tile("Requests", `${rate(minute / 60)}/s`, `${number(all)} in 10 min`),
    tile("Added time", timed ? seconds(timed.added_50) : "–", timed ? `99 % within ${seconds(timed.added_99)}` : "no requests yet"),
    tile("Failed", number(failed), `${number(sum(o.points, (p) => p.refused))} refused, in 10 min`, failed > 0 ? "bad" : null),
    tile("Logins", number(sum(o.points, (p) => p.logins)), `${number(sum(o.points, (p) => p.logins_lost))} failed, in 10 min`),
    tile("Captchas filled", number(sum(o.points, (p) => p.fills)), `${number(sum(o.points, (p) => p.fills_failed))} not, in 10 min`),
    tile("Workers", number(sum(o.proxies, (p) => p.workers)), `in 5 min, on ${o.proxies.length === 1 ? "1 proxy" : `${o.proxies.length} proxies`}`),
  ];
}

/** What is wrong and will not mend by itself soon, each with where to look. */
function attention(o, config, logins, upstreams, captcha) {
  const all = [];
  const add = (tone, text, where, link) => all.push(h("li", null, badge(tone === "bad" ? "Fault" : "Look", tone), h("span", null, text), h("a", { href: `#/${where}` }, link)));
  if (o.partial) add("bad", "The shared store does not answer. Requests go on with what this proxy knows.", "events", "Events");
  for (const f of config.faults) add("bad", `The configuration at ${f.where} is not in force: ${f.message}`, "setup", "Setup");
  for (const s of logins.sites) {
    for (const a of s.accounts.filter((a) => a.login.error)) add("bad", `The login of ${s.site}, session ${a.session}, fails: ${a.login.error}`, "logins", "Logins");
  }
  for (const p of upstreams.states) {
    const room = p.free + p.leased + p.taken;
    if (room === 0 && p.resting > 0) add("bad", `All ${count(p.resting, "upstream")} of the pool ${p.pool} rest after failures.`, "upstreams", "Upstreams");
    else if (p.resting > 0) add("warn", `${count(p.resting, "upstream")} of the pool ${p.pool} rest${p.resting === 1 ? "s" : ""} after failures.`, "upstreams", "Upstreams");
    if (p.waiting > 0) add("warn", `${count(p.waiting, "request")} wait for an upstream of the pool ${p.pool}.`, "upstreams", "Upstreams");
  }
  for (const s of captcha.sites.filter((s) => s.per_hour > 0 && s.spent >= s.per_hour)) add("warn", `The captcha budget of ${s.site} is used up for this hour.`, "captcha", "Captchas");
  return all.length === 0 ? [] : [h("ul", { class: "attention", "aria-label": "What wants attention" }, all)];
}
