// The list of jobs: those of the feed, and older ones on demand; filtered by words and state, sorted by any column.

import { h } from "../dom.js";
import { inOrder, naturally } from "../filter.js";
import { ago, clock, count, duration, instant, plural } from "../format.js";
import { jobState, mark } from "../glyphs.js";
import { jobFilter, selectionOf, tagsOf } from "../job_filter.js";
import { keep, recall } from "../kept.js";
import { cards, empty, jobLink, panel, progress, tally } from "../parts.js";
import { ask, cluster, ended, me } from "../state.js";
import { reasonOf } from "./overview.js";
import { mayStart, startJob } from "./start_job.js";

const PAGE = 100; // rows at first, and more each time
const OLDER = 200; // jobs of one question for older ones
const TRIES = 8; // questions for older ones until something new is there
const GROUPS = { "": "All", active: "Active", waiting: "Waiting", failed: "Failed", succeeded: "Succeeded", stopped: "Stopped" };
const FITS = {
  "": () => true, active: (job) => !ended(job), waiting: (job) => job.state === "QUEUED", failed: (job) => job.state === "FAILED",
  succeeded: (job) => job.state === "SUCCEEDED", stopped: (job) => job.state === "STOPPED",
};

const total = (counts) => Object.values(counts).reduce((sum, each) => sum + each, 0);
const NUMBERS = {
  "": total, active: ({ SUCCEEDED, FAILED, STOPPED, ...active }) => total(active), waiting: (counts) => counts.QUEUED || 0,
  failed: (counts) => counts.FAILED || 0, succeeded: (counts) => counts.SUCCEEDED || 0, stopped: (counts) => counts.STOPPED || 0,
};

const ran = (job) => (job.started ? (job.ended || clock.now()) - job.started : null);
const tasks = (job) => total(job.counts);
const none = () => h("span.faint.none", "–");
const when = (time) => (time ? h("span", { title: instant(time) }, ago(time)) : none());

// Each column: its title, what it is sorted by, and its cell.
const COLUMNS = {
  job: { title: "Job", value: (job) => job.name, cell: (job) => h("td.main", jobLink(job.id, job.name), h("div.faint.mono", job.id.slice(-8))) },
  state: { title: "State", value: (job) => jobState(job).text, cell: (job) => h("td", mark(jobState(job))) },
  tasks: { title: "Tasks", value: tasks, cell: (job) => h("td.wide", progress(job.counts), tally(job.counts)) },
  reason: { title: "Reason", value: (job) => reasonOf(job), cell: (job) => h("td.wide", reasonOf(job) === "–" ? none() : reasonOf(job)) },
  tags: { title: "Tags", value: (job) => tagsOf(job).sort(naturally).join(" "), cell: (job) => h("td.tags", tagsOf(job).length ? tagsOf(job).map((tag) => [tagLink(tag), " "]) : none()) },
  user: { title: "User", value: (job) => job.user, cell: (job) => h("td", job.user) },
  priority: { title: "Priority", number: true, value: (job) => job.priority, cell: (job) => h("td.num", job.priority) },
  restarts: { title: "Restarts", number: true, value: (job) => job.restarts, cell: (job) => h("td.num", job.restarts) },
  schedule: { title: "Schedule", value: (job) => job.schedule || "", cell: (job) => h("td", job.schedule ? h("a", { href: "#/schedules" }, job.schedule) : none()) },
  submitted: { title: "Submitted", number: true, value: (job) => job.submitted, cell: (job) => h("td.num", when(job.submitted)) },
  started: { title: "Started", number: true, value: (job) => job.started, cell: (job) => h("td.num", when(job.started)) },
  ended: { title: "Ended", number: true, value: (job) => job.ended, cell: (job) => h("td.num", when(job.ended)) },
  ran: { title: "Ran", number: true, value: ran, cell: (job) => h("td.num", job.started ? duration(ran(job)) : none()) },
};
const USUAL = ["job", "state", "tasks", "reason", "tags", "user", "submitted", "ran"];

export const tagLink = (tag) => h("a.chip", { href: `#/jobs?${new URLSearchParams({ q: `tag:${tag}` })}`, title: "Jobs with this tag" }, tag);

