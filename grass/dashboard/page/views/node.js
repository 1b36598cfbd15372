// One node: state, load, devices, its tasks, its events, and what an administrator may do with it.

import { Curves } from "../charts.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { ago, bytes, cores, count, duration, percent } from "../format.js";
import { mark, nodeState, shape } from "../glyphs.js";
import { cards, empty, facts, meter, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster, me } from "../state.js";
import { usageCharts } from "./usage.js";
import { eventList } from "./events.js";

const RANGES = { 900: "15 minutes", 3600: "1 hour", 86400: "1 day", 2592000: "30 days" };

const FEW = 50; // tasks that are shown at first

const VERSIONS = { system: "System", kernel: "Kernel", python: "Python", docker: "Docker", driver: "GPU driver" };

export function nodeView([name]) {
  let range = 900, tasks = null, all = false;
  const charts = usageCharts(`node-${name}`, Curves);
  const poll = new Poll(async () => {
    if (cluster.known && !cluster.nodes.has(name)) return 5; // it has left, and may join again
    try {
      const found = await ask("node-usage", { node: name, range });
      charts.show(found);
      tasks = found.tasks;
    } catch (error) { charts.fail(error.message); }
    cluster.changed();
    return range > 3600 ? 60 : 5;
  });
  poll.now();
  return {
    close() { poll.close(); charts.close(); },
    redraw() { charts.redraw(); },
    draw() {
      const node = cluster.nodes.get(name);
      if (!node) return h("div.stack", h("h1", name), h("section.panel", empty("No such node; it may have left the cluster.")), h("p", h("a.button", { href: "#/nodes" }, "All nodes")));
      return h("div.stack", head(node),
        h("div.columns", panel("Now", {}, h("div.body.stack", now(node))), panel("About", {}, h("div.body", about(node)))),
        panel("History", { end: h("select.field", { "aria-label": "Range", onchange: (event) => { range = Number(event.target.value); poll.now(); } },
          Object.entries(RANGES).map(([seconds, text]) => h("option", { value: seconds, selected: Number(seconds) === range }, text))) },
          h("div.body", charts.element)),
        node.machines ? panel("Machines", { end: h("span.soft", machineCount(node.machines)) }, machines(node.machines.machines || [])) : null,
        node.gpus?.length && !node.machines ? panel("Devices", {}, devices(node)) : null,
        panel("Tasks", { end: h("span.soft", here(node, tasks)) }, tasks === null ? empty("Loading.") : tasks.length ? taskTable(all ? tasks : tasks.slice(0, FEW)) : empty("No task runs here."),
          !all && tasks?.length > FEW ? h("p.empty", h("button.button", { type: "button", onclick: () => { all = true; cluster.changed(); } }, `Show all ${count(tasks.length)} tasks`)) : null),
        panel("Events", {}, eventsOf(name)));
    },
  };
}

// A node may have more tasks than run: short ones wait there behind equal ones.
function here(node, tasks) {
  const waiting = node.tasks - (tasks?.length ?? node.tasks);
  return waiting > 0 ? `${count(tasks.length)} running, ${count(waiting)} waiting here` : count(node.tasks);
}

function head(node) {
  const actions = [];
  const offer = (action, text, options, danger) => me.role === "admin" && me.actions.includes(action) && actions.push(h("button.button", { class: danger ? "danger" : "", type: "button", onclick: () => confirm({ action, ...options }) }, text));
  if (node.state === "READY" && !node.cordoned) offer("node-cordon", "Cordon", { title: `Cordon ${node.name}?`, text: "It gets no new tasks. Its tasks go on.", body: () => ({ node: node.name }), line: () => `grass node cordon ${node.name}`, verb: "Cordon", danger: false });
  if (node.state === "READY" || node.state === "QUARANTINED") {
    offer("node-drain", "Drain", {
      title: `Drain ${node.name}?`, text: "It gets no new tasks. At the deadline its tasks are stopped and placed elsewhere; without one they run to their end.",
      fields: [{ name: "deadline", label: "Deadline in minutes", value: "", type: "number", min: 0, placeholder: "none" }],
      body: ({ deadline }) => ({ node: node.name, deadline: deadline === "" ? null : Number(deadline) * 60 }),
      line: ({ deadline }) => `grass node drain ${node.name}${deadline === "" ? "" : ` --deadline ${deadline}m`}`, verb: "Drain" }, true);
  }
  if (node.cordoned || node.state === "DRAINING" || node.state === "DRAINED" || Object.keys(node.quarantine || {}).length) {
    offer("node-uncordon", "Uncordon", { title: `Uncordon ${node.name}?`, text: "It gets tasks again. This also ends a drain, and forgives the present errors of its devices.", body: () => ({ node: node.name }), line: () => `grass node uncordon ${node.name}`, verb: "Uncordon", danger: false });
  }
  return h("div.head",
    h("div.title", h("h1", shape(nodeState(node).tone), node.name), h("div.line", mark(nodeState(node)), node.cordoned && node.state !== "READY" ? h("span.chip", "cordoned") : null, h("span", `heard ${ago(node.seen)}`), h("span", node.address)),
      node.reason ? h("p.note", node.reason.message) : null),
    h("div.actions", actions));
}

