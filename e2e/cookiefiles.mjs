// Signs in by a browser that a driver steers, and writes the cookies to the
// file "out" as that driver's users do.
// Usage: CHROMIUM=PATH TUNNEL=URL node cookiefiles.mjs playwright|puppeteer|puppeteer-page|cdp|har|editor
import fs from "node:fs";
import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";
import { withExtension } from "./extension.mjs";

const [way] = process.argv.slice(2);
const login = "https://www.shop.test/login";
const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const { CHROMIUM: executablePath, TUNNEL: tunnel } = process.env;
const save = (cookies) => fs.writeFileSync("out", JSON.stringify(cookies));

if (way === "editor") {
  await withExtension(args, async (browser, extension) => {
    const page = await browser.newPage();
    await page.goto(login);
    const cookies = await extension.evaluate(() => chrome.cookies.getAll({ partitionKey: {} }));
    for (const cookie of cookies) { // Cookie-Editor, interface/lib/jsonFormat.js
      cookie.storeId = null;
      if (cookie.sameSite === "unspecified") cookie.sameSite = null;
    }
    save(cookies);
  });
} else if (way.startsWith("puppeteer")) {
  const browser = await puppeteer.launch({ executablePath, args: [...args, `--proxy-server=${tunnel}`] });
  try {
    const page = await browser.newPage();
    await page.goto(login);
    await page.goto("https://www.shop.test/account"); // page.cookies() is of the page's own path
    save(way === "puppeteer" ? await page.browserContext().cookies() : await page.cookies());
  } finally {
    await browser.close();
  }
} else {
  const browser = await chromium.launch({ executablePath, args, proxy: { server: tunnel } });
  try {
    const context = await browser.newContext(way === "har" ? { recordHar: { path: "out" } } : {});
    const page = await context.newPage();
    await page.goto(login);
    await page.goto("https://www.shop.test/account");
    if (way === "playwright") {
      await page.evaluate(() => localStorage.setItem("token", "kept"));
      await context.storageState({ path: "out" });
    }
    if (way === "cdp") {
      const cdp = await context.newCDPSession(page);
      save(await cdp.send("Network.getAllCookies"));
    }
    await context.close(); // writes the HAR
  } finally {
    await browser.close();
  }
}