export function jobsView(_, query) {
  let text = query.get("q") || "", group = GROUPS[query.get("state")] ? query.get("state") : "", shown = PAGE;
  let columns = chosen(recall("job-columns", USUAL)), sort = recall("job-order", null);
  if (!COLUMNS[sort?.name]) sort = null;
  const past = new Map(); // older jobs, which this tab asked for
  let before = null, looking = false, atEnd = false, problem = "", turn = 0;
  const note = () => history.replaceState(null, "", `#/jobs?${new URLSearchParams({ ...(text && { q: text }), ...(group && { state: group }) })}`);

  function choose(change) {
    change();
    turn += 1; before = null; looking = false; atEnd = false; problem = ""; shown = PAGE; // older jobs are searched for with the new filter
    note();
    cluster.changed();
  }

  function order(name) {
    sort = sort?.name !== name ? { name, down: Boolean(COLUMNS[name].number) } : sort.down === Boolean(COLUMNS[name].number) ? { name, down: !sort.down } : null;
    keep("job-order", sort);
    cluster.changed();
  }

  function found() {
    const fits = jobFilter(text), all = new Map([...past, ...cluster.jobs]);
    const jobs = [...all.values()].filter((job) => FITS[group](job) && fits(job));
    if (!sort) return jobs.sort((one, two) => Number(ended(one)) - Number(ended(two)) || two.submitted - one.submitted);
    const { value } = COLUMNS[sort.name], sign = sort.down ? -1 : 1, known = (job) => value(job) !== null && value(job) !== "" && value(job) !== "–";
    return [...jobs.filter(known).sort((one, two) => sign * inOrder(value(one), value(two)) || two.submitted - one.submitted), ...jobs.filter((job) => !known(job))];
  }

  // Asks for jobs that ended so long ago that the tab does not have them, page by page, until one is new.
  async function look() {
    const mine = ++turn, had = found().length;
    looking = true; problem = "";
    cluster.changed();
    try {
      for (let tries = 0; tries < TRIES && !atEnd && found().length === had; tries += 1) {
        const selected = Object.fromEntries(Object.entries({ ...selectionOf(text), before }).filter(([, each]) => each));
        const more = await ask("jobs", { ...selected, limit: OLDER });
        if (mine !== turn) return; // another filter was chosen meanwhile
        for (const job of more) past.set(job.id, job);
        atEnd = more.length < OLDER;
        before = more.length ? more[0].id : before;
      }
    } catch (error) { if (mine === turn) problem = error.message; }
    if (mine !== turn) return;
    looking = false; shown += PAGE;
    cluster.changed();
  }

  const view = {
    close() { turn += 1; },
    draw() {
      const jobs = found(), all = total(cluster.counts), here = new Set([...past.keys(), ...cluster.jobs.keys()]).size;
      return h("div.stack", h("div.head", h("h1", "Jobs"), mayStart() ? h("div.actions", h("button.button.primary", { type: "button", onclick: () => startJob() }, "Start a job")) : null),
        h("div.filters",
          h("input.field", { type: "search", "aria-label": "Filter jobs", placeholder: "Words, tag:exp=a7, user:maria, state:failed", value: text, oninput: (event) => choose(() => { text = event.target.value; }) }),
          Object.entries(GROUPS).map(([key, name]) => h("button.button", { type: "button", "aria-pressed": String(group === key), onclick: () => choose(() => { group = key; }) }, name, h("span.soft", count(NUMBERS[key](cluster.counts))))),
          columnChoice(), sortChoice()),
        panel("Jobs", { end: h("span.soft", { role: "status" }, told(jobs.length, here, all)) },
          jobs.length ? table(jobs.slice(0, shown)) : empty(cluster.complete ? "No job matches." : "Loading."),
          problem ? empty(problem) : null,
          jobs.length > shown ? h("p.empty", h("button.button", { type: "button", onclick: () => { shown += PAGE; cluster.changed(); } }, `Show ${plural(Math.min(PAGE, jobs.length - shown), "more job").replace("more jobs", "more")}`)) : older(here, all)));
    },
  };
  return view;

  // How many are shown, and of how many: also while the tab has not got all of them yet.
  function told(matching, here, all) {
    const some = Math.min(matching, shown), parts = [`${count(some)} of ${count(matching)}${text || group ? " that match" : ""}`];
    if (!cluster.complete) parts.push(`loading ${count(Math.max(0, all - here))} more`);
    else if (here < all && !atEnd) parts.push(`${count(all - here)} older ones are not here`);
    return parts.join("; ");
  }

  function older(here, all) {
    if (!cluster.complete || here >= all || !me.questions.includes("jobs")) return null;
    return h("p.empty", atEnd ? "The cluster keeps no older job that matches." : h("button.button", { type: "button", disabled: looking, onclick: look }, looking ? "Looking." : text || group ? "Look among older jobs" : "Show older jobs"));
  }

  function columnChoice() {
    const toggle = (name) => { columns = chosen(Object.keys(COLUMNS).filter((each) => (each === name ? !columns.includes(each) : columns.includes(each)))); keep("job-columns", columns); cluster.changed(); };
    return h("details.choice", h("summary.button", "Columns"), h("fieldset", h("legend.hidden", "Columns that are shown"),
      Object.entries(COLUMNS).slice(1).map(([name, { title }]) => h("label", h("input", { type: "checkbox", checked: columns.includes(name), onchange: () => toggle(name) }), title)),
      h("button.button", { type: "button", onclick: () => { columns = chosen(USUAL); keep("job-columns", columns); cluster.changed(); } }, "As at first")));
  }

  // A phone shows cards, which have no heads of columns.
  function sortChoice() {
    return h("label.soft.narrow", "Sort: ", h("select.field", { "aria-label": "Sort jobs by", onchange: (event) => { sort = null; if (event.target.value) order(event.target.value); else { keep("job-order", null); cluster.changed(); } } },
      h("option", { value: "" }, "active, newest"), columns.map((name) => h("option", { value: name, selected: sort?.name === name }, COLUMNS[name].title))));
  }

  function head(name) {
    const { title, number } = COLUMNS[name], down = sort?.name === name ? sort.down : null;
    return h("th", { class: number ? "num" : "", "aria-sort": down === null ? "none" : down ? "descending" : "ascending" },
      h("button.sort", { type: "button", onclick: () => order(name) }, title), h("span", { "aria-hidden": "true" }, down === null ? "" : down ? " ↓" : " ↑"));
  }

  function table(jobs) {
    return cards(h("table.jobs", h("thead", h("tr", columns.map(head))),
      h("tbody", jobs.map((job) => h("tr", { "data-row": true, "data-key": job.id }, columns.map((name) => COLUMNS[name].cell(job)))))), (at) => COLUMNS[columns[at]].title);
  }
}

// Columns in their order; the first one is always there.
const chosen = (names) => Object.keys(COLUMNS).filter((name) => name === "job" || (Array.isArray(names) && names.includes(name)));
