// When each task waited and ran, by what it ended: one lane per task.

import { h } from "../dom.js";
import { clock, duration, instant } from "../format.js";
import { toneOf } from "../glyphs.js";
import { empty, panel } from "../parts.js";

const MOST = 200;
const URGENT = ["FAILED", "LOST", "RUNNING", "ASSIGNED", "STOPPED", "SUCCEEDED", "PENDING"];

// `attempts`: all that are kept, or null; without them, the newest of each task.
export function timeline(job, tasks, attempts) {
  if (!tasks.length) return panel("Timeline", { key: "timeline" }, empty("Loading."));
  const from = job.submitted, until = job.ended || clock.now(), span = Math.max(until - from, 0.001);
  const shown = [...tasks].sort((one, two) => URGENT.indexOf(one.state) - URGENT.indexOf(two.state) || (one.started || Infinity) - (two.started || Infinity)).slice(0, MOST);
  const share = (time) => `${Math.max(0, Math.min(100, ((time - from) / span) * 100)).toFixed(2)}%`;
  const earlier = new Map();
  for (const each of attempts || []) earlier.set(each.task, [...(earlier.get(each.task) || []), each]);
  const bar = (start, end, tone, title) => h("i", { class: tone, title, vars: { "--from": share(start), "--long": `calc(${share(end)} - ${share(start)})` } });
  return panel("Timeline", { key: "timeline", end: h("span.soft", tasks.length > MOST ? `${MOST} of ${tasks.length} tasks, those that need attention first` : `${tasks.length} tasks`) },
    h("div.lanes", { tabindex: 0 }, shown.map((each) => {
      const end = each.ended || (each.started ? until : null);
      const ran = each.started && end ? duration(end - each.started) : "";
      return h("div.lane", { "data-key": each.task }, h("a", { href: `#/jobs/${encodeURIComponent(job.id)}/tasks/${each.task}` }, each.task),
        h("span.track", bar(from, each.started || until, "waiting tone-pending", "waiting"),
          (earlier.get(each.task) || []).filter((one) => one.attempt !== each.attempt && one.started).map((one) => bar(one.started, one.ended || one.started, one.exit_code === 0 ? "tone-succeeded" : "tone-failed", `attempt ${one.attempt} on ${one.node}: ${one.reason?.message || `exit code ${one.exit_code}`}`)),
          each.started ? bar(each.started, end, `tone-${toneOf(each.state)}`, `attempt ${each.attempt}: ${each.state.toLowerCase()}, ${ran}`) : null),
        h("span.num.soft", ran));
    })),
    h("div.gantt-axis", h("span", instant(from)), h("span", instant(until))), h("div.body"));
}
