// Two runs of a job side by side.

import { h } from "../dom.js";
import { duration, instant } from "../format.js";
import { stateMark } from "../glyphs.js";
import { empty, jobLink, panel } from "../parts.js";
import { ask, cluster } from "../state.js";

export function compareView([first, second]) {
  let runs = null, problem = "";
  (async () => {
    try { runs = await Promise.all([first, second].map((job) => ask("job", { job }))); } catch (error) { problem = error.message; }
    cluster.changed();
  })();
  return { draw: () => h("div.stack", h("h1", "Two runs"), runs ? table(runs) : h("section.panel", empty(problem || "Loading."))) };
}

function table(runs) {
  const rows = [
    ["Job", (run) => jobLink(run.id)], ["State", (run) => stateMark(run.state)], ["Reason", (run) => run.reason?.message || "–"], ["User", (run) => run.user],
    ["Submitted", (run) => instant(run.submitted)], ["Waited", (run) => (run.started ? duration(run.started - run.submitted) : "–")],
    ["Ran", (run) => (run.ended && run.started ? duration(run.ended - run.started) : "–")], ["Restarts", (run) => String(run.restarts)],
    ["Exit code", (run) => String(run.exit_code ?? "–")],
    ...[...new Set(runs.flatMap((run) => Object.keys(run.components)))].map((name) => [name, (run) => {
      const part = run.components[name];
      return part ? `${part.replicas} tasks: ${Object.entries(part.counts).map(([state, number]) => `${number} ${state.toLowerCase()}`).join(", ")}` : "–";
    }]),
  ];
  const text = (cell) => (cell instanceof Node ? cell.textContent : cell);
  return panel("Comparison", { end: h("span.soft", "differences are marked") }, h("div.scroll", h("table", h("tbody", rows.map(([name, read]) => {
    const [one, two] = runs.map(read);
    return h("tr", { class: text(one) === text(two) || name === "Job" ? "" : "chosen" }, h("th", { scope: "row" }, name), h("td.wide", one), h("td.wide", two));
  })))));
}
