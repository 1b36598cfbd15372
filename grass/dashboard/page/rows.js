// A table of thousands of rows: only those on the screen are elements. All rows have the same height, and the widths of
// columns do not depend on what is on the screen.

import { h, render } from "./dom.js";

const HEIGHT = 31; // pixels of a row, as in `parts.css`
const AHEAD = 8; // rows above and below the screen

export class Rows {
  constructor(key, label) {
    this.head = h("thead"); this.body = h("tbody"); this.columns = h("colgroup");
    this.table = h("table", this.columns, this.head, this.body);
    this.element = h("div.window", { "data-keep": `rows-${key}`, tabindex: 0, role: "region", "aria-label": label, onscroll: () => this.draw() }, this.table);
    this.count = 0; this.row = null;
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.element);
  }

  // `titles`: cells of the head; `widths`: characters of each column; `row(at)`: makes one row of `count`.
  show(titles, widths, count, row) {
    this.count = count; this.row = row; this.drawn = null;
    render(this.columns, widths.map((width) => h("col", { vars: { "--wide": `calc(${width}ch + 18px)` } })));
    render(this.head, h("tr", { "aria-rowindex": 1 }, titles));
    this.table.style.setProperty("--wide", `calc(${widths.reduce((sum, width) => sum + width, 0)}ch + ${18 * widths.length}px)`);
    this.table.setAttribute("aria-rowcount", count + 1);
    this.draw();
  }

  // Moves to a row.
  reveal(at) { this.element.scrollTop = Math.max(0, (at - 3) * HEIGHT); this.draw(); }

  draw() {
    if (!this.row) return;
    const { scrollTop, clientHeight } = this.element, seen = Math.max(clientHeight, 10 * HEIGHT);
    const first = Math.max(0, Math.min(this.count - 1, Math.floor(scrollTop / HEIGHT) - AHEAD)), end = Math.min(this.count, Math.ceil((scrollTop + seen) / HEIGHT) + AHEAD);
    if (this.drawn === `${first} ${end}`) return;
    this.drawn = `${first} ${end}`;
    const rows = [];
    for (let at = first; at < end; at += 1) { const made = this.row(at); made.setAttribute("aria-rowindex", at + 2); rows.push(made); }
    render(this.body, space("above", first), rows, space("below", this.count - end));
  }

  close() { this.watcher.disconnect(); }
}

function space(key, rows) {
  return rows > 0 ? h("tr.space", { "data-key": key, "aria-hidden": "true", vars: { "--tall": `${rows * HEIGHT}px` } }) : null;
}
