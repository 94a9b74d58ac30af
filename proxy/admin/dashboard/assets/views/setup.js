// How clients get in, what configuration is in force, and who is logged in here.

import { h, badge, button, code, empty, section } from "../dom.js";
import { get } from "../api.js";
import { count, moment, number } from "../format.js";
import { Table } from "../table.js";
import { logOutDevice, reload } from "../actions.js";

export const title = "Setup";
const SHOWN = 100;

export function open(root, me) {
  const config = h("div");
  const ports = new Table("Ports", [
    { label: "Proxy", cell: (p) => h("code", null, `${p.tls ? "https" : "http"}://${p.addr}`) },
    { label: "Credentials", cell: (p) => (p.auth === "ask" ? "asked for" : p.client ? "pinned" : "not asked for") },
    { label: "Client", cell: (p) => p.client || "–" },
    { label: "Session", cell: (p) => p.session || "–" },
  ], (p) => p.addr);
  const workers = new Table("Workers", [
    { label: "Client", cell: (w) => h("span", { class: "strong" }, w.client || "unnamed") },
    { label: "Worker", cell: (w) => w.worker },
    { label: "From", cell: (w) => w.from },
    { label: "Last in", cell: (w) => (w.site ? `${w.site} / ${w.session}` : "–") },
    { label: "Requests", num: true, cell: (w) => number(w.requests) },
    { label: "Last seen", cell: (w) => moment(w.last) },
  ], (w) => `${w.client}\n${w.worker}`);
  const devices = new Table("Logged in here", [
    { label: "Operator", cell: (d) => [h("span", { class: "strong" }, d.operator), d.id === me.device && [" ", badge("you")]] },
    { label: "With", grow: true, cell: (d) => d.name },
    { label: "From", cell: (d) => d.from },
    { label: "Last used", cell: (d) => moment(d.used) },
    { label: "Ends", cell: (d) => moment(d.expires, "left") },
    ...(me.role === "operator" ? [{ label: "", cell: (d) => button("Log out", () => logOutDevice(d), { "aria-label": `Log out ${d.operator}, ${d.name}` }) }] : []),
  ], (d) => d.id);
  const seen = h("p", { class: "muted" });
  const none = h("div");
  root.append(h("h1", null, title),
    section("Configuration", config),
    section("Clients", ports.el,
      h("p", null, "Clients trust ", h("a", { href: "/ca.pem" }, "ca.pem"), ". Browsers can be set up with ", h("a", { href: "/proxy.pac" }, "proxy.pac"), "; programs with ", h("code", null, "sessionproxy run -- CMD"), ".")),
    section("Workers seen by this proxy", workers.el, seen, none),
    section("Operators logged in", devices.el));

  return {
    async refresh() {
      const [c, proxy, seenWorkers, list, version] = await Promise.all([get("config"), get("proxy"), get("workers"), get("devices"), get("version")]);
      config.replaceChildren(
        h("div", { class: "tools" }, h("span", null, "Read ", moment(c.loaded), `, by version ${version.version}`), me.role === "operator" && button("Reload", reload)),
        ...c.faults.map((f) => h("div", { class: "fault bar" }, h("p", null, h("code", null, f.where), ` ${f.message}`), f.remedy && h("p", { class: "muted" }, f.remedy))));
      ports.update(proxy.listeners);
      workers.update(seenWorkers.workers.slice(0, SHOWN));
      const n = seenWorkers.workers.length;
      seen.textContent = n > SHOWN ? `The last ${SHOWN} of ${count(n, "worker")}.` : "";
      none.replaceChildren(...(n > 0 ? [] : [empty("No worker yet.", h("p", null, "A worker is one running client. It may name itself in the proxy's user name:"), code("http://crawler-worker-7:PASSWORD@127.0.0.1:8080"))]));
      devices.update(list.devices);
      devices.el.parentElement.hidden = list.devices.length === 0;
    },
  };
}
