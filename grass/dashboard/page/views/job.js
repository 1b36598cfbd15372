// One job: its head with actions, and its sections: tasks, timeline, logs, usage, events, definition.

import { h } from "../dom.js";
import { ago, amount, clock, duration, instant, percent, plural } from "../format.js";
import { jobState, mark, shape, stateMark } from "../glyphs.js";
import { cards, empty, facts, nodeLink, panel, progress, tabs, tally } from "../parts.js";
import { Poll } from "../poll.js";
import { Feed, ask, cluster, ended, me, settled } from "../state.js";
import { eventList } from "./events.js";
import { FileList, addressOf } from "./files.js";
import { FilePreview } from "./file_preview.js";
import { Glance } from "./glance.js";
import { Grid } from "./grid.js";
import { jobActions, taskActions } from "./job_actions.js";
import { LogPane } from "./logs.js";
import { Media } from "./media.js";
import { operationList } from "./operations.js";
import { Stacks } from "./stacks.js";
import { mayStart, startJob } from "./start_job.js";
import { timeline } from "./timeline.js";
import { JobUsage } from "./job_usage.js";
import { Results } from "./results.js";
import { RunCurves } from "./run_curves.js";

const SECTIONS = { results: "Results", tasks: "Tasks", curves: "Curves", timeline: "Timeline", logs: "Logs", usage: "Usage", files: "Files", operations: "Operations", events: "Events", about: "About" };
const OF_SHARED = ["tasks", "timeline", "operations", "events"];
const ATTENTION = 25, OFFERED = 200;

