// Two runs of a job: results side by side, curves over each other, and what differs in their job files and output.

import { Curves } from "../charts.js";
import { h } from "../dom.js";
import { amount, bytes, duration, instant, plural } from "../format.js";
import { stateMark } from "../glyphs.js";
import { empty, jobLink, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster, listFiles, me } from "../state.js";
import { usageCharts } from "./usage.js";

const MOST = 200; // rows of each table

export function compareView([first, second]) {
  const charts = usageCharts("compare", Curves);
  let runs = null, outputs = null, problem = "", closed = false;
  const poll = new Poll(async () => {
    let again = null;
    try {
      const found = await ask("comparison", { first, second });
      if (closed) return null;
      runs = found.jobs;
      charts.show(found);
      if (me.files) outputs = await Promise.all(runs.map((run) => listFiles(`jobs/${run.id}`).catch(() => []))); // no folder: no output
    } catch (error) { problem = error.message; again = 5; }
    cluster.changed();
    return again;
  });
  poll.now();
  return {
    close() { closed = true; poll.close(); charts.close(); },
    redraw() { charts.redraw(); },
    draw: () => h("div.stack", h("h1", "Two runs"), runs ? [table(runs), panel("Curves since the start of each run", { key: "curves" }, h("div.body", charts.element)), files(runs), outputs ? outputTable(outputs) : null]
      : h("section.panel", empty(problem || "Loading."))),
  };
}

const AMOUNT = /\.resources\.[^.]+$/;

// Paths of all plain values of a specification.
function flat(value, path = "", into = new Map()) {
  for (const [key, each] of Object.entries(value || {})) {
    const name = path ? `${path}.${key}` : key;
    if (each === null) continue;
    if (typeof each === "object" && !Array.isArray(each)) flat(each, name, into);
    else into.set(name, Array.isArray(each) ? JSON.stringify(each) : AMOUNT.test(name) ? amount(key, each) : String(each));
  }
  return into;
}

function files(runs) {
  const sides = runs.map((run) => flat(run.specification));
  const names = [...new Set(sides.flatMap((side) => [...side.keys()]))].filter((name) => sides[0].get(name) !== sides[1].get(name));
  return panel("Differences of the job files", { key: "spec" }, names.length ? sideBySide(["Field", "First", "Second"], names.map((name) => [name, ...sides.map((side) => side.get(name) ?? "–")])) : empty("The job files say the same."));
}

function outputTable(outputs) {
  const sides = outputs.map((entries) => new Map(entries.map((each) => [each.name, each.type === "file" ? bytes(each.size) : each.type])));
  const names = [...new Set(sides.flatMap((side) => [...side.keys()]))].sort();
  return panel("Output files", { key: "outputs" }, names.length ? sideBySide(["Name", "First", "Second"], names.map((name) => [name, ...sides.map((side) => side.get(name) ?? "–")])) : empty("Neither run wrote files."));
}

function sideBySide(head, rows) {
  return [h("div.scroll", h("table", h("thead", h("tr", head.map((text) => h("th", text)))),
    h("tbody", rows.slice(0, MOST).map(([name, one, two]) => h("tr", { class: one === two ? "" : "chosen" }, h("th", { scope: "row" }, name), h("td.wide", one), h("td.wide", two)))))),
  rows.length > MOST ? h("p.empty", `${rows.length - MOST} more`) : null];
}

function table(runs) {
  const rows = [
    ["Job", (run) => jobLink(run.id)], ["State", (run) => stateMark(run.state)], ["Reason", (run) => run.reason?.message || "–"], ["User", (run) => run.user],
    ["Submitted", (run) => instant(run.submitted)], ["Waited", (run) => (run.started ? duration(run.started - run.submitted) : "–")],
    ["Ran", (run) => (run.ended && run.started ? duration(run.ended - run.started) : "–")], ["Restarts", (run) => String(run.restarts)],
    ["Exit code", (run) => String(run.exit_code ?? "–")],
    ...[...new Set(runs.flatMap((run) => Object.keys(run.components)))].map((name) => [name, (run) => {
      const part = run.components[name];
      return part ? `${plural(part.replicas, "task")}: ${Object.entries(part.counts).map(([state, number]) => `${number} ${state.toLowerCase()}`).join(", ")}` : "–";
    }]),
  ];
  const text = (cell) => (cell instanceof Node ? cell.textContent : cell);
  return panel("Comparison", { end: h("span.soft", "differences are marked") }, h("div.scroll", h("table", h("tbody", rows.map(([name, read]) => {
    const [one, two] = runs.map(read);
    return h("tr", { class: text(one) === text(two) || name === "Job" ? "" : "chosen" }, h("th", { scope: "row" }, name), h("td.wide", one), h("td.wide", two));
  })))));
}
