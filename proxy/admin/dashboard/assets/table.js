// A table that is filled again and again: rows that stay are kept, with the
// focus in them, and only those that changed are written anew.

import { h } from "./dom.js";

export class Table {
  /**
   * @param {string} caption what the rows are, for those who do not see it
   * @param {{label: string, cell: (row: any) => any, num?: boolean, grow?: boolean}[]} columns
   * @param {(row: any) => string} key tells rows apart
   */
  constructor(caption, columns, key) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    // The roles are said, since narrow screens show rows as blocks, which take them away.
    this.body = h("tbody", { role: "rowgroup" });
    this.el = h("div", { class: "sheet" },
      h("table", { role: "table", "aria-label": caption },
        h("thead", { role: "rowgroup" },
          h("tr", { role: "row" }, columns.map((c) => h("th", { role: "columnheader", scope: "col", class: c.num && "num" }, c.label || h("span", { class: "unseen" }, "Actions"))))),
        this.body));
  }

  update(list) {
    const kept = new Map();
    let at = this.body.firstChild;
    for (const row of list) {
      const key = this.key(row);
      const state = JSON.stringify(row);
      let line = this.rows.get(key);
      if (!line) line = { el: h("tr", { role: "row" }), state: "" };
      if (line.state !== state) this.write(line, row, state);
      kept.set(key, line);
      this.rows.delete(key);
      if (line.el === at) at = at.nextSibling;
      else this.body.insertBefore(line.el, at);
    }
    for (const line of this.rows.values()) line.el.remove();
    this.rows = kept;
    this.el.hidden = list.length === 0;
  }

  write(line, row, state) {
    const focused = line.el.contains(document.activeElement) ? document.activeElement.textContent : null;
    line.state = state;
    line.el.replaceChildren(...this.columns.map((c) => {
      const content = c.cell(row);
      const kind = [c.num && "num", !c.label && "actions", c.grow && "grow", content === "–" && "none"].filter(Boolean).join(" ");
      // In one element, which narrow screens set beside the label.
      return h("td", { role: "cell", "data-label": c.label, class: kind || null }, h("div", null, content));
    }));
    if (focused !== null) {
      for (const el of line.el.querySelectorAll("a, button")) if (el.textContent === focused) el.focus();
    }
  }
}

/** The buttons from page to page of a list that the server cuts. */
export class Pager {
  constructor(onturn) {
    this.before = []; // cursors of the pages before this one
    this.after = "";
    this.next = "";
    this.text = h("span", { class: "muted" });
    this.back = h("button", { type: "button", onclick: () => this.turn(this.before.pop() ?? "", onturn) }, "Previous");
    this.on = h("button", { type: "button", onclick: () => { this.before.push(this.after); this.turn(this.next, onturn); } }, "Next");
    this.el = h("nav", { class: "pager", "aria-label": "Pages" }, this.text, this.back, this.on);
  }

  turn(after, onturn) {
    this.after = after;
    onturn();
  }

  reset() {
    this.before = [];
    this.after = "";
  }

  update(text, next) {
    this.text.textContent = text;
    this.next = next ?? "";
    this.back.disabled = this.before.length === 0;
    this.on.disabled = this.next === "";
    this.back.hidden = this.on.hidden = this.back.disabled && this.on.disabled;
  }
}
