// What a job uses: totals, the tasks with most CPU time, curves of one task, and figures that tasks report themselves.

import { Curves } from "../charts.js";
import { h } from "../dom.js";
import { bytes, duration, notFinite, percent } from "../format.js";
import { stateMark } from "../glyphs.js";
import { cards, empty, facts, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask } from "../state.js";
import { usageCharts } from "./usage.js";

const RANGES = { 900: "15 minutes", 86400: "1 day", 2592000: "30 days" };

export class JobUsage {
  // `settled`: returns whether nothing new will come.
  constructor(id, task, changed, settled) {
    this.id = id; this.task = task; this.changed = changed; this.settled = settled;
    this.range = 900; this.found = null; this.problem = "";
    this.own = usageCharts(`own-${id}`, Curves);
    this.whole = usageCharts(`whole-${id}`, Curves);
    this.curves = usageCharts(`task-${id}`, Curves);
    this.poll = new Poll(() => this.load());
    this.poll.now();
  }

  async load() {
    try {
      this.found = await ask("job-usage", { job: this.id, range: this.range });
      this.own.show(this.found);
      this.whole.show({ charts: this.found.whole });
      this.task ||= (this.found.tasks.find((each) => each.now) || this.found.tasks[0])?.task;
      if (this.task && this.found.count > 1) this.curves.show(await ask("task-usage", { job: this.id, task: this.task, range: this.range }));
      this.problem = "";
    } catch (error) { this.problem = error.message; this.own.fail(error.message); this.whole.fail(error.message); this.curves.fail(error.message); }
    if (this.closed) return null;
    this.changed();
    return !this.problem && this.settled() ? null : this.range > 900 ? 60 : 4;
  }

  draw() {
    const { found } = this;
    if (!found) return panel("Usage", { key: "usage" }, empty(this.problem || "Loading."));
    return [
      panel("Own figures", { key: "own", end: leftOut(this.id, found.own) },
        h("div.body", this.own.element, found.charts?.length ? null : h("p.soft", "A task reports figures with lines ", h("code", "GRASS_METRIC loss=0.3 step=10"), " or grass.report(step=10, loss=0.3)."))),
      panel("All tasks together", { key: "whole", end: h("select.field", { "aria-label": "Range", onchange: (event) => { this.range = Number(event.target.value); this.poll.now(); } },
        Object.entries(RANGES).map(([seconds, text]) => h("option", { value: seconds, selected: Number(seconds) === this.range }, text))) }, h("div.body", this.whole.element)),
      this.task && found.count > 1 ? panel(this.task, { key: "task-usage" }, h("div.body", this.curves.element)) : null,
      panel("In all", { key: "totals" }, h("div.body", totals(found.totals))),
      panel("Tasks with most CPU time", { key: "top", end: h("span.soft", `${found.tasks.length} of ${found.count}`) }, found.tasks.length ? this.table(found.tasks) : empty("No task was assigned yet.")),
    ];
  }

  table(tasks) {
    return cards(h("table", h("thead", h("tr", h("th", "Task"), h("th", "State"), h("th.num", "CPU time"), h("th.num", "Cores now"), h("th.num", "Memory now"), h("th.num", "Peak"), h("th.num", "GPU now"), h("th.num", "Energy"))),
      h("tbody", tasks.map((each) => h("tr", { "data-key": each.task, class: each.task === this.task ? "chosen" : "" },
        h("td.main", h("a", { href: `#/jobs/${encodeURIComponent(this.id)}/usage/${each.task}` }, each.task)), h("td", stateMark(each.state)),
        h("td.num", each.totals ? duration(each.totals.cpu || 0) : "–"), h("td.num", each.now ? (each.now.cpu || 0).toFixed(2) : "–"), h("td.num", each.now ? bytes(each.now.memory || 0) : "–"),
        h("td.num", each.totals ? bytes(each.totals.memory || 0) : "–"), h("td.num", percent(each.now?.gpu)), h("td.num", energy(each.totals)))))));
  }

  redraw() { this.own.redraw(); this.whole.redraw(); this.curves.redraw(); }

  close() { this.closed = true; this.poll.close(); this.own.close(); this.whole.close(); this.curves.close(); }
}

// What the curves do not show.
function leftOut(id, own) {
  const words = [own.tasks > own.drawn ? `curves of the first ${own.drawn} of ${own.tasks} tasks` : "", own.points && own.points < 512 ? `at most ${own.points} points each` : "",
    own.figures > own.curves ? `${own.figures - own.curves} figures have no curve` : "", own.dropped ? `${own.dropped} points of further figures were not kept` : "", own.not_finite ? notFinite(own.not_finite) : ""].filter(Boolean);
  return words.length ? h("span.soft", words.join(", "), ". ", h("a", { href: `#/jobs/${encodeURIComponent(id)}/results` }, "All last values")) : null;
}

function energy(totals) {
  if (!totals?.energy) return "–";
  const hours = totals.energy / 3.6e6;
  return `${totals.partial ? "≥ " : ""}${hours < 0.01 ? `${(hours * 1000).toFixed(2)} Wh` : `${hours.toFixed(2)} kWh`}`;
}

function totals(used) {
  if (!used) return h("p.soft", "Nothing was measured yet.");
  return facts([["CPU time", duration(used.cpu || 0)], ["Highest memory of a task", bytes(used.memory || 0)], ["GPU time", duration(used.gpu || 0)],
    ["Read from disks", bytes(used.read || 0)], ["Written to disks", bytes(used.written || 0)], ["Energy", [energy(used), used.partial && used.energy ? h("span.soft", " (a source is missing)") : ""]],
    used.unmeasured ? ["Not measured", `${used.unmeasured} attempts`] : null]);
}
