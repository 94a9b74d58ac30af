// Whatever changes something asks once, and says what it did.

import { h, button } from "./dom.js";

/** Tells in words what was done. Screen readers hear it, too. */
export function say(text, tone = "ok") {
  const note = h("p", { class: `note ${tone}` }, h("span", null, text), button("Dismiss", () => note.remove(), { class: "quiet" }));
  const said = document.getElementById("said");
  said.append(note);
  while (said.children.length > 4) said.firstChild.remove();
  setTimeout(() => note.remove(), 12_000);
}

/**
 * Asks in a dialog, does it, and says so.
 * @param {object} o
 * @param {string} o.title the question
 * @param {string} o.text what it means
 * @param {string} o.verb the word on the button
 * @param {boolean} [o.danger] it cannot be undone
 * @param {Node[]} [o.fields] what it has to be told
 * @param {(form: FormData) => Promise<any>} o.run
 * @param {(result: any) => string} o.done the sentence on what was done
 */
export function ask(o) {
  return new Promise((resolve) => {
    const fault = h("p", { class: "fault", role: "alert" });
    const go = h("button", { type: "submit", class: o.danger ? "danger" : "primary" }, o.verb);
    const form = h("form", { method: "dialog" },
      h("h2", { id: "ask-title" }, o.title),
      h("p", { id: "ask-text" }, o.text),
      o.fields ?? [],
      fault,
      h("div", { class: "buttons" }, button("Cancel", () => dialog.close()), go));
    const dialog = h("dialog", { "aria-labelledby": "ask-title", "aria-describedby": "ask-text" }, form);
    let result = null;
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      fault.textContent = "";
      go.disabled = true;
      dialog.setAttribute("aria-busy", "true");
      try {
        result = await o.run(new FormData(form));
        dialog.close();
        say(o.done(result));
      } catch (err) {
        fault.textContent = err.message;
      } finally {
        go.disabled = false;
        dialog.removeAttribute("aria-busy");
      }
    });
    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      else document.getElementById("main").focus();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
