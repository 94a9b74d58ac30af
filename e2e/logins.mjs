// Three browser contexts that know nothing of each other. Two send a site's login
// form at once, with a captcha that nobody solved; the third comes afterwards.
// Prints what each saw, as one JSON line.
// Usage: CHROMIUM=PATH node logins.mjs PROXY ORIGIN
import { launch } from "./browser.mjs";

const [proxy, origin] = process.argv.slice(2);
const browser = await launch(proxy);

const open = async (path) => {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(90_000); // longer than a captcha takes
  await page.goto(origin + path);
  return page;
};
const seen = async (page) => `${new URL(page.url()).pathname}: ${await page.textContent("h1")}`;

const saw = {};
try {
  const a = await open("/account");
  const b = await open("/login");
  saw.before = await seen(a);
  for (const page of [a, b]) {
    await page.fill("input[name=user]", "alice");
    await page.fill("input[name=password]", "wonderland");
  }
  await Promise.all([a, b].flatMap((page) => [page.waitForEvent("load"), page.click("button")]));
  saw.a = await seen(a);
  saw.b = await seen(b);
  saw.c = await seen(await open("/account"));
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
