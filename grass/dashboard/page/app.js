// Starts the page: the frame, the router over the part of the address after #, and the keyboard.

import * as dialog from "./dialog.js";
import { h, render } from "./dom.js";
import { clock, duration } from "./format.js";
import { startKeys } from "./keys.js";
import { openSearch } from "./search.js";
import { empty } from "./parts.js";
import { cluster, ended, identified, me } from "./state.js";
import { compareView } from "./views/compare.js";
import { eventsView } from "./views/events.js";
import { jobView } from "./views/job.js";
import { jobsView } from "./views/jobs.js";
import { nodeView } from "./views/node.js";
import { nodesView } from "./views/nodes.js";
import { overviewView } from "./views/overview.js";
import { schedulesView } from "./views/schedules.js";
import { usersView } from "./views/users.js";

// A view is made with the words of the address and has draw(), and close() if it has something to end.
const ROUTES = [
  [/^\/?$/, overviewView, ""],
  [/^\/jobs$/, jobsView, "jobs"],
  [/^\/jobs\/([^/]+)(?:\/([a-z]*)(?:\/([^/]+))?)?$/, jobView, "jobs"],
  [/^\/compare\/([^/]+)\/([^/]+)$/, compareView, "jobs"],
  [/^\/nodes$/, nodesView, "nodes"],
  [/^\/nodes\/([^/]+)$/, nodeView, "nodes"],
  [/^\/schedules$/, schedulesView, "schedules"],
  [/^\/users$/, usersView, "users"],
  [/^\/events$/, eventsView, "events"],
];
const NAV = [["", "Overview"], ["jobs", "Jobs"], ["nodes", "Nodes"], ["schedules", "Schedules"], ["users", "Users"], ["events", "Events"]];

const PATIENCE = 2; // seconds until the page says that it waits for the first state
const QUIET = 15; // seconds without a word of a cluster that says at least the time every few seconds

const main = document.getElementById("main");
let view = null, section = "", started = false;

function route() {
  if (!started) return;
  const [path, query] = (location.hash.slice(1) || "/").split("?");
  for (const [pattern, make, name] of ROUTES) {
    const words = pattern.exec(path);
    if (!words) continue;
    const next = words.slice(1).map((word) => (word === undefined ? undefined : decode(word)));
    section = name;
    if (view?.make === make && view.accepts?.(next)) { view.move(next); draw(); return; }
    view?.close?.();
    main.replaceChildren();
    view = make(next, new URLSearchParams(query));
    view.make = make;
    window.scrollTo(0, 0);
    draw();
    return;
  }
  location.hash = "#/";
}

function decode(word) {
  try { return decodeURIComponent(word); } catch { return word; }
}

function draw() {
  drawTop();
  drawLink();
  const trees = view && (cluster.known || cluster.link.up) ? view.draw() : waiting();
  if (trees) render(main, trees);
}

// Until the first state of the cluster is here.
function waiting() {
  const { link } = cluster;
  const title = NAV.find(([name]) => name === section)?.[1] || "Overview";
  return h("div.stack", h("h1", title), h("section.panel", empty(link.message === "connecting" ? "Asking the cluster for its state." : "Nothing to show yet: this page has had no answer of the cluster.")));
}

function drawTop() {
  const active = [...cluster.jobs.values()].filter((job) => !ended(job)).length;
  const badge = { jobs: active, nodes: cluster.nodes.size };
  render(document.getElementById("top"),
    h("a.brand", { href: "#/", "aria-label": `Grass, cluster ${me.cluster}` }, mark(), h("span", "Grass"), h("span.cluster", me.cluster)),
    h("nav", { "aria-label": "Pages" }, NAV.map(([name, text]) =>
      h("a", { href: `#/${name}`, "aria-current": section === name ? "page" : null }, text, badge[name] ? h("span.badge", badge[name]) : null))),
    h("div.end",
      h("button.button", { type: "button", onclick: openSearch, "aria-label": "Search (key /)" }, "Search", h("kbd", "/")),
      themeButton(),
      h("span.who", me.user ? `${me.user} · ${me.shared ? "read-only" : me.role}` : "")));
}

function mark() {
  return h("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, h("rect", { width: 32, height: 32, rx: 7, fill: "#1d6b45" }),
    h("path", { d: "M9 25c0-7 1-12 4-17-.6 6 .6 11 1.6 17M16 25c0-6 2-11 6-15-2 5-2.6 10-2.6 15", fill: "none", stroke: "#e9f5ec", "stroke-width": 2.6, "stroke-linecap": "round" }));
}

function themeButton() {
  const next = { auto: "light", light: "dark", dark: "auto" }, sign = { auto: "◐", light: "○", dark: "●" };
  const { chosen } = window.grassTheme;
  return h("button.button.plain", { type: "button", title: `Theme: ${chosen}`, "aria-label": `Theme: ${chosen}; switch to ${next[chosen]}`,
    onclick: () => { window.grassTheme.choose(next[chosen]); draw(); } }, sign[chosen]);
}

function drawLink() {
  const { link, store } = cluster;
  const lines = [], waited = (Date.now() - cluster.opened) / 1000;
  if (!link.up && link.message === "connecting") {
    if (waited > PATIENCE) lines.push(h("span", `The cluster has not answered for ${duration(waited)}. `, h("span.soft", "This page goes on asking.")));
  } else if (!link.up) {
    const seen = link.since ? ` for ${duration(clock.now() - link.since)}` : "";
    const shown = cluster.known ? " and shows the last known state" : "";
    lines.push(h("span", link.local ? "Not connected" : "The cluster does not answer", `${seen}: `, link.message, h("span.soft", `; this page tries again${shown}.`)));
  } else if (cluster.quiet > QUIET) {
    lines.push(h("span", `The cluster has said nothing for ${duration(cluster.quiet)}. `, h("span.soft", "This page shows the last known state.")));
  } else if (store) {
    lines.push(h("span", "The store refuses writes: ", store.message));
  }
  render(document.getElementById("link"), lines);
  const failed = [...cluster.jobs.values()].filter((job) => job.state === "FAILED" && clock.now() - job.ended < 600).length;
  document.title = `${link.up ? "" : "⚠ "}${failed ? `(${failed} failed) ` : ""}${me.cluster || "Grass"} · Grass`;
}

async function start() {
  cluster.listen(draw);
  window.addEventListener("hashchange", () => { dialog.close(); route(); });
  window.addEventListener("grass-theme", () => { view?.redraw?.(); draw(); });
  startKeys();
  draw();
  setInterval(() => { if (!document.hidden) draw(); }, 1000); // durations grow
  await identified.promise;
  started = true;
  route();
}

start();
