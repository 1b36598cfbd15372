// One figure of many runs in one chart, with uPlot: drag to zoom, double-click to see all, click a line to pick it.

import { few, uPlotLoaded } from "./charts.js";
import { h } from "./dom.js";
import { short } from "./filter.js";

const HEIGHT = 320, NEAR = 24; // pixels

export class RunChart {
  // `said(text)`: called with what is at the pointer; `picked(key)`: with the line that was clicked.
  constructor(key, title, said, picked) {
    this.title = title; this.said = said; this.picked = picked; this.data = null; this.chart = null; this.focused = null;
    this.element = h("div.chart", { "data-keep": `run-chart-${key}` });
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.element);
  }

  // `lines`: of run_lines.js, each with its `stroke` and whether it is `faint`.
  show(data) { this.data = data; this.redraw(); }

  redraw() {
    if (this.closed || !this.data || !this.element.clientWidth) return;
    if (!window.uPlot) { uPlotLoaded().then(() => this.redraw(), () => {}); return; }
    const { x, lines, log } = this.data, zoom = this.zoomed();
    const shape = JSON.stringify([log, document.documentElement.dataset.theme, ...lines.map((line) => [line.key, line.stroke, line.faint, line.runs.length])]);
    const fit = (values) => (log && values ? values.map((value) => (value > 0 ? value : null)) : values);
    const columns = [x, ...lines.flatMap((line) => [line.y, ...(banded(line) ? [line.high, line.low] : [])].map(fit))];
    if (this.chart && this.shape === shape) {
      this.chart.setData(columns, !zoom);
      if (zoom) this.chart.setScale("x", zoom);
      this.describe();
      return;
    }
    this.clear();
    this.shape = shape;
    this.element.replaceChildren();
    if (!lines.length) { this.element.append(h("p.soft", `${this.title}: no run to show.`)); return; }
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), font: "11px sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const series = [{}], bands = [];
    this.keys = [null];
    for (const line of lines) {
      series.push({ stroke: line.stroke, width: line.faint ? 0.7 : 1.6, alpha: line.faint ? 0.25 : 1, spanGaps: true, points: { show: (chart, place) => few(chart.data[place]) } });
      this.keys.push(line.key);
      if (!banded(line)) continue;
      bands.push({ series: [series.length, series.length + 1], fill: line.stroke.startsWith("#") ? `${line.stroke}2e` : line.stroke.replace(")", " / 18%)") });
      for (let edge = 0; edge < 2; edge += 1) { series.push({ stroke: "transparent", width: 0, spanGaps: true, points: { show: false } }); this.keys.push(null); }
    }
    this.chart = new uPlot({
      title: this.title, width: this.element.clientWidth, height: HEIGHT, legend: { show: false }, padding: [8, 12, 0, 0], bands,
      cursor: { y: false, points: { show: false }, focus: { prox: NEAR }, drag: { x: true, y: false } }, focus: { alpha: lines.length > 1 ? 0.35 : 1 },
      scales: { x: { time: false }, y: log ? { distr: 3 } : {} },
      axes: [{ ...axis, size: 24, space: 64 }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) }],
      series, hooks: { setSeries: [(_, at) => this.focus(at)], setCursor: [() => this.say()] },
    }, columns, this.element);
    if (zoom) this.chart.setScale("x", zoom);
    let down = 0;
    this.chart.over.addEventListener("mousedown", (event) => { down = event.clientX; });
    this.chart.over.addEventListener("click", (event) => { if (Math.abs(event.clientX - down) < 4 && this.focused) this.picked(this.focused); });
    this.describe();
  }

  describe() {
    const { lines } = this.data;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `${this.title}: ${lines.length} lines${lines.length < 13 ? `, ${lines.map((line) => `${line.label} now ${short(line.y.findLast((value) => value !== null) ?? NaN)}`).join("; ")}` : ""}`);
  }

  // The part that is shown, if it is not all.
  zoomed() {
    const scale = this.chart?.scales.x, all = this.chart?.data[0];
    if (!scale || scale.min === null || scale.min === undefined) return null; // it has not drawn anything yet
    return (scale.min > all[0] || scale.max < all[all.length - 1]) ? { min: scale.min, max: scale.max } : null;
  }

  focus(at) { this.focused = at ? this.keys[at] ?? null : null; this.say(); }

  say() {
    const at = this.chart?.cursor.idx, line = this.focused && this.data.lines.find((each) => each.key === this.focused);
    if (!line || at === null || at === undefined) { this.said(""); return; }
    let near = at;
    while (near > 0 && line.y[near] === null) near -= 1;
    const value = line.y[near], spread = line.high && line.runs.length > 1 ? ` (${short(line.low[near])} to ${short(line.high[near])}, ${line.runs.length} runs)` : "";
    this.said(value === null ? line.label : `${line.label}: ${this.title} ${short(value)}${spread} at ${short(this.data.x[near])}`);
  }

  resize() {
    const width = this.element.clientWidth;
    if (!width) return;
    if (!this.chart) this.redraw();
    else if (this.chart.width !== width) this.chart.setSize({ width, height: HEIGHT });
  }

  clear() { this.chart?.destroy(); this.chart = null; this.focused = null; }

  close() { this.closed = true; this.watcher.disconnect(); this.clear(); }
}

// Whether the range of its runs is drawn.
const banded = (line) => Boolean(line.high) && line.runs.length > 1 && !line.faint;
