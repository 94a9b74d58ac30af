// What operators do to sessions, each asked for once.

import { h } from "./dom.js";
import { call, path, post } from "./api.js";
import { count } from "./format.js";
import { ask, say } from "./ask.js";

const changed = (result) => { if (result !== null) dispatchEvent(new Event("changed")); };
const at = (site, session, ...more) => path("sessions", site, session, ...more);

export const revoke = (site, session) => ask({
  title: `Revoke ${session} of ${site}?`,
  text: "It ends for all its clients, for good: their copies of its cookies are not sent any more, and its tunnels close.",
  verb: "Revoke", danger: true,
  run: () => post(at(site, session, "revoke")),
  done: (r) => `Revoked the session ${r.session} of ${r.site}, which held ${count(r.cookies, "cookie")}.`,
}).then(changed);

export const clear = (site, session) => ask({
  title: `Clear ${session} of ${site}?`,
  text: "Its cookies are forgotten. Replies that are under way, and the next login, fill it anew.",
  verb: "Clear", danger: true,
  run: () => call("DELETE", at(site, session)),
  done: (r) => `Cleared the session ${r.session} of ${r.site}, which held ${count(r.cookies, "cookie")}.`,
}).then(changed);

export const logIn = (site, session) => ask({
  title: `Log in to ${session} of ${site}?`,
  text: "The proxy runs the site's recipe now, and waits for its end.",
  verb: "Log in",
  run: async () => {
    const r = await post(at(site, session, "login"));
    if (r.error) throw new Error(`The login failed at step ${r.steps.length}: ${r.error}`);
    return r;
  },
  done: (r) => `Logged in to the session ${r.session} of ${r.site}, in ${count(r.steps.length, "step")}.`,
}).then(changed);

export const importCookies = (site, session) => {
  const text = h("textarea", { name: "file", rows: 6, spellcheck: "false", required: true });
  const file = h("input", { type: "file", onchange: async () => { if (file.files[0]) text.value = await file.files[0].text(); } });
  return ask({
    title: `Import cookies into ${session} of ${site}`,
    text: "Of a file: cookies.txt, the JSON of Playwright, Puppeteer, Selenium, the DevTools Protocol or a browser extension, or a HAR. They are merged with those that the session holds.",
    verb: "Import",
    fields: [
      h("label", { class: "field" }, h("span", null, "File"), file),
      h("label", { class: "field" }, h("span", null, "Or its text"), text),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "replace" }), "Remove what the session holds and the file does not"),
    ],
    run: async (form) => {
      const r = await post(at(site, session, "cookies", "import"), { file: form.get("file"), replace: form.has("replace"), dry_run: false });
      if (r.taken === 0) throw new Error(`No cookie was taken, and nothing changed. ${reasons(r.cookies)}`);
      return r;
    },
    done: (r) => `Imported ${count(r.taken, "cookie")} into the session ${r.session} of ${r.site}; ${r.refused} refused, ${r.removed.length} removed. ${reasons(r.cookies)}`,
  }).then(changed);
};

/** Why cookies were refused, each reason once. */
function reasons(cookies) {
  const all = new Set(cookies.filter((c) => c.result === "refused").map((c) => `${c.name}: ${c.reason}.`));
  return [...all].slice(0, 5).join(" ");
}

export const exportCookies = (site, session) => ask({
  title: `Export the cookies of ${session} of ${site}?`,
  text: "The file holds their values: whoever has it is logged in. This is written to the audit log.",
  verb: "Export",
  fields: [h("label", { class: "field" }, h("span", null, "Format"), h("select", { name: "format" },
    [["netscape", "cookies.txt"], ["playwright", "Playwright"], ["puppeteer", "Puppeteer"], ["selenium", "Selenium"], ["cdp", "DevTools Protocol"], ["editor", "Browser extension"]]
      .map(([value, name]) => h("option", { value }, name))))],
  run: async (form) => {
    const format = form.get("format");
    const r = await post(`${at(site, session, "cookies", "export")}?format=${format}`);
    const name = `${site}-${session}.${format === "netscape" ? "txt" : "json"}`.replaceAll("/", "-");
    const url = URL.createObjectURL(new Blob([r.file]));
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    return { name, n: r.cookies.length, remarks: r.remarks ?? [] };
  },
  done: (r) => `Exported ${count(r.n, "cookie")} to ${r.name}. ${r.remarks.join(" ")}`,
});

