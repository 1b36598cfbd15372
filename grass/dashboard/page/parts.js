// Parts that several views use: panels, progress, meters, links.

import { h } from "./dom.js";
import { count } from "./format.js";
import { shape, toneOf } from "./glyphs.js";

export function panel(title, { end, key, label } = {}, ...body) {
  return h("section.panel", { "data-key": key, "aria-label": label || title }, h("header", h("h2", title), end ? h("div.end", end) : null), body);
}

export const empty = (text) => h("p.empty", text);

const ORDER = ["SUCCEEDED", "RUNNING", "FAILED", "LOST", "STOPPED", "ASSIGNED", "PENDING"];

// Successes and failures apart; what has not begun is the empty rest.
export function progress(counts) {
  const parts = ORDER.filter((state) => counts[state]);
  const text = parts.map((state) => `${counts[state]} ${state.toLowerCase()}`).join(", ") || "no tasks";
  return h("div.progress", { role: "img", "aria-label": text, title: text }, parts.map((state) =>
    h("i", { class: state === "PENDING" || state === "ASSIGNED" ? "rest" : `tone-${toneOf(state)}`, vars: { "--part": counts[state] } })));
}

const WAITING = ["ASSIGNED", "PENDING"];

// How many tasks are in each state. Assigned and pending tasks, which look the same, are one number.
export function tally(counts) {
  const one = (states, number, words) => (number ? h("span", { title: words }, shape(toneOf(states[0])), count(number), h("span.hidden", words)) : null);
  const waiting = WAITING.filter((state) => counts[state]);
  return h("div.tally", ORDER.filter((state) => !WAITING.includes(state)).map((state) => one([state], counts[state], state.toLowerCase())),
    one(WAITING, waiting.reduce((sum, state) => sum + counts[state], 0), waiting.map((state) => `${count(counts[state])} ${state.toLowerCase()}`).join(", ")));
}

// `share` and `under` from 0 to 1: what is in use, and what is allocated.
export function meter(label, share, value, { under, limit = 0.9 } = {}) {
  const fill = (part) => ({ "--fill": `${Math.min(100, Math.max(0, part * 100)).toFixed(1)}%` });
  return h("div.meter", { class: share > limit ? "high" : "", title: `${label}: ${value}` },
    h("span.label", label),
    h("span.track", under === undefined ? null : h("i.under", { vars: fill(under) }), h("i", { vars: fill(share || 0) })),
    h("span.value", value));
}

export const jobLink = (id, ...text) => h("a", { href: `#/jobs/${encodeURIComponent(id)}` }, text.length ? text : id);
export const nodeLink = (name) => (name ? h("a", { href: `#/nodes/${encodeURIComponent(name)}` }, name) : "–");

export function facts(pairs) {
  return h("dl.facts", pairs.filter(Boolean).map(([name, value]) => [h("dt", name), h("dd", value || value === 0 ? value : "–")]));
}

// A table that a phone shows as cards, each cell with the title of its column, instead of moving it sideways.
export function cards(table, titleAt) {
  const titles = [...table.tHead.rows[0].cells].map((cell, at) => (titleAt ? titleAt(at) : cell.textContent));
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => { cell.dataset.label = titles[at]; });
  return h("div.scroll.cards", table);
}

export function tabs(base, names, chosen) {
  return h("nav.tabs", { "aria-label": "Sections" }, Object.entries(names).map(([key, name]) =>
    h("a", { href: key ? `${base}/${key}` : base, "aria-current": key === chosen ? "page" : null }, name)));
}
