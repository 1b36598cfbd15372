// The list of jobs: those of the feed, filtered by words and state.

import { h } from "../dom.js";
import { ago, clock, count, duration } from "../format.js";
import { stateMark } from "../glyphs.js";
import { cards, empty, jobLink, panel, progress, tally } from "../parts.js";
import { cluster, ended } from "../state.js";
import { reasonOf } from "./overview.js";
import { mayStart, startJob } from "./start_job.js";

const MOST = 300;
const GROUPS = { "": "All", active: "Active", waiting: "Waiting", failed: "Failed", succeeded: "Succeeded", stopped: "Stopped" };
const FITS = {
  "": () => true, active: (job) => !ended(job), waiting: (job) => job.state === "QUEUED", failed: (job) => job.state === "FAILED",
  succeeded: (job) => job.state === "SUCCEEDED", stopped: (job) => job.state === "STOPPED",
};

export function jobsView(_, query) {
  let text = query.get("q") || "", group = GROUPS[query.get("state")] ? query.get("state") : "";
  const keep = () => history.replaceState(null, "", `#/jobs?${new URLSearchParams({ ...(text && { q: text }), ...(group && { state: group }) })}`);
  return {
    draw() {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const all = [...cluster.jobs.values()];
      const found = all.filter(FITS[group]).filter((job) => words.every((word) => `${job.id} ${job.user} ${job.schedule || ""} ${job.state}`.toLowerCase().includes(word)))
        .sort((one, two) => Number(ended(one)) - Number(ended(two)) || two.submitted - one.submitted);
      return h("div.stack", h("div.head", h("h1", "Jobs"), mayStart() ? h("div.actions", h("button.button.primary", { type: "button", onclick: () => startJob() }, "Start a job")) : null),
        h("div.filters",
          h("input.field", { type: "search", "aria-label": "Filter jobs", placeholder: "Filter by name, id, user or schedule", value: text, oninput: (event) => { text = event.target.value; keep(); cluster.changed(); } }),
          Object.entries(GROUPS).map(([key, name]) => h("button.button", { type: "button", "aria-pressed": String(group === key), onclick: () => { group = key; keep(); cluster.changed(); } }, name))),
        panel("Jobs", { end: h("span.soft", `${count(Math.min(found.length, MOST))} of ${count(Object.values(cluster.counts).reduce((sum, each) => sum + each, 0))}`) },
          found.length ? table(found.slice(0, MOST)) : empty("No job matches."),
          found.length > MOST ? h("p.empty", "More jobs match; narrow the filter.") : null));
    },
  };
}

function table(jobs) {
  return cards(h("table",
    h("thead", h("tr", h("th", "Job"), h("th", "State"), h("th", "Tasks"), h("th", "Reason"), h("th", { class: "optional" }, "User"), h("th.num", "Submitted"), h("th.num", "Ran"))),
    h("tbody", jobs.map((job) => h("tr", { "data-row": true, "data-key": job.id },
      h("td.main", jobLink(job.id, job.name), h("div.faint.mono", job.id.slice(-8))),
      h("td", stateMark(job.state)),
      h("td.wide", progress(job.counts), tally(job.counts)),
      h("td.wide", reasonOf(job) === "–" ? h("span.faint.none", "–") : reasonOf(job)),
      h("td", { class: "optional" }, job.user),
      h("td.num", ago(job.submitted)),
      h("td.num", job.started ? duration((job.ended || clock.now()) - job.started) : "–"))))));
}