export function jobView([id, section = "", task]) {
  const feed = new Feed(id), grids = new Map();
  let array = null; // whether its tasks were made to differ: then their results come first
  let log = null, glance = null, usage = null, results = null, media = null, curves = null, files = null, stacks = null, why = null, events = null, attempts = null, operations = null, specification = null, file = null, pages = null;
  const gone = () => (feed.known || feed.link.up) && !feed.jobs.size; // deleted, or it never existed: there is nothing to ask
  const current = () => (gone() ? undefined : feed.jobs.get(id) || [...feed.jobs.values()][0] || cluster.jobs.get(id));
  const view = {
    accepts: ([next]) => next === id,
    move([, next = "", chosen]) { leave(); section = next; task = chosen; enter(); },
    close() { leave(); poll.close(); feed.close(); for (const grid of grids.values()) grid.close(); },
    redraw() { usage?.redraw(); curves?.redraw(); for (const grid of grids.values()) grid.draw(); },
    draw() {
      const job = current();
      if (!job) return h("div.stack", h("h1", id), h("section.panel", empty(gone() ? feed.link.message || "This job was deleted, or never existed." : "Loading.")));
      return h("div.stack", head(job, pages || []), tabs(`#/jobs/${encodeURIComponent(id)}`, sections(), section === first() ? "" : section === "file" ? "files" : section), body(job));
    },
  };

  const first = () => (array ? "results" : "tasks");
  const shown = () => section || first();

  // The tabs, in their order. The first one has the address of the job itself.
  function sections() {
    const names = [first(), ...Object.keys(SECTIONS).filter((name) => name !== first())].filter((name) => (me.shared ? OF_SHARED.includes(name) : name !== "files" || me.files));
    return Object.fromEntries(names.map((name, at) => [at === 0 ? "" : name, SECTIONS[name]]));
  }

  function body(job) {
    const tasks = [...feed.tasks.values()];
    if (section === "logs" && log) { log.offer(parts(job, tasks)); return log.element; }
    if (section === "timeline") return timeline(job, tasks, attempts);
    if (section === "usage" && usage) return usage.draw();
    if (shown() === "results" && results) return [whyPanel(job), results.draw(), media?.draw(), glance?.draw(job, true)];
    if (section === "curves" && curves) return curves.draw();
    if (section === "files" || section === "file") return files ? files.draw() : empty("Loading.");
    if (section === "operations") return operationList(job, operations);
    if (section === "events") return panel("Events", {}, events === null ? empty("Loading.") : events.length ? eventList([...events].reverse()) : empty("No event of this job is kept."));
    if (section === "about") return [panel("About", {}, h("div.body", about(job))), file ? filePanel(job) : null, specification ? panel("Specification, with defaults", { key: "specification", end: h("a.button", { href: `/ask/specification?job=${encodeURIComponent(id)}`, download: `${id}.json` }, "Download") }, h("div.source", { tabindex: 0 }, outline(specification))) : null];
    return [whyPanel(job), taskPanel(job, tasks), chosenPanel(job), media?.draw(), stacks?.draw(), attention(job, tasks), glance?.draw(job)];
  }

  function taskPanel(job, tasks) {
    const byComponent = new Map(Object.keys(job.components).map((name) => [name, []]));
    for (const each of tasks) byComponent.get(each.component)?.push(each);
    for (const [name, those] of byComponent) {
      if (!grids.has(name)) grids.set(name, new Grid(name, (each) => { location.hash = `#/jobs/${encodeURIComponent(id)}/tasks/${each.task}`; }, describe));
      those.sort((one, two) => one.index - two.index);
      grids.get(name).show(those, job.components[name].reason?.message, task);
    }
    return h("section.panel", { "data-key": "grids", "aria-label": "Tasks" }, [...byComponent.keys()].map((name) => grids.get(name).element));
  }

  function chosenPanel(job) {
    const each = section === "tasks" ? feed.tasks.get(task) : null;
    if (!each) return null;
    return panel(each.task, { key: "chosen", end: me.shared ? null : [h("a.button", { href: `#/jobs/${encodeURIComponent(id)}/logs/${each.task}` }, "Its log"), h("a.button", { href: `#/jobs/${encodeURIComponent(id)}/usage/${each.task}` }, "Its usage"), stacks && each.state === "RUNNING" && (me.role === "admin" || job.user === me.user) ? stacks.button() : null, taskActions(job, each)] },
      h("div.body.detail",
        facts([["State", stateMark(each.state)], ["Node", nodeLink(each.node)], each.software?.machine ? ["Machine", each.software.machine] : null, ["Attempt", each.attempt || "none yet"], ["Restarts", each.restarts]]),
        facts([["Started", instant(each.started)], ["Ran", each.started ? duration((each.ended || clock.now()) - each.started) : "–"], ["Exit code", each.signal ? `signal ${each.signal}` : each.exit_code], ["Process", each.pid]]),
        facts([each.reason?.details?.failure ? ["Failure", each.reason.details.failure.replaceAll("-", " ")] : null, ["Reason", each.reason?.message || (each.state === "PENDING" && job.components[each.component]?.reason?.message)], ["Ports", Object.entries(each.ports || {}).map(([name, port]) => `${name} ${port}`).join(", ")], ["GPUs", (each.gpus || []).map(([device, share]) => `GPU ${device}${share < 1000 ? `, ${percent(share / 10)} of it` : ""}`).join("; ")]])));
  }

  function attention(job, tasks) {
    const bad = tasks.filter((each) => each.state === "FAILED" || each.state === "LOST" || each.restarts > 0 || (each.reason && each.state !== "PENDING" && each.state !== "STOPPED" && each.state !== "SUCCEEDED"));
    if (!bad.length) return null;
    return panel("Tasks that need attention", { key: "attention", end: h("span.soft", plural(bad.length, "task")) }, cards(h("table",
      h("thead", h("tr", h("th", "Task"), h("th", "State"), h("th", "Reason"), h("th", "Node"), h("th.num", "Restarts"), h("th.num", "Ended"))),
      h("tbody", bad.slice(0, ATTENTION).map((each) => h("tr", { "data-row": true, "data-key": each.task },
        h("td.main", h("a", { href: `#/jobs/${encodeURIComponent(id)}/tasks/${each.task}` }, each.task)), h("td", stateMark(each.state)),
        h("td.wide", failed(each.reason), each.reason?.message || "–"), h("td", nodeLink(each.node)), h("td.num", each.restarts), h("td.num", ago(each.ended))))))));
  }

  function whyPanel(job) {
    if ((ended(job) && job.state !== "FAILED") || !(why?.groups?.length || why?.findings?.length)) return null;
    const wrong = (group) => group.state === "FAILED" || group.state === "LOST";
    const waits = ended(job) ? null : reasonPanel("Why it waits", why.groups.filter((group) => !wrong(group)));
    return [findingPanel(why.findings || []), waits, reasonPanel("What went wrong", why.groups.filter(wrong))];
  }

  function findingPanel(findings) {
    if (!findings.length) return null;
    const [cause] = findings.every((each) => each.cause === findings[0].cause) ? [findings[0].cause] : [];
    return panel({ "slow-member": "It is slow", "node-check": "A node is at fault" }[cause] || "It stands still", { key: "findings" }, h("div.scroll", h("table", h("tbody", findings.map((each) => h("tr",
      h("td.nowrap", each.component), h("td.nowrap", each.state.toLowerCase()),
      h("td.wide", `${each.what} ${each.why}`, h("div.soft", [each.action, ...(each.evidence || [])].filter(Boolean).join("; ")))))))));
  }

  function reasonPanel(title, groups) {
    if (!groups.length) return null;
    return panel(title, { key: title }, h("div.scroll", h("table", h("tbody", groups.map((group) => h("tr",
      h("td.nowrap", group.component), h("td.nowrap", `${group.count}${group.of > group.count ? ` of ${group.of}` : ""} ${group.state.toLowerCase()}`),
      h("td.wide", failed(group.reason), group.reason?.message || "–", group.common ? h("div", `${group.common} in ${group.count > 1 ? "all of them" : "it"}`) : null, group.next ? h("div.soft", group.next) : null)))))));
  }

  function filePanel(job) {
    const copy = mayStart() ? h("button.button", { type: "button", onclick: () => startJob({ name: file.name, text: file.text }) }, "Start a changed copy") : null;
    return panel(file.original ? `Job file ${file.name}` : "Job file, written from the specification", { key: "file", label: "Job file", end: [copy, h("a.button", { href: `/job-file?job=${encodeURIComponent(job.id)}`, download: file.name }, "Download")] },
      h("div.source", { tabindex: 0, role: "region", "aria-label": "Text of the job file" }, file.text));
  }

  function enter() {
    if (gone()) return;
    if (section === "logs" && !me.shared) log = new LogPane(id, task);
    if (section === "tasks" && task && me.questions.includes("stacks") && me.role !== "viewer") stacks = new Stacks(id, task, () => feed.changed());
    if (section === "usage" && !me.shared) usage = new JobUsage(id, task, () => feed.changed(), () => settled(current()));
    if (shown() === "results" && !me.shared) results = new Results(id, () => feed.changed(), () => settled(current()));
    if ((shown() === "results" || (section === "tasks" && task)) && !me.shared) media = new Media(id, shown() === "results" ? undefined : task, () => feed.changed(), () => settled(current()));
    if (section === "curves" && !me.shared) curves = new RunCurves([id], () => feed.changed(), () => settled(current()));
    openKnown();
    poll.now();
  }

  // What is only asked of a job that is there, and by its id, which an address with its name has not.
  function openKnown() {
    if (current()?.id !== id) return;
    if (!glance && shown() === first() && !task && !me.shared) glance = new Glance(id, () => feed.changed(), () => settled(current()));
    if (files || !me.files) return;
    if (section === "file" && task) files = new FilePreview(id, task, () => feed.changed());
    if (section === "files") files = new FileList(id, task === undefined ? undefined : task === "." ? "" : task, () => feed.changed());
  }

  function leave() { files?.close(); files = null; log?.close(); log = null; glance?.close(); glance = null; stacks = null; usage?.close(); usage = null; results?.close(); results = null; media?.close(); media = null; curves?.close(); curves = null; }

  // What the feed does not have: asked for again, slowly, until the job has ended.
  const poll = new Poll(async () => {
    const job = current();
    if (!job) return null; // the feed has not told of it yet, or it is gone
    let again = settled(job) ? null : 5;
    try {
      if (array === null && !me.shared) {
        const found = await ask("array", { job: id });
        const told = array === null; // by no question that was asked meanwhile
        array = found;
        if (told && found && section === "" && current()) { leave(); enter(); return null; }
      }
      if (!pages && job.state === "RUNNING" && me.actions.includes("page-open")) pages = await ask("pages", { job: id });
      if (section === "events") events = await ask("events", { job: id });
      if (section === "operations") operations = await ask("operations", { job: id });
      if (section === "timeline") attempts = await ask("attempts", { job: id });
      if (section === "about" && !specification) [specification, file] = await Promise.all([ask("specification", { job: id }), ask("file", { job: id })]);
      if (["tasks", "results"].includes(shown()) && (!ended(job) || job.state === "FAILED")) why = await ask("why", { job: id });
    } catch { again = 5; /* the head of the page says when the cluster is away */ }
    feed.changed();
    return again;
  });

  const state = () => { const job = current(); return job ? JSON.stringify([job.state, job.reason]) : ""; };
  let before = "";
  feed.listen(() => {
    if (gone()) leave();
    const job = current();
    if (job && job.id !== id) location.replace(`#/${["jobs", job.id, section, task].filter(Boolean).map(addressOf).join("/")}`); // the address had its name
    else openKnown();
    if (state() !== before) { before = state(); poll.now(); }
    cluster.changed();
  });
  enter();
  return view;
}

