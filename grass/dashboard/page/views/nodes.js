// Nodes: as tiles (also on the overview), and as a table.

import { h } from "../dom.js";
import { ago, bytes, cores, percent } from "../format.js";
import { shape, stateMark, toneOf } from "../glyphs.js";
import { cards, empty, meter, nodeLink, panel } from "../parts.js";
import { cluster } from "../state.js";

const GPUS_SHOWN = 8;

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
  return h("a.tile", { class: `tone-${toneOf(node.state)}`, href: `#/nodes/${encodeURIComponent(node.name)}`, "data-key": node.name, "data-row": true },
    h("div.name", shape(node.cordoned && node.state === "READY" ? "stopped" : toneOf(node.state)), h("span", node.name),
      h("span.end", node.state === "READY" ? (node.cordoned ? "cordoned" : `${node.tasks} task${node.tasks === 1 ? "" : "s"}`) : node.state.toLowerCase())),
    node.reason ? h("div.reason", node.reason.message) : null,
    away ? h("div.reason", `last heard ${ago(node.seen)}`) : null,
    meters);
}

function gpuMeter(gpu, node) {
  if (gpu.error || node.quarantine?.[gpu.id]) return h("div.meter", h("span.label", `gpu ${gpu.id}`), h("span.state.tone-warn", shape("warn"), "fault"), h("span"));
  return meter(`gpu ${gpu.id}`, (gpu.utilisation || 0) / 100, `${percent(gpu.utilisation)} ${gpu.memory_used === null ? "" : bytes(gpu.memory_used)}`, { limit: 2 });
}

export function nodesView() {
  let text = "";
  const view = {
    draw() {
      const nodes = [...cluster.nodes.values()].filter((node) => `${node.name} ${node.state} ${node.address} ${Object.entries(node.labels || {}).flat().join(" ")}`.toLowerCase().includes(text.toLowerCase()))
        .sort((one, two) => one.name.localeCompare(two.name));
      return h("div.stack", h("h1", "Nodes"),
        h("div.filters", h("input.field", { type: "search", "aria-label": "Filter nodes", placeholder: "Filter by name, state or label", value: text, oninput: (event) => { text = event.target.value; view.refresh(); } })),
        panel("All nodes", { end: h("span.soft", `${nodes.length} of ${cluster.nodes.size}`) }, nodes.length ? table(nodes) : empty("No node matches.")));
    },
    refresh() { cluster.changed(); },
  };
  return view;
}

function table(nodes) {
  return cards(h("table",
    h("thead", h("tr", h("th", "Node"), h("th", "State"), h("th.num", "Tasks"), h("th.num", "Cores free"), h("th.num", "Memory free"), h("th.num", "GPUs free"), h("th.num", "CPU"), h("th.num", "Load"), h("th", "Labels"), h("th.num", "Heard"))),
    h("tbody", nodes.map((node) => h("tr", { "data-row": true, "data-key": node.name },
      h("td.main", nodeLink(node.name), h("div.soft", node.address)),
      h("td", stateMark(node.state), node.cordoned && node.state === "READY" ? h("span.chip", "cordoned") : null, node.reason ? h("div.soft", node.reason.message) : null),
      h("td.num", node.tasks),
      h("td.num", node.free ? `${cores(node.free.cpu)} / ${cores(node.resources.cpu)}` : "–"),
      h("td.num", node.free ? `${bytes(node.free.memory)} / ${bytes(node.resources.memory)}` : "–"),
      h("td.num", node.resources?.gpu ? `${cores(node.free.gpu)} / ${cores(node.resources.gpu)}` : "–"),
      h("td.num", percent(node.usage?.cpu)), h("td.num", node.usage ? node.usage.load.toFixed(2) : "–"),
      h("td", Object.entries(node.labels || {}).map(([name, value]) => [h("span.chip", `${name}=${value}`), " "])),
      h("td.num", ago(node.seen)))))));
}