function now(node) {
  const { usage, resources, free } = node;
  if (!resources) return [empty("Nothing is known yet.")];
  const part = (name, show) => meter(name, (resources[name] - free[name]) / resources[name] || 0, `${show(resources[name] - free[name])} of ${show(resources[name])}`, { limit: 2 });
  return [
    h("h3", "Allocated to tasks"), part("cpu", cores), part("memory", bytes), resources.gpu ? part("gpu", cores) : null,
    usage?.memory_total ? [h("h3", "In use on the machine"),
      meter("cpu", usage.cpu / 100, percent(usage.cpu), { limit: 2 }),
      meter("memory", usage.memory / usage.memory_total, `${bytes(usage.memory)} of ${bytes(usage.memory_total)}`),
      meter("disk", 1 - usage.disk_free / usage.disk_total, `${bytes(usage.disk_free)} free`)] : null,
  ];
}

function about(node) {
  return facts([
    node.conditions?.length ? ["Conditions", node.conditions.map((each) => h("div", shape("warn"), " ", each.message))] : null,
    ["Runtimes", (node.runtimes || []).join(", ")], ["Grass", node.version],
    ...Object.entries(VERSIONS).map(([key, text]) => (node.versions?.[key] ? [text, node.versions[key]] : null)), ["Topology", [(node.path || []).join(" / ") || "–", node.path_note ? ` (${node.path_note})` : ""]],
    ["Labels", Object.entries(node.labels || {}).map(([key, value]) => [h("span.chip", `${key}=${value}`), " "])],
    node.speed ? ["Speed", `${node.speed.value ?? 1} × the median of nodes like it`] : null,
    ["Load", node.usage ? node.usage.load.toFixed(2) : "–"], ["Scratch", node.resources?.disk ? bytes(node.resources.disk) : "–"],
    ...Object.entries(node.resources?.custom || {}).map(([key, value]) => [key, `${count(node.free?.custom?.[key] || 0)} of ${count(value)} free`]),
  ]);
}

function devices(node) {
  const samples = new Map((node.usage?.gpus || []).map((gpu) => [gpu.id, gpu]));
  return h("div.scroll", h("table", h("thead", h("tr", h("th", "GPU"), h("th", "Model"), h("th", "State"), h("th.num", "Busy"), h("th.num", "Memory"), h("th.num", "Temperature"), h("th.num", "ECC"), h("th", "Processes"))),
    h("tbody", node.gpus.map((gpu) => {
      const sample = samples.get(gpu.id) || {}, fault = node.quarantine?.[gpu.id] || sample.error;
      return h("tr", h("td", gpu.id), h("td", gpu.name || "–"), h("td", fault ? h("span.state", shape("failed"), fault) : h("span.state", shape("succeeded"), "healthy")),
        h("td.num", percent(sample.utilisation)), h("td.num", gpu.memory ? `${bytes(sample.memory_used)} / ${bytes(gpu.memory)}` : "–"), h("td.num", sample.temperature ? `${sample.temperature} °C` : "–"),
        h("td.num", sample.ecc ?? "–"), h("td", (sample.processes || []).map((each) => `${each.user}${each.ours ? "" : " (foreign)"}`).join(", ") || "–"));
    }))));
}

// The machines behind a namespace of Kubernetes, where its agent may see them. Amounts are what Kubernetes offers to pods of everybody.
function machineCount({ machines = [], left_out: more = 0 }) {
  return `${count(machines.length + more)}${more ? `, the first ${count(machines.length)} are shown` : ""}`;
}

function machines(seen) {
  return h("div.scroll", h("table", h("thead", h("tr", h("th", "Machine"), h("th.num", "Cores"), h("th.num", "Memory"), h("th.num", "GPUs"), h("th", "Model"), h("th.num", "Tasks"), h("th", "State"))),
    h("tbody", seen.map((each) => h("tr", { "data-key": each.name, "data-row": true },
      h("td.main", each.name), h("td.num", cores(each.cpu || 0)), h("td.num", bytes(each.memory || 0)), h("td.num", each.gpu ? count(each.gpu / 1000) : "–"), h("td", each.gpu_model || "–"), h("td.num", count(each.running || 0)),
      h("td", each.closed ? h("span.state", shape("warn"), `takes no tasks: ${each.closed}`) : h("span.state", shape("succeeded"), "takes tasks")))))));
}

function taskTable(tasks) {
  const parts = tasks.map((each) => ({ ...each, words: each.key.split("/") }));
  return cards(h("table", h("thead", h("tr", h("th", "Task"), h("th.num", "Attempt"), h("th.num", "Cores"), h("th.num", "Memory"), h("th.num", "GPU"), h("th.num", "CPU time"))),
    h("tbody", parts.map(({ words: [job, task, attempt], ...each }) => h("tr", { "data-key": each.key, "data-row": true },
      h("td.main", h("a", { href: `#/jobs/${encodeURIComponent(job)}/tasks/${task}` }, `${job} ${task}`)), h("td.num", attempt),
      h("td.num", (each.cpu || 0).toFixed(2)), h("td.num", bytes(each.memory || 0)), h("td.num", percent(each.gpu)), h("td.num", duration(each.totals?.cpu || 0)))))));
}

function eventsOf(name) {
  const found = cluster.events.filter((event) => event.node === name).slice(-50).reverse();
  return found.length ? eventList(found) : empty("No recent events of this node.");
}
