// What requests went through this proxy, as they end, and why each went as it did.

import { h, badge, button, debounce, empty } from "../dom.js";
import { clock, number, seconds } from "../format.js";
import { Table } from "../table.js";

export const title = "Exchanges";
const KEPT = 200;
const tones = { ok: "ok", open: "", refused: "warn", failed: "bad", broken: "bad" };
const outcomes = ["ok", "open", "refused", "failed", "broken", "client_gone", "client_tls"];

export function open(root) {
  const field = (name, label) => h("input", { type: "search", name, placeholder: label, "aria-label": label, autocomplete: "off" });
  const fields = [field("client", "Client"), field("worker", "Worker"), field("site", "Site"),
    h("select", { name: "outcome", "aria-label": "Outcome" }, h("option", { value: "" }, "Any outcome"), outcomes.map((o) => h("option", { value: o }, o.replaceAll("_", " "))))];
  const stop = button("Pause", () => { source ? close() : listen(); }, { "aria-pressed": "false" });
  const state = h("p", { class: "muted", role: "status" });
  const table = new Table("Exchanges", [
    { label: "Time", cell: (x) => clock(x.time) },
    { label: "Client", cell: (x) => [h("span", null, x.client || "unnamed"), h("span", { class: "muted" }, ` ${x.worker}`)] },
    { label: "Request", grow: true, cell: (x) => [h("code", null, `${x.method} `), h("span", null, `${x.host}${x.path}`)] },
    { label: "Session", cell: (x) => (x.session ? `${x.site} / ${x.session}` : x.site || "–") },
    { label: "Status", num: true, cell: (x) => (x.status ? String(x.status) : "–") },
    { label: "Outcome", cell: (x) => [badge(x.outcome.replaceAll("_", " "), tones[x.outcome]), x.verdict && badge(`logged ${x.verdict}`, x.verdict === "in" ? "ok" : "warn")] },
    { label: "Sent", num: true, cell: (x) => number(x.cookies.filter((c) => c.sent && c.from !== "client").length) },
    { label: "Total", num: true, cell: (x) => seconds(x.milliseconds.total / 1000) },
    { label: "Added", num: true, cell: (x) => seconds(x.milliseconds.added / 1000) },
    { label: "", cell: (x) => button("Why", () => explain(x), { "aria-label": `Why ${x.method} ${x.host}${x.path} went so` }) },
  ], (x) => x.id);
  const nothing = h("div");
  root.append(h("h1", null, title), h("div", { class: "tools" }, fields, stop), state, table.el, nothing);

  let source = null;
  let list = []; // the newest first
  const draw = () => {
    table.update(list);
    nothing.replaceChildren(...(list.length > 0 ? [] : [empty("No exchange that fits, yet.",
      h("p", null, "This proxy keeps its last 1000. In a terminal: ", h("code", null, "sessionproxy trace"), ".")) ]));
  };
  const soon = debounce(draw, 100);
  const close = () => {
    source?.close();
    source = null;
    stop.textContent = "Go on";
    stop.setAttribute("aria-pressed", "true");
    state.textContent = "Paused.";
  };
  const listen = () => {
    source?.close();
    list = [];
    const query = new URLSearchParams({ last: KEPT });
    for (const f of fields) if (f.value.trim()) query.set(f.name, f.value.trim());
    source = new EventSource(`/api/v1/trace?${query}`);
    source.addEventListener("exchange", (e) => {
      const x = JSON.parse(e.data);
      for (const many of ["cookies", "set_cookies", "captcha", "why"]) x[many] ??= [];
      // A tunnel comes twice: when it opens, and when it ends.
      list = [x, ...list.filter((other) => other.id !== x.id)].slice(0, KEPT);
      soon();
    });
    source.addEventListener("lost", (e) => { state.textContent = `More came than could be shown: ${JSON.parse(e.data).lost} are left out.`; });
    source.onopen = () => { state.textContent = ""; };
    source.onerror = () => { state.textContent = "Reconnecting."; };
    stop.textContent = "Pause";
    stop.setAttribute("aria-pressed", "false");
    draw();
  };
  for (const f of fields) f.addEventListener("input", debounce(listen, 250));
  listen();
  return { refresh: async () => {}, close: () => source?.close() };
}

/** Shows one exchange: what was sent, what was withheld, and by which rule. */
function explain(x) {
  const cookies = new Table("Cookies of the request", [
    { label: "Cookie", cell: (c) => h("code", null, c.name || "(no name)") },
    { label: "From", cell: (c) => c.from },
    { label: "Sent", cell: (c) => badge(c.sent ? "sent" : "withheld", c.sent ? "ok" : "warn") },
    { label: "Why", grow: true, cell: (c) => c.why },
  ], (c) => [c.name, c.from, c.domain, c.path].join("\n"));
  cookies.update(x.cookies);
  const set = new Table("Cookies of the reply", [
    { label: "Set-Cookie", cell: (c) => h("code", null, c.name || "(no name)") },
    { label: "Captured", cell: (c) => badge(c.captured ? "captured" : "not", c.captured ? "ok" : "warn") },
    { label: "Why", grow: true, cell: (c) => c.why },
  ], (c) => JSON.stringify(c));
  set.update(x.set_cookies);
  const fact = (name, ...value) => h("div", null, h("dt", null, name), h("dd", null, ...value));
  const times = Object.entries(x.milliseconds).filter(([, ms]) => ms > 0).map(([name, ms]) => `${name} ${seconds(ms / 1000)}`).join(", ");
  const dialog = h("dialog", { class: "wide", "aria-labelledby": "why-title" },
    h("h2", { id: "why-title" }, `${x.method} ${x.host}${x.path}`),
    x.why.length > 0 && h("ul", { class: "why" }, x.why.map((w) => h("li", null, w))),
    h("dl", { class: "facts" },
      fact("Outcome", badge(x.outcome.replaceAll("_", " "), tones[x.outcome]), ` ${x.status || ""}`),
      x.refused && fact("Refused", `${x.refused.code}: ${x.refused.sentence}`),
      x.error && fact("Error", x.error),
      fact("Session", x.session ? `${x.site} / ${x.session}, selected by ${x.selected || "nothing"}` : "none"),
      fact("Whose request", x.whose || "–"),
      x.verdict && fact("Login", `logged ${x.verdict}`, x.rule && ` by ${x.rule}`),
      x.lease && fact("Upstream", `${x.lease.upstream} of ${x.lease.pool}${x.lease.moves ? `, after ${x.lease.moves} moves` : ""}`),
      x.captcha.length > 0 && fact("Captcha", x.captcha.map((c) => `${c.type} ${c.outcome} from ${c.source}`).join("; ")),
      fact("Time", times || "–"),
      fact("Id", h("code", null, x.id))),
    cookies.el, set.el,
    h("div", { class: "buttons" }, button("Close", () => dialog.close(), { class: "primary" })));
  const before = document.activeElement;
  dialog.addEventListener("close", () => { dialog.remove(); before?.focus(); });
  document.body.append(dialog);
  dialog.showModal();
}
