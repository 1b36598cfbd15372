// Jobs or tasks side by side: parameters that differ, figures, curves, and what differs in their job files and output.

import { Curves } from "../charts.js";
import { h } from "../dom.js";
import { short } from "../filter.js";
import { amount, bytes, duration, instant, notFinite, plural } from "../format.js";
import { stateMark } from "../glyphs.js";
import { empty, jobLink, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster, fileGroups, me, settled } from "../state.js";
import { RunCurves } from "./run_curves.js";
import { usageCharts } from "./usage.js";

const MOST = 200; // rows of each table
const OFFERED = 100;

export function compareView([words]) {
  const names = words.split("/").map(decoded), charts = usageCharts("compare", Curves);
  let runs = null, found = null, files = null, curves = null, problem = "", closed = false;
  const poll = new Poll(async () => {
    let again = null;
    try {
      const answer = await ask("comparison", { of: names.join() });
      if (closed) return null;
      ({ jobs: runs, found } = answer);
      if (!runs.every(settled)) again = 10;
      charts.show(answer);
      const ids = runs.map((run) => run.id);
      curves ||= new RunCurves(ids, () => cluster.changed(), () => runs.every(settled), tasksOf(names, found));
      if (me.files && ids.length > 1) files = await fileGroups(ids).catch((error) => ({ problem: error.message }));
    } catch (error) { problem = error.message; again = 5; }
    cluster.changed();
    return again;
  });
  poll.now();
  return {
    close() { closed = true; poll.close(); charts.close(); curves?.close(); },
    redraw() { charts.redraw(); curves?.redraw(); },
    draw: () => h("div.stack", h("h1", found ? `${found.sides.length} runs side by side` : "Runs side by side"), runs ? [table(found, names), curves?.draw(), runTable(runs), specifications(runs),
      panel("CPU and memory since the start of each run", { key: "used" }, h("div.body", charts.element)), files ? fileTable(files) : null]
      : h("section.panel", empty(problem || "Loading."))),
  };
}

const decoded = (word) => { try { return decodeURIComponent(word); } catch { return word; } };
const address = (names) => `#/compare/${names.map(encodeURIComponent).join("/")}`;

// The tasks that are meant, if only tasks are.
function tasksOf(names, found) {
  const tasks = names.map((name) => (name.includes(".") ? name.slice(name.indexOf(".") + 1) : null));
  return tasks.every(Boolean) ? new Set(tasks.map((task, at) => `${found.sides[at].job} ${task}`)) : null;
}

function table(found, names) {
  const { sides } = found, figure = (side) => (side ? h("td", { title: side.tasks > 1 ? `mean of the last values of ${side.tasks} tasks, and the range of all their values` : "last value, and the range" }, short(side.last), h("div.soft", `${short(side.least)} to ${short(side.greatest)}`)) : h("td", "–"));
  const row = (title, cells) => h("tr", { "data-key": title }, h("th", { scope: "row" }, title), cells);
  const known = [...cluster.jobs.values()].filter((job) => !sides.some((side) => side.job === job.id)).sort((one, two) => two.submitted - one.submitted).slice(0, OFFERED);
  const add = known.length ? h("select.field", { "aria-label": "Add a job", onchange: (event) => { if (event.target.value) location.hash = address([...names, event.target.value]); } }, h("option", { value: "" }, "Add a job"), known.map((job) => h("option", { value: job.id }, job.id))) : null;
  return panel("Comparison", { key: "table", end: add }, found.incomplete.length ? h("p.note.inside", `${found.incomplete.join(", ")}: reported more figures than are kept; those of some tasks are missing.`) : null,
    Object.entries(found.not_finite).filter(([, lost]) => lost).map(([name, lost]) => h("p.note.inside", `${name}: ${notFinite(lost)}.`)),
    h("div.window.plain", { tabindex: 0, role: "region", "aria-label": "Runs side by side" }, h("table", h("thead", h("tr", h("th", h("span.hidden", "What")), sides.map((side, at) => h("th", jobLink(side.job, side.name), names.length > 2 ? h("a.soft", { href: address(names.filter((_, place) => place !== at)), "aria-label": `Leave out ${side.name}` }, " ×") : null)))),
      h("tbody", row("tasks", sides.map((side) => h("td", Object.entries(side.states).map(([state, number]) => `${number} ${state}`).join(", ")))),
        row("time of its tasks", sides.map((side) => h("td", duration(side.seconds)))),
        Object.entries(found.parameters).slice(0, MOST).map(([name, values]) => row(name, values.map((value) => h("td.chosen", value || "–")))),
        Object.entries(found.figures).slice(0, MOST).map(([name, each]) => row(name, each.map(figure)))))),
    Object.keys(found.parameters).length ? null : h("p.note.inside", "No parameter differs."));
}

