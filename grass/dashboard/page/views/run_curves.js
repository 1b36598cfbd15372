// The curves of all runs of some jobs: colours by a parameter, means over others, smoothing, and runs to pick or hide.

import { COLOURS } from "../charts.js";
import { h } from "../dom.js";
import { described, filterOf, inOrder } from "../filter.js";
import { count, notFinite, plural } from "../format.js";
import { empty, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { RunChart } from "../run_chart.js";
import { COLOUR, EACH, linesOf } from "../run_lines.js";
import { ask } from "../state.js";

const MOST_BUTTONS = 12, MOST_LEGEND = 40;
const REPEATS = /seed|trial|repeat|fold|replica/i; // parameters that do not say what a run is

export class RunCurves {
  // `settled`: returns whether nothing new will come. `only`: which tasks, as "ID TASK"; null: all.
  constructor(jobs, changed, settled, only = null) {
    this.only = only; this.jobs = jobs; this.changed = changed; this.settled = settled;
    this.found = null; this.problem = "";
    this.figures = null; this.colour = null; this.over = EACH; this.smooth = 0; this.log = false; this.words = "";
    this.hidden = new Set(); this.unseen = new Set(); this.picked = new Set();
    this.charts = new Map();
    this.element = h("div.charts.wide", { "data-keep": `run-curves-${jobs.join()}` });
    this.said = h("p.soft.said", { "data-keep": `run-said-${jobs.join()}`, "aria-live": "off" });
    this.poll = new Poll(() => this.load());
    this.poll.now();
  }

  async load() {
    try { this.take(await ask("curves", { jobs: this.jobs.join() })); this.problem = ""; } catch (error) { this.problem = error.message; }
    if (this.closed) return null;
    this.changed();
    return !this.problem && this.settled() ? null : 10;
  }

  take(found) {
    const same = this.text === JSON.stringify(found);
    if (same) return;
    this.text = JSON.stringify(found);
    this.found = found;
    this.colour = this.colour === null && found.parameters.includes("job") ? "job" : this.colour;
    this.figures ||= found.figures.slice(0, 2);
    if (!this.figures.length) this.figures = null;
    if (this.colour === null && found.parameters.length) this.colour = found.parameters.find((name) => !REPEATS.test(name)) || found.parameters[0];
    this.runs = found.tasks.map((each) => ({ ...each, key: `${each.id} ${each.task}`, label: [this.jobs.length > 1 ? `${each.id} ${each.task}` : each.task, described(found.parameters.filter((name) => name !== "job"), found.parameters.filter((name) => name !== "job").map((name) => each.values[name]))].filter(Boolean).join(": ") }));
    this.redraw();
  }

  // The runs that are meant by the filter and are not hidden.
  wanted() {
    const { parameters } = this.found, means = filterOf(this.words), names = ["task", "id", ...parameters];
    return new Set(this.runs.flatMap((run, at) => ((!this.only || this.only.has(run.key)) && !this.hidden.has(run.key) && !this.unseen.has(run.values[this.colour] ?? "") && means(names, [run.task, run.id, ...parameters.map((name) => run.values[name] ?? "")]) ? [at] : [])));
  }

  redraw() {
    if (!this.found || this.closed) return;
    const wanted = this.wanted(), { figures, parameters, curves } = this.found, colours = this.palette();
    for (const [name, chart] of this.charts) if (!this.figures?.includes(name)) { chart.close(); chart.element.remove(); this.charts.delete(name); }
    this.dark = 0;
    for (const name of this.figures || []) {
      if (!this.charts.has(name)) {
        const chart = new RunChart(`${this.jobs.join()}-${name}`, name, (text) => { this.said.textContent = text; }, (key) => this.pick(key));
        this.charts.set(name, chart);
        this.element.append(chart.element);
      }
      const which = figures.indexOf(name);
      const runs = curves.filter(([run, figure]) => figure === which && wanted.has(run)).map(([run, , steps, points]) => ({ ...this.runs[run], steps, points }));
      const { x, lines } = linesOf(runs, { parameters, colour: this.colour, over: this.over, smooth: this.smooth });
      if (this.log) this.dark += runs.reduce((sum, run) => sum + run.points.filter((value) => value <= 0).length, 0);
      const some = lines.some((line) => this.picked.has(line.key));
      const drawn = lines.map((line) => ({ ...line, stroke: colours.get(line.value), faint: some && !this.picked.has(line.key) }));
      drawn.sort((one, two) => two.faint - one.faint); // what is picked lies above
      this.charts.get(name).show({ x, lines: drawn, log: this.log });
    }
  }

  values() { return [...new Set(this.runs.map((run) => run.values[this.colour] ?? ""))].sort(inOrder); }

  // Value of the parameter → its colour: one of a few, or a place between blue and red.
  palette() {
    const values = this.values(), style = getComputedStyle(document.documentElement);
    if (values.length <= COLOURS.length) return new Map(values.map((value, at) => [value, style.getPropertyValue(COLOURS[at]).trim()]));
    const light = document.documentElement.dataset.theme === "dark" ? 66 : 40;
    return new Map(values.map((value, at) => [value, `hsl(${Math.round(255 - (255 * at) / (values.length - 1))} 68% ${light}%)`]));
  }

  pick(key) { if (!this.picked.delete(key)) this.picked.add(key); this.refresh(); }

  refresh() { this.redraw(); this.changed(); }

  draw() {
    const { found } = this;
    if (!found) return panel("Curves", { key: "curves" }, empty(this.problem || "Loading."));
    if (!found.figures.length) return panel("Curves", { key: "curves" }, h("div.body", h("p.soft", "No task has reported a figure. A task reports figures with lines ", h("code", "GRASS_METRIC loss=0.3 step=10"), " or grass.report(step=10, loss=0.3).")));
    const shown = this.wanted().size;
    const all = this.only ? this.only.size : this.runs.length;
    return panel("Curves", { key: "curves", end: h("span.soft", shown === all ? plural(shown, "run") : `${count(shown)} of ${plural(all, "run")}`) },
      h("div.body", h("div.filters", this.figureButtons()), h("div.filters", this.choices()), this.notes().map((text) => h("p.note", text)), this.element, this.said, this.pickedRuns(), this.legend()));
  }

  figureButtons() {
    const names = this.found.figures, more = names.slice(MOST_BUTTONS);
    const toggle = (name) => { const on = this.figures || []; this.figures = on.includes(name) ? on.filter((each) => each !== name) : [...on, name]; this.refresh(); };
    return [...names.slice(0, MOST_BUTTONS).map((name) => h("button.button", { type: "button", "data-key": name, "aria-pressed": String(Boolean(this.figures?.includes(name))), onclick: () => toggle(name) }, name)),
      more.length ? h("select.field", { "aria-label": "Further figures", onchange: (event) => { if (event.target.value) toggle(event.target.value); } }, h("option", { value: "" }, `${count(more.length)} more`), more.slice(0, 500).map((name) => h("option", { value: name }, this.figures?.includes(name) ? `${name} (shown)` : name))) : null];
  }

  choices() {
    const { parameters } = this.found, pick = (value) => (event) => { value(event.target.value); this.refresh(); };
    const select = (label, value, options, take) => h("label.soft", `${label} `, h("select.field", { "aria-label": label, onchange: pick(take) }, options.map(([name, text]) => h("option", { value: name, selected: name === value }, text))));
    return [
      parameters.length ? select("Colour", this.colour, parameters.map((name) => [name, name]), (value) => { this.colour = value; this.unseen.clear(); }) : null,
      parameters.length ? select("Lines", this.over, [[EACH, "each run"], ...parameters.map((name) => [name, `mean and range over ${name}`]), [COLOUR, "mean and range of each colour"]], (value) => { this.over = value; this.picked.clear(); }) : null,
      h("label.soft", "Smooth ", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: this.smooth, "aria-label": "Smoothing", oninput: (event) => { this.smooth = Number(event.target.value); this.refresh(); } }), ` ${this.smooth.toFixed(2)}`),
      h("label.soft", h("input", { type: "checkbox", checked: this.log, onchange: (event) => { this.log = event.target.checked; this.refresh(); } }), " logarithmic"),
      h("input.field", { type: "search", "aria-label": "Filter runs", placeholder: "Filter: lr=0.3", value: this.words, oninput: (event) => { this.words = event.target.value; this.refresh(); } }),
    ];
  }

  // What the charts do not show.
  notes() {
    const { found } = this, without = found.all - found.curves.length;
    return [this.problem ? `These are not the newest figures: ${this.problem}` : "",
      without > 0 ? `${count(without)} of ${count(found.all)} figures of tasks have no curve; Results has their last, least and greatest values.` : "",
      found.points && found.points < 512 ? `A curve has at most ${found.points} points: ${count(found.curves.length)} curves share those that are kept.` : "",
      found.not_finite ? `${notFinite(found.not_finite)}.` : "",
      found.dropped ? `${plural(found.dropped, "point")} of further figures were not kept.` : "",
      this.dark ? `${plural(this.dark, "point")} not above 0 have no place on a logarithmic axis.` : ""].filter(Boolean);
  }

  pickedRuns() {
    const others = [...this.hidden].filter((key) => this.runs.some((run) => run.key === key));
    if (!this.picked.size && !others.length) return h("p.soft", "Drag to zoom, double-click to see all. Click a line to pick it.");
    const label = (key) => this.runs.find((run) => run.key === key)?.label || key.replace(/[[\]"]/g, "").replaceAll(",", ", ");
    const hide = (key) => { this.picked.delete(key); this.hidden.add(key); this.refresh(); };
    return h("ul.filters", [...this.picked].map((key) => h("li.chip", { "data-key": key }, label(key), " ", this.over === EACH ? h("button.link", { type: "button", onclick: () => hide(key) }, "hide") : null, " ", h("button.link", { type: "button", "aria-label": `Unpick ${label(key)}`, onclick: () => this.pick(key) }, "×"))),
      others.length ? h("li", h("button.link", { type: "button", onclick: () => { this.hidden.clear(); this.refresh(); } }, `show ${plural(others.length, "hidden run")}`)) : null);
  }

  legend() {
    if (!this.colour) return null;
    const colours = this.palette(), values = this.values();
    const toggle = (value) => { if (!this.unseen.delete(value)) this.unseen.add(value); this.refresh(); };
    return h("ul.legend", { "aria-label": `Colours: ${this.colour}` }, h("li", this.colour), values.slice(0, MOST_LEGEND).map((value) => h("li", { "data-key": `value ${value}` },
      h("button.key", { type: "button", "aria-pressed": String(!this.unseen.has(value)), onclick: () => toggle(value) }, h("i.swatch", { vars: { background: colours.get(value) } }), String(value === "" ? "–" : value)))),
    values.length > MOST_LEGEND ? h("li", `and ${count(values.length - MOST_LEGEND)} more up to ${values[values.length - 1]}`) : null);
  }

  close() { this.closed = true; this.poll.close(); for (const chart of this.charts.values()) chart.close(); }
}
