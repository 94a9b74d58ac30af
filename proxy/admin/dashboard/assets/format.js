// Numbers and times as people read them.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");

/** 12,345 */
export const number = (n) => whole.format(n);

/** 3 cookies, 1 cookie */
export const count = (n, thing) => `${number(n)} ${thing}${n === 1 ? "" : "s"}`;

/** Per second, with the digits that matter. */
export const rate = (n) => (n === 0 ? "0" : n < 10 ? n.toFixed(1) : number(Math.round(n)));

/** Seconds in the unit that fits: 120 µs, 3.4 ms, 1.2 s. */
export function seconds(x) {
  if (!x) return "–";
  if (x < 0.001) return `${Math.round(x * 1e6)} µs`;
  if (x < 1) return `${(x * 1e3).toFixed(x < 0.1 ? 1 : 0)} ms`;
  return `${x.toFixed(1)} s`;
}

/** A span of milliseconds in one or two units: 12 s, 3 min, 4 h, 2 d. */
export function span(ms) {
  const sec = Math.max(0, Math.round(ms / 1000));
  if (sec < 60) return `${sec} s`;
  if (sec < 3600) return `${Math.floor(sec / 60)} min`;
  if (sec < 86400) return `${Math.floor(sec / 3600)} h ${Math.floor((sec % 3600) / 60)} min`;
  return `${Math.floor(sec / 86400)} d ${Math.floor((sec % 86400) / 3600)} h`;
}

const forms = {
  ago: (t) => `${span(Date.now() - t)} ago`,
  age: (t) => span(Date.now() - t),
  left: (t) => (t > Date.now() ? `in ${span(t - Date.now())}` : "now"),
};

/** A time that goes on by itself: form is ago, age or left. */
export function moment(text, form = "ago") {
  if (!text) return "–";
  const t = Date.parse(text);
  return h("time", { datetime: text, "data-form": form, title: new Date(t).toLocaleString() }, forms[form](t));
}

/** The time of day. */
export const clock = (text) => {
  const t = new Date(text);
  return h("time", { datetime: text, title: t.toLocaleString() }, t.toLocaleTimeString("en-GB"));
};

/** Brings all moments on the page up to date. */
export function tick() {
  for (const el of document.querySelectorAll("time[data-form]")) {
    const now = forms[el.dataset.form](Date.parse(el.dateTime));
    if (el.textContent !== now) el.textContent = now;
  }
}
