// Search over nodes, schedules and jobs that this tab knows, and over the jobs that the cluster keeps. Opened by / or the button.

import * as dialog from "./dialog.js";
import { h, render } from "./dom.js";
import { ago } from "./format.js";
import { shape, toneOf } from "./glyphs.js";
import { ask, cluster } from "./state.js";

const MOST = 40;
const PAUSE = 250; // milliseconds after a key before the cluster is asked

export function openSearch() {
  const list = h("ul.found", { id: "found" });
  const input = h("input.field", { type: "search", "aria-label": "Search", "aria-controls": "found", autofocus: true, placeholder: "Job, node, schedule, user or label", autocomplete: "off", spellcheck: "false" });
  let chosen = 0, older = [], timer = null, asked = 0;
  const draw = () => {
    const found = matches(input.value, older);
    chosen = Math.max(0, Math.min(chosen, found.length - 1));
    render(list, found.length ? found.map((each, at) => h("li", { class: at === chosen ? "chosen" : "" },
      h("a", { href: each.href, onclick: dialog.close }, shape(toneOf(each.state)), h("span", each.name), h("span.soft", each.kind), h("span.end.soft", each.note))))
      : h("li.empty", "Nothing matches."));
  };
  const askCluster = async () => {
    const mine = ++asked, word = input.value.trim().split(/\s+/)[0];
    if (!word) return;
    let found = [];
    try { found = await ask("search", { word }); } catch { /* what the tab knows is shown */ }
    if (mine === asked && list.isConnected) { older = found; draw(); }
  };
  input.oninput = () => { chosen = 0; clearTimeout(timer); timer = setTimeout(askCluster, PAUSE); draw(); };
  input.onkeydown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { chosen += event.key === "ArrowDown" ? 1 : -1; draw(); event.preventDefault(); }
    if (event.key === "Enter") { list.querySelectorAll("a")[chosen]?.click(); event.preventDefault(); }
  };
  draw();
  dialog.open([h("div.body", input, list)], "Search");
  const stop = cluster.listen(() => (list.isConnected ? draw() : stop()));
}

// `older`: jobs that the cluster found for the first word, perhaps unknown to this tab.
export function matches(text, older = []) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  const fits = (...values) => words.every((word) => values.some((value) => String(value).toLowerCase().includes(word)));
  for (const node of cluster.nodes.values()) {
    const labels = Object.entries(node.labels || {}).map(([name, value]) => `${name}=${value}`);
    if (fits("node", node.name, node.state, node.address, ...labels)) found.push({ kind: "node", name: node.name, state: node.state, note: node.state.toLowerCase(), href: `#/nodes/${encodeURIComponent(node.name)}`, rank: 1e12 });
  }
  for (const schedule of cluster.schedules.values()) {
    if (fits("schedule", schedule.name, schedule.user)) found.push({ kind: "schedule", name: schedule.name, state: schedule.state, note: schedule.user, href: "#/schedules", rank: 1e11 });
  }
  for (const job of new Map([...older.map((each) => [each.id, each]), ...cluster.jobs]).values()) {
    const tags = Object.entries(job.tags || {}).map(([name, value]) => `${name}=${value}`);
    if (fits("job", job.id, job.user, job.state, job.schedule || "", ...tags)) found.push({ kind: `job of ${job.user}`, name: job.id, state: job.state, note: ago(job.submitted), href: `#/jobs/${encodeURIComponent(job.id)}`, rank: job.submitted });
  }
  return found.sort((one, two) => two.rank - one.rank).slice(0, MOST);
}
