// Elements made by hand: text is text, and never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(el, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else el.setAttribute(name, value === true ? "" : value);
  }
  el.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false && c !== ""));
  return el;
}

/** An element of HTML. Attributes that begin with "on" are listeners. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** A word with a colour of its own: ok, warn, bad, or none of them. */
export const badge = (word, tone = "") => h("span", { class: `badge ${tone}` }, word);

/** A button. */
export const button = (label, onclick, attributes = {}) => h("button", { type: "button", onclick, ...attributes }, label);

/** What a page without rows says: what they are, and how to get the first. */
export const empty = (title, ...hints) => h("div", { class: "empty" }, h("p", { class: "strong" }, title), ...hints);

/** Lines to type, or to write into the configuration. */
export const code = (text) => h("pre", { tabindex: "0" }, h("code", null, text));

/** A part of a page with its heading. */
export const section = (title, ...children) => h("section", { "aria-label": title }, h("h2", null, title), ...children);

/** Waits until nobody has called for so many milliseconds. */
export function debounce(call, ms) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}
