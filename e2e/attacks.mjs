// What a hostile page can try from the browser of an operator who is logged in
// at the admin API, and of a client of the proxy. Prints what each attempt came
// to, as one JSON line: status, text that was read, or the error's name.
// Usage: CHROMIUM=PATH node attacks.mjs < PLAN
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { proxy, client, admin, operator, pages, own } = JSON.parse(readFileSync(0, "utf8"));
const port = new URL(admin).port;
const revoke = `${admin}/api/v1/sessions/shop/boss/revoke`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    // The browser's own guard of local addresses must not hide what ours does.
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
    "--host-resolver-rules=MAP rebound.test 127.0.0.1",
  ],
});
const saw = {};
const went = async (page, url) => {
  try {
    const r = await page.goto(url);
    return [r.status(), r.headers()["proxy-status"] ?? "", await r.text()];
  } catch (e) {
    return [0, "", e.message.split("\n")[0]];
  }
};
try {
  // The admin is reached directly, everything else through the proxy.
  // Without the admin's own Content-Security-Policy, its page could not even log in.
  const context = await browser.newContext({ bypassCSP: true, proxy: { server: proxy, ...client, bypass: `127.0.0.1:${port},localhost:${port},rebound.test:${port},${own.replace("http://", "")}` } });
  const first = await context.newPage();
  await first.goto(`${admin}/api/v1/version`);
  saw.login = await first.evaluate(async (body) => {
    const headers = { "Content-Type": "application/json" };
    return (await fetch("/api/v1/login", { method: "POST", headers, body })).status;
  }, JSON.stringify({ ...operator, browser: true }));

  // Two tabs at once, each several times, stay logged in.
  const tabs = await Promise.all([context.newPage(), context.newPage()]);
  saw.tabs = await Promise.all(tabs.map(async (tab) => {
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await tab.goto(`${admin}/api/v1/me`)).status());
    return statuses;
  }));

  saw.pages = {};
  for (const url of [...pages, `${own}/page`]) {
    const page = await context.newPage();
    await page.goto(url);
    const attempts = await page.evaluate(async ({ admin, revoke }) => {
      const attempt = async (url, init) => {
        try {
          const r = await fetch(url, { credentials: "include", ...init });
          return r.type === "opaque" ? "opaque" : `${r.status} ${await r.text()}`;
        } catch (e) {
          return e.name;
        }
      };
      const put = (tag, properties) => document.body.appendChild(Object.assign(document.createElement(tag), properties));
      const form = async (method, action) => {
        const frame = put("iframe", { name: `frame-${Math.random()}` });
        const loaded = new Promise((done) => { frame.onload = done; });
        put("form", { method, action, target: frame.name }).submit();
        await Promise.race([loaded, new Promise((done) => setTimeout(done, 3000))]);
        return "sent";
      };
      return {
        read: await attempt(`${admin}/api/v1/sessions`),
        post: await attempt(revoke, { method: "POST", mode: "no-cors", body: "{}" }),
        json: await attempt(revoke, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }),
        form: await form("post", revoke),
        beacon: navigator.sendBeacon(revoke, "{}") ? "sent" : "refused",
      };
    }, { admin, revoke });
    // In place of the page itself, at last: a navigation from a foreign page.
    const answer = page.waitForResponse(revoke);
    await page.evaluate((action) => {
      const form = document.body.appendChild(Object.assign(document.createElement("form"), { method: "post", action }));
      form.submit();
    }, revoke);
    attempts.navigation = (await answer).status();
    saw.pages[url] = attempts;
  }

  // A page's script asks for another's session at its own origin.
  saw.sessions = {};
  for (const url of pages) {
    const page = await context.newPage();
    await page.goto(url);
    saw.sessions[url] = await page.evaluate(async () => (await fetch("/echo", { headers: { "X-Proxy-Session": "boss" } })).text());
  }

  saw.rebound = await went(await context.newPage(), `http://rebound.test:${port}/api/v1/me`);

  // The admin through the proxy: Chromium reads all these as one address.
  const through = await browser.newContext({ proxy: { server: proxy, ...client } });
  saw.through = {};
  for (const host of ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.1", "0.0.0.0"]) {
    saw.through[host] = await went(await through.newPage(), `http://${host}:${port}/api/v1/me`);
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
