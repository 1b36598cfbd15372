// The overview: what is wrong, what waits and why, what failed, what runs, the nodes, and how much is used.

import { Curves } from "../charts.js";
import { h } from "../dom.js";
import { ago, bytes, clock, cores, count, duration, plural } from "../format.js";
import { jobState, mark, shape } from "../glyphs.js";
import { cards, empty, jobLink, meter, panel, progress, tally } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster, ended } from "../state.js";
import { alerts } from "./alerts.js";
import { HeatMap, byName, stateLinks } from "./heat.js";
import { tile } from "./nodes.js";

const MOST = 8; // rows of a table, and alerts
const TILES = 12; // more nodes are a heat map
const WAITS = new Set(["QUEUED", "SUSPENDED"]);

export function overviewView() {
  const chart = new Curves("capacity", { height: 168, unit: "percent" });
  const heat = new HeatMap(() => cluster.changed());
  let disks = [];
  const poll = new Poll(async () => {
    try { disks = (await ask("status")).disks || []; } catch { /* the head of the page says when the cluster is away */ }
    try { chart.show(await ask("capacity", { range: 3600 })); } catch { /* older masters keep no history */ }
    return 15;
  });
  poll.now();
  return {
    close() { poll.close(); chart.close(); },
    redraw() { chart.redraw(); },
    draw() {
      const jobs = [...cluster.jobs.values()];
      const running = jobs.filter((job) => !ended(job) && !WAITS.has(job.state)).sort((one, two) => two.started - one.started);
      const queue = jobs.filter((job) => WAITS.has(job.state)).sort((one, two) => one.submitted - two.submitted);
      const failed = jobs.filter((job) => job.state === "FAILED" || (ended(job) && job.counts.FAILED)).sort((one, two) => two.ended - one.ended);
      const nodes = byName([...cluster.nodes.values()].filter((node) => node.state !== "LEFT"));
      const link = (group, number) => (number ? h("a.soft", { href: `#/jobs?state=${group}` }, plural(number, "job")) : null);
      return h("div.overview",
        h("h1.hidden", "Overview"),
        alertList(disks), sums(running, queue, nodes),
        h("div.columns",
          panel("Queue", { end: link("waiting", cluster.counts.QUEUED) }, queue.length ? queueTable(queue) : none("Nothing waits.")),
          h("div.stack",
            panel("Recent failures", { end: link("failed", cluster.counts.FAILED) }, failed.length ? failureTable(failed) : none("No failures among the jobs that are kept.")),
            panel("Running", { end: link("active", cluster.counts.RUNNING) }, running.length ? runningTable(running) : none("Nothing runs.")))),
        nodePanel(nodes, heat),
        panel("Capacity and use", { end: h("span.soft", "in percent of what the nodes offer, over the last hour") },
          h("div.body.capacity", h("div.meters", capacity(nodes)), chart.element)));
    },
  };
}

function nodePanel(nodes, heat) {
  const all = h("a.soft", { href: "#/nodes" }, plural(nodes.length, "node"));
  if (nodes.length <= TILES) return panel("Nodes", { end: all }, nodes.length ? h("div.tiles", nodes.map(tile)) : empty("No node has joined yet; `grass node add` or `grass join` adds one."));
  return panel("Nodes", { end: [...stateLinks(nodes), heat.choice(nodes), all] }, heat.draw(nodes));
}

function alertList(disks) {
  const { nodes, store } = cluster;
  const found = alerts({ nodes, store, disks }), left = found.length - MOST;
  const row = ({ bad, tone, href, text }) => h("li", { class: bad ? "bad" : "" }, shape(tone), h("span", href ? h("a", { href }, text) : text));
  return found.length ? h("ul.alerts", { "aria-label": "Alerts" }, found.slice(0, MOST).map(row),
    left > 0 ? row({ bad: found[MOST].bad, tone: "warn", href: "#/nodes?q=state:attention", text: `${count(left)} more; all nodes that need attention` }) : null) : null;
}

