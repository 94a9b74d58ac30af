// An operator at the dashboard of two proxies. Prints what was seen, as one
// JSON line.
// Usage: CHROMIUM=PATH node dashboard.mjs ADMIN PROXY PID TOKEN
// PROXY is the first proxy's port and ADMIN its dashboard; PID is the second one.
import http from "node:http";
import axe from "axe-core";
import { chromium } from "playwright-core";

const [admin, proxy, pid, token] = process.argv.slice(2);
const origin = new URL(admin).origin;
const views = ["", "sessions", "sessions/shop/default", "exchanges", "upstreams", "captcha", "logins", "events", "setup"];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const saw = { faults: [], foreign: [], wide: [], axe: [] };

/** A client's request through the proxy. */
const request = (user, url) => new Promise((resolve, reject) => {
  const { hostname, port } = new URL(proxy);
  const headers = { Host: new URL(url).host, "Proxy-Authorization": `Basic ${btoa(`${user}:x`)}` };
  http.get({ hostname, port, path: url, headers }, (r) => r.resume().on("end", () => resolve(r.statusCode))).on("error", reject);
});

async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  // What the policy does not let happen is told there, as are errors of scripts.
  page.on("console", (m) => m.type() === "error" && !/status of 40[14]/.test(m.text()) && saw.faults.push(m.text()));
  page.on("pageerror", (e) => saw.faults.push(String(e)));
  page.on("request", (r) => { const u = new URL(r.url()); if (u.origin !== origin && u.protocol !== "blob:") saw.foreign.push(r.url()); });
  await page.goto(admin);
  await page.waitForSelector(".signin");
  return page;
}

async function logIn(page, name, password) {
  await page.getByLabel("Operator").check();
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** What axe finds that keeps people out. */
async function check(page, where) {
  await page.evaluate(axe.source);
  const { passes, violations } = await page.evaluate(() => window.axe.run(document));
  if (passes.length < 10) saw.axe.push(`${where}: only ${passes.length} rules had something to look at`);
  for (const v of violations) {
    if (v.impact === "serious" || v.impact === "critical") saw.axe.push(`${where}: ${v.id}: ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`);
  }
}

async function visit(page, view) {
  await page.goto(`${admin}#/${view}`);
  await page.waitForFunction((v) => location.hash === `#/${v}` && document.querySelector("h1") && !document.querySelector("#fault"), view);
  await page.waitForTimeout(200); // for what the view asks for
}

try {
  const page = await open({});
  saw.policy = (await page.request.get(admin)).headers()["content-security-policy"];
  await check(page, "log in");
  await logIn(page, "ana", "wrong");
  saw.wrong = await page.locator(".signin .fault").filter({ hasText: /./ }).textContent();
  await logIn(page, "ana", "s3cretOfAna");

  // The keyboard begins at a way past the menu.
  await page.getByRole("table", { name: "Proxies" }).waitFor();
  await page.reload();
  await page.getByRole("table", { name: "Proxies" }).waitFor();
  await page.keyboard.press("Tab");
  saw.firstTab = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Enter");
  saw.skipped = await page.evaluate(() => document.activeElement.id);

  // The proxies: two, and one when the other is stopped.
  const proxies = page.getByRole("table", { name: "Proxies" }).locator("tbody tr");
  await proxies.nth(1).waitFor();
  process.kill(pid, "SIGINT");
  await proxies.nth(1).waitFor({ state: "detached" });
  saw.proxies = await proxies.count();

  // A session comes, by itself.
  await visit(page, "sessions");
  saw.empty = await page.locator(".empty .strong").textContent();
  await request("crawler-worker-w7", "http://shop.test/set");
  const row = page.getByRole("row").filter({ hasText: "crawler w7" });
  await row.waitFor();
  saw.row = (await row.textContent()).replace(/\s+/g, " ");
  await row.getByRole("link").click();
  await page.getByRole("cell", { name: "sid" }).waitFor();
  saw.secret = (await page.content()).includes("THEVALUE");

  // It is exported, revoked by keyboard, and the event is there.
  await page.getByRole("button", { name: "Export" }).click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("dialog").getByRole("button", { name: "Export" }).click()]);
  saw.file = download.suggestedFilename();
  await page.getByRole("button", { name: "Revoke" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await check(page, "dialog");
  await page.keyboard.press("Escape");
  saw.focusBack = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  saw.said = await page.getByRole("status").filter({ hasText: "Revoked" }).locator("span").last().textContent();
  await page.locator(".facts .badge", { hasText: "revoked" }).waitFor();
  await visit(page, "events");
  saw.event = (await page.getByRole("row").filter({ hasText: "/revoke" }).first().textContent()).replace(/\s+/g, " ");

  // Why a request went as it did.
  await visit(page, "exchanges");
  await page.getByRole("button", { name: "Why GET shop.test/set went so" }).click();
  await page.getByRole("dialog").getByRole("cell", { name: "captured", exact: true }).first().waitFor();
  await check(page, "why");
  saw.secret ||= (await page.content()).includes("THEVALUE");
  await page.keyboard.press("Escape");

  // Cookies of a file go into it.
  await visit(page, "sessions/shop/default");
  await page.getByRole("button", { name: "Import" }).click();
  await page.getByLabel("Or its text").fill("shop.test\tFALSE\t/\tFALSE\t0\ttheme\tdark\n");
  await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
  await page.getByRole("cell", { name: "theme" }).waitFor();
  await visit(page, "setup");
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Reload" }).click();
  saw.reloaded = await page.getByRole("status").filter({ hasText: "in force" }).locator("span").last().textContent();

  // Nobody is kept out, in either colour scheme, nor on a phone.
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const view of views) {
      await visit(page, view);
      await check(page, `${view} ${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 360, height: 740 });
  for (const view of views) {
    await visit(page, view);
    const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    if (wide > screen) saw.wide.push(`${view}: ${wide} of ${screen}`);
  }

  // A viewer sees the same, and no button that he may not press.
  const viewer = await open({});
  await logIn(viewer, "vic", "s3cretOfVic");
  saw.viewer = [];
  for (const view of views) {
    await visit(viewer, view);
    saw.viewer.push(...await viewer.locator("main button:visible").allTextContents());
  }

  // Whoever has the admin token is let in by it, and out.
  const holder = await open({});
  await holder.getByLabel("Admin token").first().check();
  await holder.locator("input[name=token]").fill(token);
  await holder.getByRole("button", { name: "Log in" }).click();
  await holder.locator(".who .name", { hasText: "admin token" }).waitFor();
  await holder.getByRole("button", { name: "Log out" }).click();
  await holder.waitForSelector(".signin");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
