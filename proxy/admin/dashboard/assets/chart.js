// Small charts of the last ten minutes.

import { h, s } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 120;

/** The lowest round number that is not below n: where the axis ends. */
function ceiling(n) {
  if (n <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(n));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * unit >= n) * unit;
}

export class Chart {
  /**
   * @param {string} title
   * @param {{label: string, tone: string, area?: boolean, sparse?: boolean, of: (point: any) => number | null}[]} series
   *   An area is filled; of a sparse series the zeros between zeros are not drawn.
   * @param {(n: number) => string} format of a value
   */
  constructor(title, series, format) {
    this.series = series;
    this.format = format;
    this.points = [];
    this.lines = series.map((x) => s("path", { class: `line ${x.tone}` }));
    this.areas = series.map((x) => (x.area ? s("path", { class: `area ${x.tone}` }) : null));
    this.hair = s("line", { class: "hair", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
    this.svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
      [0, 0.5].map((y) => s("line", { class: "rule", x1: 0, x2: WIDTH, y1: y * HEIGHT, y2: y * HEIGHT })),
      this.areas, this.lines, this.hair,
      s("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }));
    this.svg.addEventListener("pointermove", (e) => this.point(e));
    this.svg.addEventListener("pointerleave", () => this.read(null));
    this.top = h("span", { class: "top" });
    this.time = h("span", { class: "muted" });
    this.values = series.map(() => h("b"));
    this.el = h("figure", { class: "chart" },
      h("figcaption", null, h("span", { class: "strong" }, title),
        series.map((x, i) => h("span", { class: `key ${x.tone}` }, x.label, " ", this.values[i])), this.time),
      h("div", { class: "plot" }, this.top, this.svg),
      h("div", { class: "axis muted" }, h("span", null, "10 min ago"), h("span", null, "now")));
  }

  update(points) {
    this.points = points;
    const all = this.series.map((x) => points.map(x.of));
    const max = ceiling(Math.max(0, ...all.flat().filter((v) => v !== null)));
    this.top.textContent = this.format(max);
    const x = (i) => ((i / (points.length - 1)) * WIDTH).toFixed(1);
    const y = (v) => (HEIGHT - (v / max) * (HEIGHT - 2) - 1).toFixed(1);
    all.forEach((values, n) => {
      if (this.series[n].sparse) values = values.map((v, i) => (v || values[i - 1] || values[i + 1] ? v : null));
      // Where there is no value, the line has a gap; one that stands alone is a dot.
      let d = "";
      values.forEach((v, i) => {
        if (v === null) return;
        const begins = i === 0 || values[i - 1] === null;
        d += `${begins ? "M" : "L"}${x(i)} ${y(v)}`;
        if (begins && (values[i + 1] ?? null) === null) d += "h.1";
      });
      this.lines[n].setAttribute("d", d);
      this.areas[n]?.setAttribute("d", d && `${d}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`);
    });
    this.read(null);
  }

  point(e) {
    const box = this.svg.getBoundingClientRect();
    this.read(Math.round(((e.clientX - box.left) / box.width) * (this.points.length - 1)));
  }

  /** Shows the values of a point, of the newest where at is null. */
  read(at) {
    const p = this.points[at ?? this.points.length - 1];
    if (!p) return;
    this.series.forEach((x, i) => {
      const v = x.of(p);
      this.values[i].textContent = v === null ? "–" : this.format(v);
    });
    this.time.textContent = at === null ? "" : new Date(p.time).toLocaleTimeString("en-GB");
    const where = at === null ? -9 : (at / (this.points.length - 1)) * WIDTH;
    this.hair.setAttribute("x1", where);
    this.hair.setAttribute("x2", where);
  }
}
