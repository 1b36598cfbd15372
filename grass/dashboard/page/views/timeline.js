// The phases of every attempt of each task – waiting, image, starting, running, ended by what – in one lane per task.

import { h } from "../dom.js";
import { clock, duration, instant, plural } from "../format.js";
import { toneOf } from "../glyphs.js";
import { empty, panel } from "../parts.js";

const MOST = 200;
const URGENT = ["FAILED", "LOST", "RUNNING", "ASSIGNED", "STOPPED", "SUCCEEDED", "PENDING"];

// `attempts`: all that are kept, or null; without them, the newest of each task. `count`: how many tasks the job has.
export function timeline(job, tasks, attempts, { count = tasks.length, link = (task) => `#/jobs/${encodeURIComponent(job.id)}/tasks/${task}` } = {}) {
  if (!tasks.length) return panel("Timeline", { key: "timeline" }, empty("Loading."));
  const from = job.submitted, until = job.ended || clock.now(), span = Math.max(until - from, 0.001);
  const shown = [...tasks].sort((one, two) => URGENT.indexOf(one.state) - URGENT.indexOf(two.state) || (one.started || Infinity) - (two.started || Infinity)).slice(0, MOST);
  const share = (time) => `${Math.max(0, Math.min(100, ((time - from) / span) * 100)).toFixed(2)}%`;
  const kept = new Map();
  for (const each of attempts || []) kept.set(each.task, [...(kept.get(each.task) || []), each]);
  const bar = (start, end, tone, title) => h("i", { class: tone, title, vars: { "--from": share(start), "--long": `calc(${share(end)} - ${share(start)})` } });
  return panel("Timeline", { key: "timeline", end: h("span.soft", count > shown.length ? `${shown.length} of ${plural(count, "task")}, those that need attention first` : plural(count, "task")) },
    h("div.body.legend", LEGEND.map(([tone, text]) => h("span", h("i", { class: `swatch ${tone}` }), text))),
    h("div.lanes", { tabindex: 0 }, shown.map((each) => {
      const ended = each.ended || (each.started ? until : null);
      const all = (kept.get(each.task) || []).map((one) => (one.attempt === each.attempt ? { ...one, state: each.state, started: each.started, ended } : one));
      if (!all.some((one) => one.attempt === each.attempt)) all.push({ ...each, ended });
      return h("div.lane", { "data-key": each.task }, link ? h("a", { href: link(each.task) }, each.task) : h("span", each.task),
        h("span.track", all.flatMap((one, at) => phases(one, at ? all[at - 1].ended || from : from, until).map(([start, end, tone, title]) => bar(start, end, tone, title)))),
        h("span.num.soft", each.started && ended ? duration(ended - each.started) : ""));
    })),
    h("div.gantt-axis", h("span", instant(from)), h("span", instant(until))), h("div.body"));
}

const LEGEND = [["waiting", "waiting"], ["image", "image"], ["starting", "starting"], ["tone-running", "running"], ["tone-succeeded", "succeeded"], ["tone-failed", "failed"], ["tone-stopped", "stopped"]];

// [[from, to, tone, title]] of one attempt. `before`: since when the task waited for it.
function phases(one, before, now) {
  const begun = one.started || one.ended || now, placed = Math.min(one.assigned || begun, begun), ready = Math.min(one.prepared || placed, begun);
  const where = `attempt ${one.attempt || 1}${one.node ? ` on ${one.node}` : ""}`;
  const found = [[before, placed, "waiting", `${where}: waited ${duration(placed - before)}`]];
  if (one.prepared) found.push([placed, ready, "image", `${where}: image, ${duration(ready - placed)}`]);
  if (begun > ready) found.push([ready, begun, "starting", `${where}: starting, ${duration(begun - ready)}`]);
  if (one.started) {
    const end = one.ended || one.started, tone = one.state ? toneOf(one.state) : one.exit_code === 0 ? "succeeded" : "failed";
    const result = one.reason?.message || (one.signal ? `ended by signal ${one.signal}` : one.exit_code === null || one.exit_code === undefined ? "running" : `exit code ${one.exit_code}`);
    found.push([one.started, end, `tone-${tone}`, `${where}: ran ${duration(end - one.started)}, ${result}`]);
  }
  return found;
}
