// A page's form with a captcha that nobody solved, sent in each way that pages
// know. Prints what the site answered to each, as one JSON line.
// Usage: CHROMIUM=PATH node forms.mjs PROXY PAGE
import { launch } from "./browser.mjs";

const [proxy, address] = process.argv.slice(2);
const browser = await launch(proxy);

// Each runs in the page, but for the native one.
const ways = {
  formData: async () => {
    const form = new FormData(document.forms[0]);
    form.append("upload", new Blob(["a\r\n--file"]), "ä.txt");
    return await (await fetch("/submit", { method: "POST", body: form })).text();
  },
  json: async () => {
    const fields = Object.fromEntries(new FormData(document.forms[0]));
    return await (await fetch("/submit", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) })).text();
  },
  xhr: () => new Promise((done) => {
    const xhr = new XMLHttpRequest();
    xhr.open("POST", "/submit");
    xhr.onloadend = () => done(xhr.responseText);
    xhr.send(new URLSearchParams(new FormData(document.forms[0])));
  }),
};
const saw = {};
try {
  await Promise.all(["native", ...Object.keys(ways)].map(async (way) => {
    const page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(60_000);
    await page.goto(address);
    if (way === "native") {
      await Promise.all([page.waitForURL("**/submit"), page.click("button")]);
      saw[way] = await page.textContent("body");
    } else {
      saw[way] = await page.evaluate(ways[way]);
    }
  }));
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
