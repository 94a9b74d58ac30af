// The frame: who is logged in, where one is, and what is asked for anew.

import { h, button, debounce } from "./dom.js";
import { get, post } from "./api.js";
import { tick } from "./format.js";
import { deafen, listen } from "./live.js";
import * as signin from "./signin.js";
import * as overview from "./views/overview.js";
import * as sessions from "./views/sessions.js";
import * as session from "./views/session.js";
import * as exchanges from "./views/exchanges.js";
import * as upstreams from "./views/upstreams.js";
import * as captcha from "./views/captcha.js";
import * as logins from "./views/logins.js";
import * as events from "./views/events.js";
import * as setup from "./views/setup.js";

/** Each view exports title and open(root, me, ...parts), which returns refresh and, maybe, close. */
const views = { "": overview, sessions, exchanges, upstreams, captcha, logins, events, setup };
const EVERY = 5000;

const main = document.getElementById("main");
const top = document.getElementById("top");
let me = null;
let shown = null; // what open returned
let busy = false;

/** Where the address leads: #/view/part/part. */
function place() {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  if (name === "sessions" && parts.length === 2) return { name, view: session, parts };
  return { name: views[name] ? name : "", view: views[name] ?? overview, parts };
}

function show() {
  shown?.close?.();
  const { name, view, parts } = place();
  for (const a of top.querySelectorAll("nav a")) {
    if (a.dataset.view === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${view.title} · sessionproxy`;
  const root = h("div", { class: `view ${name}` });
  main.replaceChildren(root);
  shown = view.open(root, me, ...parts);
  refresh();
}

async function refresh() {
  if (busy || !shown) return;
  busy = true;
  const asked = shown;
  try {
    await asked.refresh();
    fault("");
  } catch (err) {
    if (asked === shown) fault(err.message);
  } finally {
    busy = false;
    if (asked !== shown) refresh();
  }
}

/** Says above the view what is wrong, as long as it is. */
function fault(text) {
  let el = document.getElementById("fault");
  if (!text) return el?.remove();
  if (!el) main.prepend(el = h("p", { id: "fault", class: "fault bar", role: "alert" }));
  if (el.textContent !== text) el.textContent = text;
}

function frame() {
  const state = h("span", { class: "live muted", role: "status" }, "Connecting");
  top.replaceChildren(
    h("a", { class: "brand", href: "#/" }, "sessionproxy"),
    h("nav", { "aria-label": "Views" }, Object.entries(views).map(([name, v]) => h("a", { href: `#/${name}`, "data-view": name }, v.title))),
    h("div", { class: "who" }, state,
      h("span", { class: "name", title: me.role }, me.name === "token" ? "admin token" : me.name, me.role === "viewer" && " (viewer)"),
      button("Log out", async () => { await post("logout").catch(() => {}); leave(); }, { class: "quiet" })));
  listen((there) => {
    state.textContent = there ? "Live" : "Reconnecting";
    state.classList.toggle("on", there);
  });
}

function leave() {
  if (me === null) return;
  me = null;
  deafen();
  shown?.close?.();
  shown = null;
  start();
}

async function start() {
  try {
    me = await get("me");
  } catch (err) {
    top.replaceChildren(h("span", { class: "brand" }, "sessionproxy"));
    document.title = "Log in · sessionproxy";
    signin.open(main, err.status === 401 ? "" : err.message, start);
    return;
  }
  frame();
  show();
}

document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  if (me === null) return;
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
addEventListener("signed-out", leave);
addEventListener("audit", debounce(refresh, 150));
addEventListener("changed", refresh); // an action was done
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || refresh(), EVERY);
setInterval(tick, 1000);
start();
