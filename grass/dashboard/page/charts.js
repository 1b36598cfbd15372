// Curves over time, with uPlot. One chart is one element that views keep.

import { h } from "./dom.js";
import { bytes, cores, count, duration, instant, percent } from "./format.js";

export const COLOURS = ["--running", "--succeeded", "--lost", "--warn", "--failed", "--teal", "--stopped", "--faint"];
const UNITS = {
  percent: (value) => percent(value), bytes, rate: (value) => (value === null || value === undefined ? "–" : `${bytes(value)}/s`),
  cores: (value) => (value === null || value === undefined ? "–" : value < 0.1 ? String(Number(value.toPrecision(2))) : cores(value * 1000)),
  watts: (value) => (value === null || value === undefined ? "–" : `${count(Math.round(value))} W`),
  celsius: (value) => (value === null || value === undefined ? "–" : `${Math.round(value)} °C`),
  number: (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(5)))),
};
const STEPS = { bytes: 1024, rate: 1024 };

// Loaded with the first curve: the first paint does without it.
let library = null;
export function uPlotLoaded() {
  library ||= new Promise((resolve, reject) => {
    const address = (name) => new URL(`./vendor/${name}`, import.meta.url).href;
    document.head.append(h("link", { rel: "stylesheet", href: address("uPlot.min.css") }),
      h("script", { src: address("uPlot.iife.min.js"), onload: resolve, onerror: () => { library = null; reject(new Error("uPlot")); } }));
  });
  return library;
}

const two = (value) => String(value).padStart(2, "0");

// A time on the axis: the day if the curve spans several, seconds if it spans minutes.
function hour(time, all) {
  const date = new Date(time * 1000), span = all[all.length - 1] - all[0];
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (span > 172800) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return span < 300 ? `${text}:${two(date.getSeconds())}` : text;
}

const known = (value) => value !== null && value !== undefined;

// Whether a curve has so few values that no line shows them.
export function few(values) {
  let seen = 0;
  return !values.some((value) => known(value) && (seen += 1) > 2);
}


// What the legend says of a series: at the pointer, or the newest figure while there is none.
function legend(plot, value, series, at) {
  return (known(at) ? value : plot.data[series].findLast(known)) ?? null;
}

// The time or step at the pointer, or of the newest figure of any series.
function where(plot, value, at) {
  if (known(at)) return value ?? null;
  return plot.data[0].findLast((_, index) => plot.data.slice(1).some((values) => known(values[index]))) ?? null;
}

// The top of the axis: a little above the highest figure, or 1 over a curve that is always 0.
const top = (high) => (high > 0 ? high * 1.08 : high < 0 ? 0 : 1);

// `data`: {x: [...], series: [{name, values}], unit?}. `x` is time in seconds, or a step, or seconds since a start
// (`along` "seconds").
export class Curves {
  constructor(key, { title = "", height = 150, unit = "number", time = true, along = "step", most } = {}) {
    this.options = { title, height, unit, time, along, most };
    this.element = h("div.chart", { "data-keep": `chart-${key}` });
    this.chart = null;
    this.data = null;
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(this.element);
  }

  show(data) {
    const same = this.chart && this.names === JSON.stringify(data.series.map((each) => each.name));
    this.data = data;
    if (!data.x.length) { this.clear(); this.element.replaceChildren(h("p.soft", this.options.title ? `${this.options.title}: no figures yet.` : "No figures yet.")); return; }
    if (same) this.chart.setData([data.x, ...data.series.map((each) => each.values)]);
    else this.redraw();
  }

  redraw() {
    if (this.closed || !this.data?.x.length || !this.element.clientWidth) return;
    if (!window.uPlot) { uPlotLoaded().then(() => this.redraw(), () => {}); return; }
    this.clear();
    this.element.replaceChildren();
    const { title, height, unit, time, along, most } = this.options, since = along === "seconds";
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    const text = UNITS[this.data.unit || unit];
    const axis = { stroke: colour("--faint"), font: "11px sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const step = STEPS[unit];
    this.names = JSON.stringify(this.data.series.map((each) => each.name));
    this.chart = new uPlot({
      title: title || undefined, width: this.element.clientWidth, height, cursor: { y: false, drag: { x: true, y: false } },
      padding: [8, time ? 26 : 10, 0, 0], // half of the last label is beyond the axis
      scales: { x: { time }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), most ?? top(high ?? 1)] } },
      axes: [{ ...axis, size: 24, space: 64, values: time ? (_, ticks) => ticks.map((tick) => hour(tick, this.data.x)) : since ? (_, ticks) => ticks.map(duration) : undefined }, { ...axis, size: 62, values: (_, ticks) => ticks.map(text), ...(step ? { incrs: [...Array(24)].flatMap((_, at) => [1, 2, 5].map((part) => part * step ** Math.floor(at / 3) * [1, 10, 100][at % 3])) } : {}) }],
      series: [{ label: time ? "time" : since ? "after" : "step", value: (plot, value, _, at) => { const shown = where(plot, value, at); return shown === null ? "–" : time ? instant(shown) : since ? duration(shown) : String(shown); } }, ...this.data.series.map((each, at) => ({
        label: each.name, stroke: colour(COLOURS[at % COLOURS.length]), width: 1.6, spanGaps: Boolean(each.gaps), points: { show: (chart, place) => few(chart.data[place]) },
        value: (...shown) => text(legend(...shown)), ...(each.dash ? { dash: [5, 4] } : {}), ...(each.fill ? { fill: `${colour(COLOURS[at % COLOURS.length])}22` } : {}),
      }))],
    }, [this.data.x, ...this.data.series.map((each) => each.values)], this.element);
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", `${title || "Curves"}: ${this.data.series.map((each) => `${each.name} now ${text(each.values.findLast(known))}`).join(", ")}`);
  }

  resize() {
    const width = this.element.clientWidth;
    if (!width) return;
    if (!this.chart) this.redraw();
    else if (this.chart.width !== width) this.chart.setSize({ width, height: this.options.height });
  }

  clear() { this.chart?.destroy(); this.chart = null; }

  close() { this.closed = true; this.watcher.disconnect(); this.clear(); }
}