function parts(job, tasks) {
  const names = Object.keys(job.components);
  return [...(names.length > 1 ? names : []), ...tasks.slice(0, OFFERED).map((each) => each.task)];
}

function failed(reason) {
  return reason?.details?.failure ? [h("span.chip", reason.details.failure.replaceAll("-", " ")), " "] : null;
}

function describe(each) {
  const ran = each.started ? `, ${duration((each.ended || clock.now()) - each.started)}` : "";
  return `${each.task}: ${each.state.toLowerCase()}${each.node ? ` on ${each.node}` : ""}${ran}${each.attempt > 1 ? `, attempt ${each.attempt}` : ""}${each.reason ? ` – ${each.reason.message}` : ""}`;
}

function head(job, pages) {
  const ran = job.started ? duration((job.ended || clock.now()) - job.started) : null;
  return h("div.head",
    h("div.title", h("h1", shape(jobState(job).tone), h("span", job.name, " ", h("span.faint.mono", job.id.slice(-8)))),
      h("div.line", mark(jobState(job)), h("span", `of ${job.user}`), h("span", `submitted ${ago(job.submitted)}`),
        ran ? h("span", ended(job) ? `ran ${ran}` : `running for ${ran}`) : null, job.exit_code === null ? null : h("span", `exit code ${job.exit_code}`),
        job.restarts ? h("span", plural(job.restarts, "restart")) : null, job.schedule ? h("a", { href: "#/schedules" }, `schedule ${job.schedule}`) : null),
      job.reason ? h("p.note", failed(job.reason), job.reason.message) : null),
    h("div.actions", jobActions(job, pages)),
    h("div", { class: "wide-progress" }, progress(job.counts), tally(job.counts)));
}