export const releaseLease = (pool, owner) => ask({
  title: `Release the lease of ${owner}?`,
  text: `Once its requests under way have ended, the owner asks the pool ${pool} for an upstream anew, and may get another.`,
  verb: "Release",
  run: () => post(path("upstreams", pool, "release"), { owner }),
  done: (r) => `Released ${count(r.leases.length, "lease")} of the pool ${r.pool}.`,
}).then(changed);

export const removeUpstream = (u) => ask({
  title: `Remove ${u.url} from ${u.pool}?`,
  text: "Requests under way finish, and no others leave by it." + (u.source === "config" ? " It is declared in the configuration, and is back after the next start." : ""),
  verb: "Remove", danger: true,
  run: () => call("DELETE", path("upstreams", u.pool, u.id)),
  done: (r) => `Removed ${r.url} from the pool ${r.pool}.`,
}).then(changed);

/** Changes nothing but what is known of the upstream, and so does not ask. */
export async function checkUpstream(u) {
  try {
    const r = await post(path("upstreams", u.pool, u.id, "check"));
    const how = { ok: `answered ${r.status || "its connection"} in ${r.millis} ms`, failed: `failed: ${r.error}`, in_use: "is in use, and was not checked" }[r.result];
    say(`${r.url} ${how}.`, r.result === "failed" ? "bad" : "ok");
  } catch (err) {
    say(err.message, "bad");
  }
  dispatchEvent(new Event("changed"));
}

export const warmTokens = (site, t) => ask({
  title: `Solve captcha tokens for ${site}?`,
  text: "Each solve may be paid for, and counts to the site's budget of this hour.",
  verb: "Solve",
  fields: [h("label", { class: "field" }, h("span", null, "Tokens"), h("input", { type: "number", name: "tokens", min: 1, max: 100, value: 1, required: true }))],
  run: (form) => post(path("captcha", site, "warm"), { sitekey: t.sitekey, action: t.action ?? "", tokens: Number(form.get("tokens")) }),
  done: (r) => `${count(r.tokens, "token")} of ${r.site} ${r.tokens === 1 ? "is" : "are"} being solved.`,
}).then(changed);

export const flushTokens = (site, t) => ask({
  title: `Forget the tokens of ${site}?`,
  text: `The ${count(t.ready, "token")} that ${t.ready === 1 ? "is" : "are"} ready for ${t.sitekey} will be solved, and paid for, anew.`,
  verb: "Forget", danger: true,
  run: () => call("DELETE", `${path("captcha", site, "tokens")}?${new URLSearchParams({ sitekey: t.sitekey, action: t.action ?? "" })}`),
  done: (r) => `Forgot ${count(r.tokens, "token")} of ${r.site}.`,
}).then(changed);

export const reload = () => ask({
  title: "Read the configuration anew?",
  text: "It is put in force at once, unless it has faults: then the old one stays.",
  verb: "Reload",
  run: async () => {
    const c = await post("config/reload");
    if (c.faults.length > 0) throw new Error(`The old configuration stays in force. ${c.faults.map((f) => `${f.where}: ${f.message}`).join("; ")}`);
    return c;
  },
  done: () => "The configuration was read anew and is in force.",
}).then(changed);

export const logOutDevice = (d) => ask({
  title: `Log ${d.operator} out?`,
  text: `${d.name}, last used from ${d.from}, is logged out on all proxies.`,
  verb: "Log out", danger: true,
  run: () => call("DELETE", path("devices", d.id)).then(() => d),
  done: () => `Logged ${d.operator} out of ${d.name}.`,
}).then(changed);
