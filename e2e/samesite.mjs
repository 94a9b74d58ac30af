// Every way in which a page can make a browser send a request, from each page
// of a plan, once in each of its contexts. The ways "open-…" open a page at the
// top, the others do not leave the page. What was sent, the origin notes; this
// prints what the pages' scripts could read, as JSON: path of a request → text.
// Usage: CHROMIUM=PATH node samesite.mjs PROFILE < PLAN
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const profile = process.argv[2];
const plan = JSON.parse(readFileSync(0, "utf8"));

// Runs in the page: all that does not leave it. chains are redirectors: what
// follows them is where they lead to. Returns the ways taken and what was read.
const loadAll = async ({ base, chains }) => {
  const ways = {}; // name → function of the URL to ask for
  const reads = {};
  const put = (tag, properties) => document.body.appendChild(Object.assign(document.createElement(tag), properties));

  ways["img"] = (src) => put("img", { src });
  ways["img-anonymous"] = (src) => put("img", { crossOrigin: "anonymous", src });
  ways["img-credentials"] = (src) => put("img", { crossOrigin: "use-credentials", src });
  ways["script"] = (src) => put("script", { src });
  ways["module"] = (src) => put("script", { type: "module", src });
  ways["stylesheet"] = (href) => put("link", { rel: "stylesheet", href });
  ways["prefetch"] = (href) => put("link", { rel: "prefetch", href });
  ways["import"] = (src) => void import(src).catch(() => {});
  ways["font"] = (src) => void new FontFace("f", `url("${src}")`).load().catch(() => {});
  ways["preload"] = (href) => put("link", { rel: "preload", as: "fetch", crossOrigin: "anonymous", href });
  ways["video"] = (src) => put("video", { src });
  ways["iframe"] = (src) => put("iframe", { src });
  ways["iframe-noreferrer"] = (src) => put("iframe", { referrerPolicy: "no-referrer", src });
  ways["object"] = (data) => put("object", { data });
  for (const method of ["get", "post"]) {
    ways[`form-${method}-in-frame`] = (action) => {
      const frame = put("iframe", { name: action });
      put("form", { method, action, target: frame.name }).submit();
    };
  }
  ways["ping"] = (ping) => put("a", { href: "#", ping }).click();
  ways["beacon"] = (url) => navigator.sendBeacon(url, "x");
  ways["websocket"] = (url) => void new WebSocket(url.replace(/^http/, "ws"));

  const read = (url, text) => text.then((t) => { reads[new URL(url).pathname] = t; }, () => {});
  const fetched = (url, init, by = "") => read(url, fetch(by ? by + encodeURIComponent(url) : url, init).then((r) => r.text()));
  for (const credentials of ["omit", "same-origin", "include"]) {
    const post = { method: "POST", body: "x", credentials };
    ways[`fetch-nocors-${credentials}`] = (url) => fetched(url, { mode: "no-cors", credentials });
    ways[`fetch-nocors-post-${credentials}`] = (url) => fetched(url, { mode: "no-cors", ...post });
    for (const cors of ["star", "echo"]) {
      ways[`fetch-${credentials}-${cors}`] = (url) => fetched(url, { credentials });
      ways[`fetch-post-${credentials}-${cors}`] = (url) => fetched(url, post);
      ways[`fetch-preflight-${credentials}-${cors}`] = (url) => fetched(url, { headers: { "X-Asked": "1" }, credentials });
      ways[`fetch-put-${credentials}-${cors}`] = (url) => fetched(url, { ...post, method: "PUT" });
    }
  }
  const xhr = (url, withCredentials) => read(url, new Promise((resolve, reject) => {
    const x = Object.assign(new XMLHttpRequest(), { onload: () => resolve(x.responseText), onerror: reject });
    x.open("GET", url);
    x.withCredentials = withCredentials;
    x.send();
  }));
  const events = (url, withCredentials) => read(url, new Promise((resolve, reject) => {
    const s = new EventSource(url, { withCredentials });
    s.onmessage = (m) => { s.close(); resolve(m.data); };
    s.onerror = () => { s.close(); reject(); };
  }));
  for (const cors of ["star", "echo"]) {
    ways[`xhr-plain-${cors}`] = (url) => xhr(url, false);
    ways[`xhr-credentials-${cors}`] = (url) => xhr(url, true);
    ways[`eventsource-plain-${cors}`] = (url) => events(url, false);
    ways[`eventsource-credentials-${cors}`] = (url) => events(url, true);
  }
  for (const [chain, by] of Object.entries(chains)) {
    ways[`fetch-omit-star-${chain}`] = (url) => fetched(url, { credentials: "omit" }, by);
    ways[`img-${chain}`] = (url) => put("img", { src: by + encodeURIComponent(url) });
    ways[`iframe-${chain}`] = (url) => put("iframe", { src: by + encodeURIComponent(url) });
    ways[`fetch-include-echo-${chain}`] = (url) => fetched(url, { credentials: "include" }, by);
  }
  await Promise.all(Object.entries(ways).map(([name, take]) => take(base + name)));
  return { taken: Object.keys(ways), reads };
};

