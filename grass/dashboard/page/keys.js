// The keyboard: / searches, j and k move along the rows, Enter opens, g and a letter goes to a page, ? helps.

import * as dialog from "./dialog.js";
import { h } from "./dom.js";
import { openSearch } from "./search.js";

const PAGES = { o: "#/", j: "#/jobs", n: "#/nodes", s: "#/schedules", u: "#/users", e: "#/events" };
const HELP = [
  ["/", "Search jobs, nodes and schedules"], ["j  k", "Next or previous row"], ["Enter", "Open the row"],
  ["g o", "Overview"], ["g j", "Jobs"], ["g n", "Nodes"], ["g s", "Schedules"], ["g u", "Users"], ["g e", "Events"],
  ["n", "Start a job"], ["t", "Switch the theme"], ["Esc", "Close"], ["?", "This help"],
];
let prefix = 0;

export function startKeys() {
  document.addEventListener("click", openRow);
  document.addEventListener("auxclick", openRow);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.isOpen()) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { if (event.key === "Escape") event.target.blur(); return; }
    if (Date.now() - prefix < 1200 && PAGES[event.key]) { prefix = 0; location.hash = PAGES[event.key]; return; }
    prefix = 0;
    const action = { "/": openSearch, "?": help, n: startJob, j: () => step(1), k: () => step(-1), g: () => { prefix = Date.now(); }, t: () => document.querySelector("#top .plain")?.click() }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
}

// A whole row leads where its first link leads, also in a new tab. Text in it can be selected.
function openRow(event) {
  const link = event.target.closest?.("tr[data-row]")?.querySelector("a[href]");
  if (!link || event.button > 1 || event.target.closest("a, button, input, select, label, summary") || String(getSelection())) return;
  if (event.button === 1 || event.ctrlKey || event.metaKey) window.open(link.href, "_blank", "noopener");
  else if (!event.shiftKey && !event.altKey) link.click();
}

async function startJob() {
  try { (await import("./views/start_job.js")).startJob(); } catch { /* the module is not there; the button says so */ }
}

function step(by) {
  const rows = [...document.querySelectorAll("main [data-row] a[href], main a[data-row]")].filter((link, at, all) =>
    at === 0 || link.closest("[data-row]") !== all[at - 1].closest("[data-row]"));
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function help() {
  dialog.open([
    h("header", h("h1", "Keyboard")),
    h("div.body", h("dl.facts", HELP.map(([keys, text]) => [h("dt", keys.split(/\s+/).map((key) => [h("kbd", key), " "])), h("dd", text)]))),
    h("footer", h("button.button", { type: "button", onclick: dialog.close, autofocus: true }, "Close")),
  ], "Keyboard");
}
