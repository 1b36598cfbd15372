// What came out of the tasks of a job: a table of parameters and figures, to be sorted and filtered.

import { h } from "../dom.js";
import { bytes, duration } from "../format.js";
import { stateMark } from "../glyphs.js";
import { empty, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask } from "../state.js";

const STEP = 100; // rows that are shown at first, and more at each wish: thousands would hold up the page

export class Results {
  // `settled`: returns whether nothing new will come.
  constructor(id, changed, settled) {
    this.id = id; this.changed = changed; this.settled = settled;
    this.found = null; this.problem = ""; this.sort = null; this.words = ""; this.most = STEP;
    this.poll = new Poll(() => this.load());
    this.poll.now();
  }

  async load() {
    try { this.found = await ask("results", { job: this.id }); this.problem = ""; } catch (error) { this.problem = error.message; }
    if (this.closed) return null;
    this.changed();
    return !this.problem && this.settled() ? null : 10;
  }

  rows() {
    const words = this.words.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.found.rows.filter((row) => words.every((word) => (word.includes("=") ? matches(row, word) : Object.values(row).some((cell) => String(cell).toLowerCase().includes(word)))));
    if (!this.sort) return rows;
    const { name, down } = this.sort, known = (row) => row[name] !== null && row[name] !== "";
    const order = (one, two) => (typeof one === "number" && typeof two === "number" ? one - two : String(one).localeCompare(String(two), "en", { numeric: true }));
    return [...rows.filter(known).sort((one, two) => (down ? -1 : 1) * order(one[name], two[name])), ...rows.filter((row) => !known(row))];
  }

  draw() {
    const { found } = this;
    if (!found) return panel("Results", { key: "results" }, empty(this.problem || "Loading."));
    const rows = this.rows(), shown = rows.slice(0, this.most);
    const columns = ["task", ...found.parameters, "state", ...found.figures, "seconds", "memory", "failure", "cause"];
    const filter = h("input.field", { type: "search", "aria-label": "Filter rows", placeholder: "Filter: lr=0.3 failed", value: this.words, oninput: (event) => { this.words = event.target.value; this.most = STEP; this.changed(); } });
    return panel("Results", { key: "results", end: [h("span.soft", rows.length === found.rows.length ? `${rows.length} tasks` : `${rows.length} of ${found.rows.length} tasks`), filter] },
      found.incomplete ? h("p.note", "The tasks reported more figures than are kept of one job; those of some tasks are missing.") : null,
      h("div.scroll", h("table", h("thead", h("tr", columns.map((name) => this.title(name)))),
        h("tbody", shown.map((row, at) => this.row(row, columns, at === 0 && found.figures.includes(this.sort?.name) && row[this.sort.name] !== null))))),
      rows.length ? null : empty("No such row."),
      rows.length > shown.length ? h("p.empty", h("button.button", { type: "button", onclick: () => { this.most += 10 * STEP; this.changed(); } }, `Show more: ${rows.length - shown.length} are left`)) : null);
  }

  title(name) {
    const down = this.sort?.name === name ? this.sort.down : null;
    const words = { seconds: "Time", memory: "Memory", task: "Task", state: "State", failure: "Failure", cause: "Cause" }[name] || name;
    return h("th", { class: this.numeric(name) ? "num" : "", "aria-sort": down === null ? "none" : down ? "descending" : "ascending" },
      h("button.sort", { type: "button", onclick: () => { this.sort = { name, down: down === false }; this.changed(); } }, words, down === null ? "" : down ? " ↓" : " ↑"));
  }

  numeric(name) { return this.found.figures.includes(name) || name === "seconds" || name === "memory"; }

  row(row, columns, best) {
    const place = `#/jobs/${encodeURIComponent(this.id)}`;
    return h("tr", { "data-key": row.task, class: best ? "chosen" : "" }, columns.map((name) => {
      const cell = row[name];
      if (name === "task") return h("td.main", h("a", { href: `${place}/tasks/${cell}` }, cell), best ? h("span.chip", "first") : null);
      if (name === "state") return h("td", stateMark(cell));
      if (name === "failure") return h("td.nowrap", cell ? cell.replaceAll("-", " ") : "–");
      if (name === "cause") return h("td.wide", cell ? h("a", { href: `${place}/logs/${row.task}` }, cell) : "–");
      if (cell === null || cell === "") return h("td", { class: this.numeric(name) ? "num" : "" }, "–");
      if (name === "seconds") return h("td.num", duration(cell));
      if (name === "memory") return h("td.num", bytes(cell));
      return this.numeric(name) ? h("td.num", { title: `from ${row[`${plain(name)}:min`]} to ${row[`${plain(name)}:max`]}` }, String(Number(cell.toPrecision(6)))) : h("td", String(cell));
    }));
  }

  close() { this.closed = true; this.poll.close(); }
}

const plain = (name) => name.replace(/:last$/, "");

// `lr=0.3`: the column has this value.
function matches(row, word) {
  const [name, text] = word.split("=", 2), column = Object.keys(row).find((each) => each.toLowerCase() === name);
  return column !== undefined && String(row[column]).toLowerCase() === text;
}