// Runs in the page: opens a page in the window of that name.
const open = ({ how, url, target }) => {
  const put = (tag, properties) => document.body.appendChild(Object.assign(document.createElement(tag), { target, ...properties }));
  switch (how) {
    case "link": return put("a", { href: url }).click();
    case "link-noreferrer": return put("a", { href: url, rel: "noreferrer" }).click();
    case "window": return void window.open(url, target);
    case "location": window.open("", target).location = url; return;
    default: return put("form", { action: url, method: how }).submit();
  }
};

// One context's walk over the pages.
const walk = async (browser, { name, proxy, cookies }, reads) => {
  const context = await browser.newContext({ proxy: { server: proxy } });
  const page = await context.newPage();
  for (const { page: address, inFrame, from, to } of plan.cells) {
    await context.clearCookies(); // what was set anew is young
    await context.addCookies(cookies);
    await page.goto(address);
    const initiator = inFrame ? page.frames()[1] : page;
    const base = `${to}://shop.test/t/${name}/${from}/${to}/`;
    const chains = {
      "via-own": `${to}://shop.test/hop?to=`,
      "via-foreign": `${to}://evil.test/hop?to=`,
      "via-own-and-foreign": `${to}://shop.test/hop?to=${encodeURIComponent(`${to}://evil.test/hop?to=`)}`,
    };
    const opens = [["link", "link"], ["location", "location"], ["form-get", "get"], ["form-post", "post"]];
    for (const [chain, by] of Object.entries(chains)) {
      opens.push([`link-${chain}`, "link", by], [`form-post-${chain}`, "post", by]);
    }

    // An https page loads nothing from http, and of a form it would ask the user.
    const downgrade = address.startsWith("https:") && to === "http";
    if (!downgrade) {
      const { taken, reads: more } = await initiator.evaluate(loadAll, { base, chains });
      Object.assign(reads, more);
      const r = await fetch(plan.seen, { method: "POST", body: JSON.stringify(taken.map((way) => new URL(base + way).pathname)) });
      if (!r.ok) throw new Error(await r.text());
    }
    const [beside] = await Promise.all([
      context.waitForEvent("page"),
      initiator.evaluate(open, { how: "window", url: `${base}open-window`, target: "beside" }),
    ]);
    await beside.waitForURL(`${base}open-window`, { waitUntil: "commit" });
    // Until the page sees that its window is another process's, what it opens there is lost.
    await initiator.waitForFunction(() => {
      try {
        return window.open("", "beside").location.href !== "about:blank";
      } catch {
        return true;
      }
    });
    for (const [way, how, by] of opens) {
      if (downgrade && (how === "get" || how === "post")) continue;
      const url = `${base}open-${way}`;
      await Promise.all([
        beside.waitForURL((at) => at.href.startsWith(url), { waitUntil: "commit" }), // a form adds a "?"
        initiator.evaluate(open, { how, url: by ? by + encodeURIComponent(url) : url, target: "beside" }),
      ]);
    }
    const last = base + (inFrame ? "link-noreferrer-in-frame" : "open-link-noreferrer");
    await Promise.all([
      initiator.waitForURL(last),
      initiator.evaluate(open, { how: "link-noreferrer", url: last, target: "_self" }),
    ]);
    await beside.close();
  }
};

mkdirSync(join(profile, "Default"));
writeFileSync(join(profile, "Default", "Preferences"), JSON.stringify({
  profile: { cookie_controls_mode: 0 }, // third-party cookies go: SameSite alone decides
}));
const main = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
const reads = {};
try {
  await Promise.all(plan.contexts.map((c) => walk(main.browser(), c, reads)));
} finally {
  await main.close();
}
console.log(JSON.stringify(reads));
