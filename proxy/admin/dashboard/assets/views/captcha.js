// Captcha tokens that are ready, and what solving has cost this hour.

import { h, badge, button, code, empty, section } from "../dom.js";
import { get } from "../api.js";
import { moment, number } from "../format.js";
import { Table } from "../table.js";
import { flushTokens, warmTokens } from "../actions.js";

export const title = "Captchas";

export function open(root, me) {
  const list = h("div");
  const shown = new Map(); // sites, by name
  root.append(h("h1", null, title), list);

  return {
    async refresh() {
      const { sites } = await get("captcha");
      for (const s of sites) {
        if (!shown.has(s.site)) {
          shown.set(s.site, new Site(s.site, me));
          list.append(shown.get(s.site).el);
        }
        shown.get(s.site).update(s);
      }
      for (const [name, site] of shown) {
        if (sites.some((s) => s.site === name)) continue;
        site.el.remove();
        shown.delete(name);
      }
      if (sites.length > 0) list.querySelector(".empty")?.remove();
      else if (!list.firstChild) list.append(none());
    },
  };
}

class Site {
  constructor(name, me) {
    this.spent = h("p", { class: "budget" });
    this.table = new Table(`Sitekeys of ${name}`, [
      { label: "Sitekey", grow: true, cell: (t) => [h("code", null, t.sitekey), t.action && h("span", { class: "muted" }, ` ${t.action}`)] },
      { label: "Type", cell: (t) => t.type ?? "–" },
      { label: "Ready", num: true, cell: (t) => number(t.ready) },
      { label: "First ends", cell: (t) => (t.ready > 0 ? moment(t.ends, "left") : "–") },
      { label: "Solving", num: true, cell: (t) => number(t.solving) },
      { label: "Waiting", num: true, cell: (t) => number(t.waiting) },
      { label: "Needed", cell: (t) => (t.needed ? badge("within the hour", "ok") : "–") },
      ...(me.role === "operator" ? [{ label: "", cell: (t) => [
        button("Solve", () => warmTokens(name, t), { "aria-label": `Solve tokens of ${t.sitekey}` }),
        t.ready > 0 && button("Forget", () => flushTokens(name, t), { class: "danger-quiet", "aria-label": `Forget tokens of ${t.sitekey}` })].filter(Boolean) }] : []),
    ], (t) => `${t.sitekey}\n${t.action}`);
    this.hint = h("p", { class: "muted" });
    this.el = section(name, this.spent, this.table.el, this.hint);
  }

  update(s) {
    const solves = `${number(s.spent)}${s.per_hour ? ` of ${number(s.per_hour)}` : ""} solves this hour`;
    this.spent.replaceChildren(h("span", null, solves), ...(s.per_hour ? [h("meter", { min: 0, max: s.per_hour, value: s.spent, high: s.per_hour * 0.8, optimum: 0, "aria-label": `Budget of ${s.site}` }, solves)] : []));
    this.table.update(s.sitekeys ?? []);
    this.hint.textContent = (s.sitekeys ?? []).length > 0 ? "" : "No widget was seen yet: its sitekey is learned when a client is shown the page.";
  }
}

const none = () => empty("No site declares a captcha.",
  h("p", null, "To have the proxy put a solved token into forms whose field is empty:"),
  code("sites:\n  - name: shop\n    hosts: [shop.example.com]\n    captcha: [{type: auto, budget: {per_hour: 20}}]\ncaptchaai: {key: \"${CAPTCHAAI_API_KEY}\"}"));
