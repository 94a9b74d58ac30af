// One session and its cookies, without their values.

import { h, badge, button, empty } from "../dom.js";
import { get, path } from "../api.js";
import { moment, number } from "../format.js";
import { Table } from "../table.js";
import { clear, exportCookies, importCookies, logIn, revoke } from "../actions.js";
import { loginBadge, stateBadge, user } from "./sessions.js";

export const title = "Session";

export function open(root, me, site, id) {
  const facts = h("dl", { class: "facts" });
  const table = new Table("Cookies", [
    { label: "Name", grow: true, cell: (c) => h("code", null, c.name || "(no name)") },
    { label: "Domain", cell: (c) => `${c.host_only ? "" : "."}${c.domain}` },
    { label: "Path", cell: (c) => h("code", null, c.path) },
    { label: "Attributes", cell: (c) => attributes(c) },
    { label: "Bytes", num: true, cell: (c) => number(c.value_bytes) },
    { label: "Set by", cell: (c) => c.writer },
    { label: "Age", cell: (c) => moment(c.created, "age") },
    { label: "Ends", cell: (c) => (c.expires ? moment(c.expires, "left") : "with the session") },
  ], (c) => [c.name, c.domain, c.path, c.host_only].join("\n"));
  const nothing = h("div");
  const act = (label, run, danger) => button(label, () => run(site, id), danger ? { class: "danger-quiet" } : {});
  root.append(
    h("p", { class: "trail" }, h("a", { href: "#/sessions" }, "Sessions"), " /"),
    h("h1", null, h("span", { class: "muted" }, `${site} / `), id),
    me.role === "operator" && h("div", { class: "tools" },
      act("Log in", logIn), act("Import", importCookies), act("Export", exportCookies), act("Clear", clear, true), act("Revoke", revoke, true)),
    facts, h("h2", null, "Cookies"), table.el, nothing);

  return {
    async refresh() {
      let s;
      try {
        s = await get(path("sessions", site, id));
      } catch (err) {
        if (err.code !== "unknown_session") throw err;
        s = null;
      }
      facts.replaceChildren(...(s ? describe(s) : []));
      table.update(s?.cookies ?? []);
      nothing.replaceChildren(...(s?.cookies.length > 0 ? [] : [empty("It holds no cookies.",
        h("p", null, "The next reply of the site that sets one fills it; Import takes them from a file, Log in runs the site's recipe."))]));
    },
  };
}

function describe(s) {
  const fact = (name, ...value) => h("div", null, h("dt", null, name), h("dd", null, ...value));
  const l = s.login;
  return [
    fact("State", stateBadge(s)),
    fact("Login", loginBadge(l), l.rule && h("span", { class: "muted" }, ` ${l.rule}`)),
    l.error && fact("Why it fails", `${l.error} (${l.failures} in a row)`, l.next_try && [", next try ", moment(l.next_try, "left")]),
    fact("Used by", user(s.last_use)),
    fact("Last used", moment(s.last_use?.at ?? s.used)),
    s.created && fact("Age", moment(s.created, "age")),
    s.expires && fact("Ends, unless used", moment(s.expires, "left")),
    s.revoked && fact("Revoked", moment(s.revoked)),
  ].filter(Boolean);
}

function attributes(c) {
  const words = [c.secure && "Secure", c.http_only && "HttpOnly", c.same_site && `SameSite=${c.same_site[0].toUpperCase()}${c.same_site.slice(1)}`, c.partitioned && "Partitioned"];
  return words.filter(Boolean).map((w) => [badge(w), " "]);
}