function about(job) {
  return [facts([["Id", h("code", job.id)], ["User", job.user], ["Submitted", instant(job.submitted)], ["Started", instant(job.started)], ["Ended", instant(job.ended)], ["Schedule", job.schedule], ["Priority", job.priority],
    Object.keys(job.tags || {}).length ? ["Tags", Object.entries(job.tags).map(([name, value]) => [h("span.chip", `${name}=${value}`), " "])] : null,
    ["Output", h("code", `grass job pull ${job.id}`)],
    job.rerun_of ? ["Repeats", h("a", { href: `#/jobs/${encodeURIComponent(job.rerun_of)}` }, job.rerun_of)] : null,
    ...Object.entries(job.components).map(([name, part]) => [name, plural(part.replicas, "task")]),
    ...(job.warnings || []).map((warning) => ["Warning", warning])]),
    compareChoice(job)];
}

// A specification as lines that read like the file: what is empty is left out.
function outline(value, indent = "", above = "") {
  const lines = [];
  for (const [key, each] of Object.entries(value)) {
    if (each === null || each === false || each === 0 || (typeof each === "object" && !Object.keys(each).length)) continue;
    const name = Array.isArray(value) ? "-" : `${key}:`, inner = typeof each === "object" ? outline(each, `${indent}  `, key) : "";
    const text = above === "resources" ? amount(key, each) : String(each);
    if (typeof each !== "object") lines.push(`${indent}${name} ${text.includes("\n") ? ["|", ...text.trimEnd().split("\n").map((line) => `${indent}  ${line}`)].join("\n") : text}`);
    else if (Array.isArray(each) && each.every((part) => typeof part !== "object")) lines.push(`${indent}${name} [${each.join(", ")}]`);
    else if (inner) lines.push(`${indent}${name}`, inner);
  }
  return lines.join("\n");
}

function compareChoice(job) {
  const others = [...cluster.jobs.values()].filter((each) => each.name === job.name && each.id !== job.id).sort((one, two) => two.submitted - one.submitted).slice(0, 12);
  if (!others.length) return null;
  return h("div", h("h3", "Compare with another run"), h("ul", others.map((each) => h("li", h("a", { href: `#/compare/${encodeURIComponent(each.id)}/${encodeURIComponent(job.id)}` }, stateMark(each.state, each.id), h("span.soft", ` ${ago(each.submitted)}`))))));
}
