// How long the first page of many sessions takes, in milliseconds.
// Usage: CHROMIUM=PATH node dashboard_many.mjs ADMIN TOKEN
import { chromium } from "playwright-core";

const [admin, token] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const saw = {};
try {
  const page = await (await browser.newContext()).newPage();
  await page.goto(admin);
  await page.locator("input[name=token]").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("table", { name: "Proxies" }).waitFor();
  const begun = performance.now();
  await page.goto(`${admin}#/sessions`);
  await page.getByRole("row").nth(50).waitFor();
  saw.first = Math.round(performance.now() - begun);
  saw.total = await page.locator(".pager span").textContent();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByRole("button", { name: "Previous" }).and(page.locator(":enabled")).waitFor();
  const searched = performance.now();
  await page.getByRole("searchbox").fill("s09999");
  await page.locator(".pager span", { hasText: /^1 session$/ }).waitFor();
  saw.search = Math.round(performance.now() - searched);
  saw.found = await page.getByRole("row").nth(1).getByRole("link").textContent();
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
