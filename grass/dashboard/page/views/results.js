// What came out of the tasks of a job: a table of parameters and figures, to be sorted and filtered.

import { h } from "../dom.js";
import { described, filterOf, inOrder, moreIsBetter, short } from "../filter.js";
import { bytes, count, duration, notFinite, plural } from "../format.js";
import { stateMark } from "../glyphs.js";
import { empty, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { Rows } from "../rows.js";
import { ask, me } from "../state.js";

const MOST_FIGURES = 24; // columns of figures
const SAMPLE = 400; // rows that are measured for the widths of columns
const TITLES = { seconds: "Time", cpu: "CPU time", memory: "Memory", task: "Task", state: "State", cause: "Cause" };
const WIDE = { open: 12, state: 13, cause: 30 };

export class Results {
  // `settled`: returns whether nothing new will come.
  constructor(id, changed, settled) {
    this.id = id; this.changed = changed; this.settled = settled;
    this.found = null; this.problem = ""; this.sort = null; this.words = ""; this.best = null;
    this.table = new Rows(`results-${id}`, "Results of all tasks");
    this.poll = new Poll(() => this.load());
    this.poll.now();
  }

  async load() {
    try { this.take(await ask("results", { job: this.id })); this.problem = ""; } catch (error) { this.problem = error.message; }
    if (this.closed) return null;
    this.changed();
    return !this.problem && this.settled() ? null : this.found?.rows.length > 1000 ? 20 : 10;
  }

  take(found) {
    this.found = found;
    this.at = new Map(found.columns.map((name, at) => [name, at]));
    this.numbers = new Set([...found.figures, "seconds", "cpu", "memory"]);
    const said = (name) => found.rows.some((row) => row[this.at.get(name)]);
    this.shown = ["task", "open", ...found.parameters, "state", ...found.figures.slice(0, MOST_FIGURES), "seconds", "cpu", "memory", ...(said("failure") ? ["cause"] : [])];
    if (this.best === null && found.figures.length) this.best = { name: found.figures[0], most: moreIsBetter(found.figures[0]) };
    this.arrange();
  }

  // Filters and sorts the rows, and finds the best one.
  arrange() {
    const { found } = this, wanted = filterOf(this.words);
    let rows = this.words.trim() ? found.rows.filter((row) => wanted(found.columns, row)) : found.rows;
    if (this.sort) {
      const place = this.at.get(this.sort.name), sign = this.sort.down ? -1 : 1, known = (row) => row[place] !== null && row[place] !== "";
      rows = [...rows.filter(known).sort((one, two) => sign * inOrder(one[place], two[place])), ...rows.filter((row) => !known(row))];
    }
    this.rows = rows;
    this.bestRow = null;
    const place = this.best ? this.at.get(this.best.name) : undefined;
    for (const row of place === undefined ? [] : rows) {
      const value = row[place], before = this.bestRow?.[place];
      if (value !== null && (before === undefined || (this.best.most ? value > before : value < before))) this.bestRow = row;
    }
    const some = rows.filter((_, at) => at % Math.ceil(rows.length / SAMPLE) === 0);
    const widths = this.shown.map((name) => WIDE[name] || Math.min(40, Math.max(this.heading(name).length + 2, ...some.map((row) => this.text(name, row[this.at.get(name)]).length), 4)) + (name === "task" ? 6 : 0)); // beside the task: "best"
    this.table.show(this.shown.map((name) => (name === "open" ? h("th", "Open") : this.title(name))), widths, rows.length, (at) => this.row(rows[at]));
  }

  draw() {
    const { found } = this;
    if (!found) return panel("Results", { key: "results" }, empty(this.problem || "Loading."));
    const filter = h("input.field", { type: "search", "aria-label": "Filter rows", placeholder: "Filter: lr=0.3 failed", value: this.words, oninput: (event) => { this.words = event.target.value; this.arrange(); this.changed(); } });
    const { length } = this.rows;
    return panel("Results", { key: "results", end: [h("span.soft", length === found.rows.length ? plural(length, "task") : `${count(length)} of ${plural(found.rows.length, "task")}`), this.choice(), filter] },
      this.notes().map((text) => h("p.note.inside", text)), this.bestLine(),
      h("div", this.table.element), length ? null : empty("No such row."));
  }

  notes() {
    const { found } = this, more = found.figures.length - MOST_FIGURES + found.further;
    return [this.problem ? `These are not the newest figures: ${this.problem}` : "",
      found.incomplete ? "The tasks reported more figures than are kept of one job; those of some tasks are missing." : "",
      found.left_out ? `The tasks said ${count(found.left_out)} more parameters than are kept; those are missing.` : "",
      ...found.troubles,
      ...Object.entries(found.not_finite).map(([name, lost]) => `${name}: ${notFinite(lost)}.`),
      more > 0 ? `${count(more)} further figures have no column here. \`grass job results\` chooses others with --columns.` : ""].filter(Boolean);
  }

  choice() {
    const names = this.found.figures.slice(0, MOST_FIGURES), chosen = this.best && JSON.stringify([this.best.name, this.best.most]);
    if (!names.length) return null;
    const choose = (event) => { const [name, most] = JSON.parse(event.target.value); this.best = { name, most }; this.arrange(); this.changed(); };
    return h("label.soft", "Best: ", h("select.field", { "aria-label": "Which row is the best", onchange: choose },
      names.flatMap((name) => [false, true].map((most) => { const value = JSON.stringify([name, most]); return h("option", { value, selected: value === chosen }, `${most ? "greatest" : "least"} ${name}`); }))));
  }

  bestLine() {
    const row = this.bestRow;
    if (!row) return null;
    const cell = (name) => row[this.at.get(name)], words = described(this.found.parameters, this.found.parameters.map(cell));
    return h("p.best", h("span.chip", `${this.best.most ? "greatest" : "least"} ${this.best.name}`), " ", h("b", short(cell(this.best.name))), " ",
      h("button.link", { type: "button", onclick: () => this.table.reveal(this.rows.indexOf(row)) }, cell("task")), words ? h("span.soft", `: ${words}`) : null);
  }

  heading(name) { return TITLES[name] || name; }

  title(name) {
    const down = this.sort?.name === name ? this.sort.down : null;
    return h("th", { class: this.numbers.has(name) ? "num" : "", "aria-sort": down === null ? "none" : down ? "descending" : "ascending", title: this.heading(name) },
      h("button.sort", { type: "button", onclick: () => { this.sort = { name, down: down === false }; this.arrange(); this.table.reveal(0); this.changed(); } }, this.heading(name), down === null ? "" : down ? " ↓" : " ↑"));
  }

  text(name, value) {
    if (value === null || value === "") return "–";
    if (name === "seconds" || name === "cpu") return duration(value);
    if (name === "memory") return bytes(value);
    return this.numbers.has(name) ? short(value) : String(value);
  }

  row(row) {
    const place = `#/jobs/${encodeURIComponent(this.id)}`, best = row === this.bestRow, cell = (name) => row[this.at.get(name)], task = cell("task");
    return h("tr", { "data-row": true, "data-key": task, class: best ? "chosen" : "" }, this.shown.map((name) => {
      const value = cell(name), text = this.text(name, value);
      if (name === "task") return h("td.main", h("a", { href: `${place}/tasks/${task}` }, task), best ? h("span.chip", "best") : null);
      if (name === "open") return h("td.acts", h("a", { href: `${place}/logs/${task}`, "aria-label": `Log of ${task}` }, "log"), me.files ? h("a", { href: `${place}/files/${encodeURIComponent(cell("output"))}`, "aria-label": `Output of ${task}` }, "output") : null);
      if (name === "state") return h("td", stateMark(value));
      if (name === "cause") return this.cause(`${place}/logs/${task}`, cell("failure"), value);
      const lost = this.found.figures.includes(name) && cell(`${plain(name)}:not_finite`), end = lost ? `, ${count(lost)} not finite` : "";
      const range = this.found.figures.includes(name) && value !== null ? `from ${cell(`${plain(name)}:min`)} to ${cell(`${plain(name)}:max`)}${end}` : `${text}${end}`;
      return h("td", { class: this.numbers.has(name) ? "num" : "", title: range }, text);
    }));
  }

  cause(log, failure, cause) {
    const kind = failure ? failure.replaceAll("-", " ") : "";
    return h("td", { title: cause ? `${kind}: ${cause}` : null }, kind ? h("span.chip", kind) : "–", " ", cause ? h("a", { href: log }, cause) : null);
  }

  close() { this.closed = true; this.poll.close(); this.table.close(); }
}

const plain = (name) => name.replace(/:last$/, "");
