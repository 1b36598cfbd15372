// Nodes: as tiles (also on the overview), and as a table.

import { h } from "../dom.js";
import { ago, bytes, cores, count, instant, percent, plural } from "../format.js";
import { mark, nodeState, shape } from "../glyphs.js";
import { cards, empty, meter, nodeLink, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster } from "../state.js";
import { byName } from "./heat.js";

const GPUS_SHOWN = 8;
const MOST = 60; // rows at first

export function tile(node) {
  const { usage, resources, free } = node, allocated = (name) => (resources?.[name] ? 1 - free[name] / resources[name] : 0);
  const gpus = usage?.gpus || [], away = node.state === "SILENT" || node.state === "LOST";
  const meters = usage?.memory_total && !away ? [
    meter("cpu", usage.cpu / 100, percent(usage.cpu), { under: allocated("cpu"), limit: 2 }),
    meter("mem", usage.memory / usage.memory_total, bytes(usage.memory), { under: allocated("memory"), limit: 0.95 }),
    gpus.slice(0, GPUS_SHOWN).map((gpu) => gpuMeter(gpu, node)),
    gpus.length > GPUS_SHOWN ? h("div.soft", `+${gpus.length - GPUS_SHOWN} more GPUs`) : null,
    usage.disk_total ? meter("disk", 1 - usage.disk_free / usage.disk_total, `${bytes(usage.disk_free)} free`, { limit: 0.95 }) : null,
  ] : null;
  const { tone, text } = nodeState(node);
  return h("a.tile", { class: `tone-${tone}`, href: `#/nodes/${encodeURIComponent(node.name)}`, "data-key": node.name, "data-row": true },
    h("div.name", shape(tone), h("span", node.name), h("span.end", text === "ready" ? plural(node.tasks, "task") : text)),
    node.reason ? h("div.reason", node.reason.message) : null,
    away ? h("div.reason", `last heard ${ago(node.seen)}`) : null,
    meters);
}

function gpuMeter(gpu, node) {
  if (gpu.error || node.quarantine?.[gpu.id]) return h("div.meter", h("span.label", `gpu ${gpu.id}`), h("span.state.tone-failed", shape("failed"), "fault"), h("span"));
  return meter(`gpu ${gpu.id}`, (gpu.utilisation || 0) / 100, `${percent(gpu.utilisation)} ${gpu.memory_used === null ? "" : bytes(gpu.memory_used)}`, { limit: 2 });
}

// Whether a node is meant: by words, and by its state, as the pages call it or as the cluster does.
function filterOf(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (node) => {
    const all = `${node.name} ${node.state} ${node.address} ${Object.entries(node.labels || {}).map((pair) => pair.join("=")).join(" ")}`.toLowerCase();
    return words.every((word) => {
      if (!word.startsWith("state:")) return all.includes(word);
      const { tone, text: state } = nodeState(node), wanted = word.slice(6);
      return wanted === "attention" ? tone !== "succeeded" : state.replaceAll(" ", "-") === wanted || node.state.toLowerCase() === wanted;
    });
  };
}

export function nodesView(_, query) {
  let text = query.get("q") || "", all = false, paid = {};
  const poll = new Poll(async () => {
    try { paid = await ask("costs"); } catch { /* the head of the page says when the cluster is away */ }
    if (paid.costs) view.refresh();
    return 60;
  });
  const view = {
    close() { poll.close(); },
    draw() {
      const nodes = byName([...cluster.nodes.values()].filter(filterOf(text)));
      return h("div.stack", h("h1", "Nodes"),
        h("div.filters", h("input.field", { type: "search", "aria-label": "Filter nodes", placeholder: "Words, or state:silent, state:attention", value: text, oninput: (event) => { text = event.target.value; view.refresh(); } })),
        panel("All nodes", { end: h("span.soft", `${count(nodes.length)} of ${count(cluster.nodes.size)}`) }, nodes.length ? table(all ? nodes : nodes.slice(0, MOST)) : empty("No node matches."),
          !all && nodes.length > MOST ? h("p.empty", h("button.button", { type: "button", onclick: () => { all = true; view.refresh(); } }, `Show all ${plural(nodes.length, "node")}`)) : null),
        paid.costs ? costs(paid) : null);
    },
    refresh() { cluster.changed(); },
  };
  poll.now();
  return view;
}

const SHOWN = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
const dollars = (value, whole = true) => `${whole ? "" : "over "}$${value.toLocaleString("en-US", SHOWN)}`;
const hourly = (value) => (value === null ? "not known" : `$${value.toFixed(4)}`);

// What the machines of a cluster in a cloud cost, as `grass cost` says it.
function costs({ costs: { machines, since, at, limits }, hourly: now, spent, whole }) {
  return panel("Costs by list price", { key: "costs", end: h("span.soft", `${hourly(now)} an hour now, ${dollars(spent, whole)} since ${instant(since)}`) },
    cards(h("table",
      h("thead", h("tr", h("th", "Machine"), h("th", "State"), h("th", "Size"), h("th.num", "Hours on"), h("th.num", "Now per hour"), h("th.num", "Spent"))),
      h("tbody", machines.map((each) => h("tr", { "data-key": each.name },
        h("td.main", cluster.nodes.has(each.name) ? nodeLink(each.name) : each.name), h("td", each.state), h("td", each.what || "–"),
        h("td.num", each.hours.toFixed(1)), h("td.num", hourly(each.hourly)), h("td.num", dollars(each.spent, each.whole))))))),
    h("div.body.soft", [...limits, `machines were looked at ${ago(at)}`].map((each) => h("p", each))));
}

function table(nodes) {
  return cards(h("table",
    h("thead", h("tr", h("th", "Node"), h("th", "State"), h("th.num", "Tasks"), h("th.num", "Cores free"), h("th.num", "Memory free"), h("th.num", "GPUs free"), h("th.num", "CPU"), h("th.num", "Load"), h("th", "Labels"), h("th.num", "Heard"))),
    h("tbody", nodes.map((node) => h("tr", { "data-row": true, "data-key": node.name },
      h("td.main", nodeLink(node.name), h("div.soft", node.address)),
      h("td", mark(nodeState(node)), node.reason ? h("div.soft", node.reason.message) : null),
      h("td.num", node.tasks),
      h("td.num", node.free ? `${cores(node.free.cpu)} / ${cores(node.resources.cpu)}` : "–"),
      h("td.num", node.free ? `${bytes(node.free.memory)} / ${bytes(node.resources.memory)}` : "–"),
      h("td.num", node.resources?.gpu ? `${cores(node.free.gpu)} / ${cores(node.resources.gpu)}` : "–"),
      h("td.num", percent(node.usage?.cpu)), h("td.num", node.usage ? node.usage.load.toFixed(2) : "–"),
      h("td", Object.entries(node.labels || {}).map(([name, value]) => [h("span.chip", `${name}=${value}`), " "])),
      h("td.num", ago(node.seen)))))));
}
