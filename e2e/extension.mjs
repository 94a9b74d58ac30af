// A browser with an extension that may do what Cookie-Editor and EditThisCookie
// do: the JSON they keep is that of the extension API.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import puppeteer from "puppeteer-core";

const manifest = {
  manifest_version: 3,
  name: "cookies",
  version: "1",
  permissions: ["cookies"],
  host_permissions: ["<all_urls>"],
  background: { service_worker: "worker.js" },
};

// withExtension calls use with the browser and the extension's worker.
export async function withExtension(args, use) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), "extension-"));
  fs.writeFileSync(path.join(dir, "manifest.json"), JSON.stringify(manifest));
  fs.writeFileSync(path.join(dir, "worker.js"), "");
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM,
    args: [...args, `--proxy-server=${process.env.TUNNEL}`],
    pipe: true, // extensions want it
    enableExtensions: [dir],
  });
  try {
    const target = await browser.waitForTarget((t) => t.type() === "service_worker" && t.url().endsWith("worker.js"));
    await use(browser, await target.worker());
  } finally {
    await browser.close();
    fs.rmSync(dir, { recursive: true });
  }
}