const text = (cell) => (cell instanceof Node ? cell.textContent : cell);
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

function specifications(runs) {
  if (runs.length < 2) return null;
  const sides = runs.map((run) => flat(run.specification));
  const names = [...new Set(sides.flatMap((side) => [...side.keys()]))].filter((name) => sides.some((side) => side.get(name) !== sides[0].get(name)));
  return panel("Differences of the job files", { key: "spec" }, names.length ? sideBySide("Field", runs, names.map((name) => [name, sides.map((side) => side.get(name) ?? "–")])) : empty("The job files say the same."));
}

function fileTable(files) {
  if (files.problem) return panel("Output files", { key: "outputs" }, empty(files.problem));
  const alone = Object.entries(files.only), counts = [`${files.equal} equal`, files.differ.length ? `${files.differ.length} differ` : "", ...alone.map(([job, names]) => `${names.length} only in ${job}`)].filter(Boolean).join(", ");
  const list = (title, names) => (names.length ? h("details", { "data-key": title }, h("summary", `${title}: ${plural(names.length, "file")}`), h("p.soft", names.slice(0, MOST).join(", "), names.length > MOST ? `, and ${names.length - MOST} more` : "")) : null);
  return panel("Output files", { key: "outputs", end: h("span.soft", counts) }, files.equal || files.differ.length || alone.length
    ? h("div.body", list("Differ", files.differ), alone.map(([job, names]) => list(`Only in ${job}`, names)), files.differ.length || alone.length ? null : h("p.soft", "All files are equal, by their digests."), files.unread ? h("p.note", `${plural(files.unread, "file")} too large to be read, compared by size.`) : null)
    : empty("No run wrote files."));
}

function sideBySide(head, runs, rows) {
  return [h("div.window.plain", { tabindex: 0, role: "region", "aria-label": head }, h("table", h("thead", h("tr", h("th", head), runs.map((run) => h("th", run.id)))),
    h("tbody", rows.slice(0, MOST).map(([name, cells]) => h("tr", { "data-key": name, class: cells.every((cell) => text(cell) === text(cells[0])) ? "" : "chosen" }, h("th", { scope: "row" }, name), cells.map((cell) => h("td.wide", cell))))))),
  rows.length > MOST ? h("p.empty", `${rows.length - MOST} more`) : null];
}

function runTable(runs) {
  const rows = [
    ["State", (run) => stateMark(run.state)], ["Reason", (run) => run.reason?.message || "–"], ["User", (run) => run.user], ["Submitted", (run) => instant(run.submitted)],
    ["Waited", (run) => (run.started ? duration(run.started - run.submitted) : "–")], ["Ran", (run) => (run.ended && run.started ? duration(run.ended - run.started) : "–")],
    ["Highest memory of a task", (run) => bytes(run.usage?.memory)], ["Restarts", (run) => String(run.restarts)], ["Exit code", (run) => String(run.exit_code ?? "–")],
  ];
  return panel("Runs", { key: "runs", end: h("span.soft", "differences are marked") }, sideBySide("Of each run", runs, rows.map(([name, read]) => [name, runs.map(read)])).slice(0, 1));
}
