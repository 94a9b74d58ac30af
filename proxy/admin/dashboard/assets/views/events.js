// The audit logs of all proxies, as they are written.

import { h, badge, empty } from "../dom.js";
import { clock } from "../format.js";
import { events } from "../live.js";
import { Table } from "../table.js";

export const title = "Events";
const SHOWN = 200;
const tones = { done: "ok", refused: "warn", failed: "bad" };

export function open(root) {
  const q = h("input", { type: "search", placeholder: "Any word of it", "aria-label": "Filter events" });
  const table = new Table("Events", [
    { label: "Time", cell: (e) => clock(e.time) },
    { label: "Event", cell: (e) => h("span", { class: "strong" }, e.action.replaceAll("_", " ")) },
    { label: "Outcome", cell: (e) => [badge(e.outcome, tones[e.outcome]), e.reason && h("span", { class: "muted" }, ` ${e.reason}`)] },
    { label: "By", cell: (e) => [e.by || "unknown", h("span", { class: "muted" }, ` ${e.worker || e.from || ""}`)] },
    { label: "About", cell: (e) => about(e) },
    { label: "Call", grow: true, cell: (e) => (e.call ? h("code", null, e.call) : e.captcha ? `${e.captcha.type}, ${e.captcha.seconds.toFixed(1)} s` : "–") },
  ], (e) => String(e.n));
  const nothing = h("div");
  // Screen readers hear what is added.
  root.append(h("h1", null, title), h("div", { class: "tools" }, q), h("div", { role: "log", "aria-label": "Events, the newest first" }, table.el), nothing);

  const draw = () => {
    const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = events.filter((e) => { const text = JSON.stringify(e).toLowerCase(); return words.every((w) => text.includes(w)); }).slice(0, SHOWN);
    table.update(rows);
    nothing.replaceChildren(...(rows.length > 0 ? [] : [events.length > 0 ? empty("No event has these words.") : empty("Nothing has happened yet.",
      h("p", null, "What people and workers do shows here as it happens: the first use of a session, logins, refusals, solves, and what operators change."))]));
  };
  q.addEventListener("input", draw);
  addEventListener("audit", draw);
  return { refresh: async () => draw(), close: () => removeEventListener("audit", draw) };
}

function about(e) {
  if (e.site) return `${e.site}${e.session ? ` / ${e.session}` : ""}`;
  return e.host || e.target || "–";
}
