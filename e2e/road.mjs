// Two browser contexts that know nothing of each other, behind the demo's
// proxy. Prints what each of them saw, as one JSON line.
// Usage: CHROMIUM=PATH node road.mjs PROXY ASKING_PROXY ADMIN
// A browser names itself only where it is asked to, hence the second proxy.
import { launch } from "./browser.mjs";

const [proxy, asking, admin] = process.argv.slice(2);
const browser = await launch(proxy);
const saw = {};
try {
  const context = (session) => browser.newContext(
    session ? { proxy: { server: asking, username: `browser-session-${session}`, password: "" } } : {});
  const textOf = async (page, url) => {
    await page.goto(url);
    return (await page.textContent("body")).replace(/\s+/g, " ").trim();
  };

  const a = await (await context()).newPage();
  await a.goto("https://shop.test/account");
  saw.sentTo = new URL(a.url()).pathname;
  await a.fill("input[name=user]", "alice");
  await a.fill("input[name=password]", "wonderland");
  await a.click("form[action=\"/login\"] button");
  await a.waitForURL("**/account");
  saw.a = await textOf(a, "https://shop.test/account");

  const b = await (await context()).newPage();
  saw.b = await textOf(b, "https://shop.test/account");

  const qa = await (await context("qa1")).newPage();
  await qa.goto("https://shop.test/account");
  saw.qa1 = new URL(qa.url()).pathname;

  // A page of the proxied browser turns on the admin API.
  saw.admin = await a.evaluate(async (origin) => {
    const attempt = async (url, init) => {
      try {
        const r = await fetch(url, init);
        return `${r.type} ${r.status}`;
      } catch (e) {
        return e.name;
      }
    };
    return [
      await attempt(`${origin}/api/v1/sessions`),
      await attempt(`${origin}/api/v1/sessions`, { mode: "no-cors" }),
      await attempt(`${origin}/api/v1/sessions`, { headers: { Authorization: "Bearer guess" } }),
      await attempt(`${origin}/proxy.pac`),
    ];
  }, admin);
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
