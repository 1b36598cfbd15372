// Many nodes in little space: a cell for each, with the colour of its use and the shape of its state.

import { h } from "../dom.js";
import { naturally } from "../filter.js";
import { bytes, count, percent, plural } from "../format.js";
import { nodeState, shape } from "../glyphs.js";
import { keep, recall } from "../kept.js";

const MOST = 1000, LARGE = 400; // cells, and so many of the usual size
export const MEASURES = { cpu: "CPU in use", memory: "memory in use", gpu: "GPUs in use", allocated: "cores allocated" };

const mean = (values) => (values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : null);
const SHARES = {
  cpu: ({ usage }) => (usage ? usage.cpu / 100 : null),
  memory: ({ usage }) => (usage?.memory_total ? usage.memory / usage.memory_total : null),
  gpu: ({ usage }) => mean((usage?.gpus || []).map((gpu) => (gpu.utilisation || 0) / 100)),
  allocated: ({ resources, free }) => (resources?.cpu ? 1 - free.cpu / resources.cpu : null),
};

export const byName = (nodes) => [...nodes].sort((one, two) => naturally(one.name, two.name));

// The choice of what the colour means. `changed` is called with each choice.
export class HeatMap {
  constructor(changed) {
    this.changed = changed;
    this.by = recall("heat", "cpu");
  }

  choice(nodes) {
    const names = Object.keys(MEASURES).filter((name) => name !== "gpu" || nodes.some((node) => node.resources?.gpu));
    return h("label.soft", "Colour: ", h("select.field", { "aria-label": "What the colour of a node means", onchange: (event) => { this.by = event.target.value; keep("heat", this.by); this.changed(); } },
      names.map((name) => h("option", { value: name, selected: name === this.by }, MEASURES[name]))));
  }

  // Nodes that need attention come first where not all have a cell.
  draw(nodes) {
    const calm = (node) => Number(nodeState(node).tone === "succeeded");
    const shown = nodes.length > MOST ? byName([...nodes].sort((one, two) => calm(one) - calm(two)).slice(0, MOST)) : byName(nodes);
    return h("div.body",
      h("div.heat", { class: shown.length > LARGE ? "small" : "", role: "group", "aria-label": `Nodes by ${MEASURES[this.by] || MEASURES.cpu}` }, shown.map((node) => this.cell(node))),
      h("p.legend", h("span", "0 %", h("i.scale"), "100 %"), nodes.length > MOST ? h("a", { href: "#/nodes" }, `${plural(nodes.length - MOST, "node")} more`) : null));
  }

  // The keyboard reaches a node by the list of nodes: hundreds of stops would hide what follows.
  cell(node) {
    const share = (SHARES[this.by] || SHARES.cpu)(node), { tone, text } = nodeState(node);
    const words = `${node.name}: ${text}${share === null ? "" : `, ${percent(share * 100)} ${MEASURES[this.by]}`}, ${plural(node.tasks, "task")}${node.usage?.memory ? `, ${bytes(node.usage.memory)}` : ""}${node.reason ? ` – ${node.reason.message}` : ""}`;
    return h("a", { href: `#/nodes/${encodeURIComponent(node.name)}`, "data-key": node.name, tabindex: -1, title: words, "aria-label": words, class: tone === "succeeded" ? "" : `marked tone-${tone}`, vars: { "--heat": `${Math.round(100 * Math.max(0, Math.min(1, share || 0)))}%` } },
      tone === "succeeded" ? null : shape(tone));
  }
}

// "297 ready", "2 silent": each leads to the list of these nodes.
export function stateLinks(nodes) {
  const found = new Map();
  for (const node of nodes) {
    const { tone, text } = nodeState(node);
    const seen = found.get(text) || { tone, number: 0 };
    found.set(text, { ...seen, number: seen.number + 1 });
  }
  return [...found].sort(([, one], [, two]) => two.number - one.number).map(([text, { tone, number }]) =>
    h("a.state", { href: `#/nodes?${new URLSearchParams({ q: `state:${text.replaceAll(" ", "-")}` })}` }, shape(tone), `${count(number)} ${text}`));
}
