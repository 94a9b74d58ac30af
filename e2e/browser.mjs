// The system's Chromium behind a proxy, asking for little by itself.
import { chromium } from "playwright-core";

export const launch = (proxy) => chromium.launch({
  executablePath: process.env.CHROMIUM,
  proxy: { server: proxy },
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
