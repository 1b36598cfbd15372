// The tasks of a job as a grid on a canvas: readable at 5,000 tasks, each a cell with the colour and shape of its state.

import { h } from "../dom.js";
import { count } from "../format.js";
import { TONES, toneOf } from "../glyphs.js";
import { tally } from "../parts.js";

const SIZES = [[60, 22], [400, 16], [1500, 12], [Infinity, 10]]; // up to so many tasks → pixels of a cell
const tip = h("div.tip", { hidden: true });

// One component. `choose(task)` is called when a cell is clicked.
export class Grid {
  constructor(component, choose, describe) {
    this.component = component;
    this.choose = choose;
    this.describe = describe;
    this.tasks = [];
    this.hovered = -1;
    this.canvas = h("canvas", { role: "img" });
    this.head = h("header");
    this.element = h("section.grid-part", { "data-keep": `grid-${component}` }, this.head, this.canvas);
    this.canvas.onpointermove = (event) => this.hover(event);
    this.canvas.onpointerleave = () => { this.hovered = -1; tip.hidden = true; this.draw(); };
    this.canvas.onclick = (event) => { const task = this.tasks[this.at(event)]; if (task) this.choose(task); };
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(this.element);
    document.body.append(tip);
  }

  show(tasks, reason, chosen) {
    this.tasks = tasks;
    this.chosen = chosen;
    const counts = {};
    for (const task of tasks) counts[task.state] = (counts[task.state] || 0) + 1;
    this.head.replaceChildren(h("h2", this.component), h("span.soft", `${count(tasks.length)} task${tasks.length === 1 ? "" : "s"}`), tally(counts),
      ...(reason ? [h("span.soft", reason)] : []));
    this.canvas.setAttribute("aria-label", `Tasks of ${this.component}: ${Object.entries(counts).map(([state, number]) => `${number} ${state.toLowerCase()}`).join(", ")}`);
    this.draw();
  }

  layout() {
    const size = SIZES.find(([most]) => this.tasks.length <= most)[1];
    const columns = Math.max(1, Math.floor((this.canvas.clientWidth + 2) / size));
    return { size, columns, rows: Math.ceil(this.tasks.length / columns) };
  }

  draw() {
    if (!this.canvas.clientWidth) return;
    const { size, columns, rows } = this.layout(), ratio = devicePixelRatio || 1;
    const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(rows * size * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) { this.canvas.width = width; this.canvas.height = height; this.canvas.style.height = `${rows * size}px`; }
    const paint = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries([...new Set(Object.values(TONES))].map((tone) => [tone, style.getPropertyValue(`--${tone}`).trim()]));
    const panel = style.getPropertyValue("--panel").trim();
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, height);
    this.tasks.forEach((task, at) => cell(paint, task, (at % columns) * size, Math.floor(at / columns) * size, size - 2, colours, panel));
    paint.strokeStyle = style.getPropertyValue("--ink"); paint.lineWidth = 2; // the colour of no state
    for (const at of [this.hovered, this.tasks.findIndex((task) => task.task === this.chosen)]) {
      if (at < 0) continue;
      paint.strokeRect((at % columns) * size, Math.floor(at / columns) * size, size - 2, size - 2);
    }
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect(), { size, columns } = this.layout();
    const column = Math.floor((event.clientX - box.left) / size);
    return column >= columns ? -1 : Math.floor((event.clientY - box.top) / size) * columns + column;
  }

  hover(event) {
    const at = this.at(event), task = this.tasks[at];
    if (at !== this.hovered) { this.hovered = task ? at : -1; this.draw(); }
    tip.hidden = !task;
    if (!task) return;
    tip.textContent = this.describe(task);
    tip.style.left = `${Math.min(event.clientX + 12, innerWidth - 350)}px`;
    tip.style.top = `${event.clientY + 16}px`;
  }

  close() { this.watcher.disconnect(); tip.hidden = true; }
}

function cell(paint, task, x, y, size, colours, panel) {
  const tone = toneOf(task.state), colour = colours[tone];
  if (tone === "pending" || tone === "stopped") {
    paint.strokeStyle = colour; paint.lineWidth = 1;
    if (tone === "pending") paint.setLineDash([2, 2]);
    paint.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    paint.setLineDash([]);
    return;
  }
  paint.fillStyle = colour;
  if (tone === "lost") {
    paint.beginPath(); paint.moveTo(x + size / 2, y); paint.lineTo(x + size, y + size / 2); paint.lineTo(x + size / 2, y + size); paint.lineTo(x, y + size / 2); paint.fill();
    return;
  }
  paint.fillRect(x, y, size, size);
  paint.fillStyle = panel; paint.strokeStyle = panel; paint.lineWidth = 1.5;
  if (tone === "running") paint.fillRect(x + size * 0.3, y + size * 0.3, size * 0.4, size * 0.4);
  if (tone === "succeeded") {
    paint.beginPath(); paint.moveTo(x + size * 0.24, y + size * 0.53); paint.lineTo(x + size * 0.43, y + size * 0.71); paint.lineTo(x + size * 0.76, y + size * 0.31); paint.stroke();
  }
  if (tone === "failed") {
    const edge = size * 0.27;
    paint.beginPath(); paint.moveTo(x + edge, y + edge); paint.lineTo(x + size - edge, y + size - edge); paint.moveTo(x + size - edge, y + edge); paint.lineTo(x + edge, y + size - edge); paint.stroke();
  }
}