function sums(running, queue, nodes) {
  const tasks = {};
  for (const job of running) for (const [state, number] of Object.entries(job.counts)) tasks[state] = (tasks[state] || 0) + number;
  const hour = [...cluster.jobs.values()].filter((job) => ended(job) && clock.now() - job.ended < 3600);
  const failed = hour.filter((job) => job.state === "FAILED").length, partly = hour.filter((job) => jobState(job).tone === "warn").length;
  const ready = nodes.filter((node) => node.state === "READY").length;
  const active = (cluster.counts.RUNNING || 0) + (cluster.counts.STOPPING || 0), waiting = cluster.counts.QUEUED || 0, noun = (number) => (number === 1 ? "job" : "jobs");
  const figure = (value, label, note) => h("div", h("div.figure", value), h("div.label", label), note ? h("div.label", note) : null);
  return h("section.panel.sums", { "aria-label": "Summary" },
    figure(count(active), `${noun(active)} running`, plural(tasks.RUNNING || 0, "task")),
    figure(count(waiting), `${noun(waiting)} waiting`, queue.length ? `longest ${duration(clock.now() - queue[0].submitted)}` : cluster.complete ? "queue is empty" : "loading"),
    figure(count(hour.length), "ended in the last hour", [failed ? `${failed} failed` : "", partly ? `${partly} with failed tasks` : ""].filter(Boolean).join(", ") || "none failed"),
    figure(`${ready} / ${nodes.length}`, "nodes ready", nodes.length - ready ? `${nodes.length - ready} not ready` : "all ready"));
}

function capacity(nodes) {
  const sum = (read) => nodes.reduce((total, node) => total + (read(node) || 0), 0);
  const total = (name) => sum((node) => node.resources?.[name]), free = (name) => sum((node) => node.free?.[name]);
  const used = (name) => total(name) - free(name);
  const inUse = (read) => sum((node) => (node.usage?.memory_total ? read(node.usage) : 0));
  const cpu = (inUse((usage) => usage.cpu * usage.cores.length) * 10) / (total("cpu") || 1); // as the curve: of what the nodes offer
  const memory = inUse((usage) => usage.memory) / (total("memory") || 1);
  const parts = [
    meter("cpu", cpu, `${cores(used("cpu"))} of ${cores(total("cpu"))}`, { under: used("cpu") / total("cpu"), limit: 2 }),
    meter("memory", memory, `${bytes(used("memory"))} of ${bytes(total("memory"))}`, { under: used("memory") / total("memory"), limit: 2 }),
  ];
  if (total("gpu")) {
    const busy = inUse((usage) => (usage.gpus || []).reduce((share, gpu) => share + (gpu.utilisation || 0) / 100, 0));
    parts.push(meter("gpu", (busy * 1000) / total("gpu"), `${cores(used("gpu"))} of ${cores(total("gpu"))}`, { under: used("gpu") / total("gpu"), limit: 2 }));
  }
  return [...parts, h("p.soft", "Numbers and pale bars: allocated to tasks. Full bars: in use on the machines, also by other programs.")];
}

function runningTable(jobs) {
  return cards(h("table", h("thead", h("tr", h("th", "Job"), h("th", "Progress"), h("th.num", "For"))),
    h("tbody", jobs.slice(0, MOST).map((job) => h("tr", { "data-row": true, "data-key": job.id },
      h("td.main", jobLink(job.id, mark(jobState(job), job.name)), h("div.soft", job.user)),
      h("td.wide", progress(job.counts), tally(job.counts)),
      h("td.num", duration(clock.now() - job.started)))), more(jobs, "active"))));
}

function queueTable(jobs) {
  return cards(h("table", h("thead", h("tr", h("th", "Job"), h("th", "Why it waits"), h("th.num", "Since"))),
    h("tbody", jobs.slice(0, MOST).map((job) => h("tr", { "data-row": true, "data-key": job.id },
      h("td.main", jobLink(job.id, mark(jobState(job), job.name)), h("div.soft", job.user)),
      h("td.wide", reasonOf(job)),
      h("td.num", ago(job.submitted)))), more(jobs, "waiting"))));
}

// The job's own reason; without one, what it is changed to, or why parts of it wait.
export function reasonOf(job) {
  if (job.reason || ended(job)) return job.reason?.message || "–";
  if (job.operation) return [job.operation.kind, job.operation.component, `– ${job.operation.message}`].filter(Boolean).join(" ");
  const parts = Object.entries(job.components).filter(([, part]) => part.reason);
  return parts.map(([name, part]) => `${name}: ${part.reason.message}`).join("; ") || "–";
}

function failureTable(jobs) {
  return cards(h("table", h("thead", h("tr", h("th", "Job"), h("th", "Cause"), h("th.num", "Ended"))),
    h("tbody", jobs.slice(0, MOST).map((job) => h("tr", { "data-row": true, "data-key": job.id },
      h("td.main", jobLink(job.id, mark(jobState(job), job.name)), h("div.soft", job.user)),
      h("td.wide", job.reason?.message || jobState(job).text),
      h("td.num", ago(job.ended)))), more(jobs, "failed"))));
}

// While jobs are still on their way, nobody knows that there is none.
const none = (text) => empty(cluster.complete ? text : "Loading.");
const more = (jobs, group) => (jobs.length > MOST ? h("tr", { "data-key": "more" }, h("td.acts", { colspan: 3 }, h("a.soft", { href: `#/jobs?state=${group}` }, `${count(jobs.length - MOST)} more`))) : null);
