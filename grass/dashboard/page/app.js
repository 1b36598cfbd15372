// Starts the page: the frame, the router over the part of the address after #, and the keyboard.

import * as dialog from "./dialog.js";
import { h, render } from "./dom.js";
import { clock, count, duration, instant } from "./format.js";
import { startKeys } from "./keys.js";
import { openSearch } from "./search.js";
import { empty, panel } from "./parts.js";
import { cluster, ended, identified, me } from "./state.js";

// A view is made with the words of the address and has draw(), and close() if it has something to end.
// Only the first one is loaded before the first paint; the others follow once the page shows something.
const ROUTES = [
  [/^\/?$/, () => import("./views/overview.js"), "overviewView", ""],
  [/^\/jobs$/, () => import("./views/jobs.js"), "jobsView", "jobs"],
  [/^\/jobs\/([^/]+)(?:\/([a-z]*)(?:\/(.+))?)?$/, () => import("./views/job.js"), "jobView", "jobs"],
  [/^\/compare\/(.+)$/, () => import("./views/compare.js"), "compareView", "jobs"],
  [/^\/nodes$/, () => import("./views/nodes.js"), "nodesView", "nodes"],
  [/^\/nodes\/([^/]+)$/, () => import("./views/node.js"), "nodeView", "nodes"],
  [/^\/schedules$/, () => import("./views/schedules.js"), "schedulesView", "schedules"],
  [/^\/users$/, () => import("./views/users.js"), "usersView", "users"],
  [/^\/events$/, () => import("./views/events.js"), "eventsView", "events"],
];
const NAV = [["", "Overview"], ["jobs", "Jobs"], ["nodes", "Nodes"], ["schedules", "Schedules"], ["users", "Users"], ["events", "Events"]];

const PATIENCE = 2; // seconds until the page says that it waits for the first state
const ANEW = 600; // seconds for which the page says that the cluster is another one
const QUIET = 15; // seconds without a word of a cluster that says at least the time every few seconds

const main = document.getElementById("main");
let view = null, section = "", started = false, turn = 0;

function route() {
  if (!started) return;
  const [path, query] = (location.hash.slice(1) || "/").split("?");
  for (const [pattern, load, maker, name] of ROUTES) {
    const words = pattern.exec(path);
    if (!words) continue;
    const next = words.slice(1).map((word) => (word === undefined ? undefined : decode(word)));
    section = name;
    if (view?.pattern === pattern && view.accepts?.(next)) { view.move(next); draw(); return; }
    view?.close?.();
    view = null;
    main.replaceChildren();
    window.scrollTo(0, 0);
    draw();
    show(++turn, pattern, load, (module) => module[maker](next, new URLSearchParams(query)));
    return;
  }
  location.hash = "#/";
}

async function show(mine, pattern, load, make) {
  for (let pause = 1; ; pause *= 2) {
    let made = null;
    try {
      const module = await load();
      if (mine !== turn) return; // the address has changed meanwhile
      made = make(module);
    } catch (error) {
      if (mine !== turn) return;
      view = { draw: () => panel("This page is not here", {}, empty(`It could not be loaded (${error.message}). It is loaded again.`)) };
    }
    if (made) { view = made; view.pattern = pattern; }
    draw();
    ahead();
    if (made) return;
    if (pause > 2) { window.grassReload(); return; } // some browsers remember that a module could not be loaded
    await new Promise((resolve) => setTimeout(resolve, pause * 1000));
  }
}

// Loads all views, so that each opens at once, and also opens when the server has gone.
let loading = false;
function ahead() {
  if (loading) return;
  loading = true;
  setTimeout(() => { for (const [, load] of ROUTES) load().catch(() => {}); }, 500);
}

function decode(word) {
  try { return decodeURIComponent(word); } catch { return word; }
}

function draw() {
  drawTop();
  drawLink();
  const here = cluster.known || cluster.link.up;
  const trees = !here ? waiting() : view ? view.draw() : null;
  if (trees) render(main, trees);
  reveal();
}

// On a narrow screen a row of tabs scrolls: shows the chosen one, once, so that the row can be moved afterwards.
const revealed = new WeakMap();
function reveal() {
  for (const row of document.querySelectorAll("#top nav, nav.tabs")) {
    const chosen = row.querySelector("[aria-current]"), seen = `${chosen?.getAttribute("href")} ${innerWidth}`;
    if (!chosen || revealed.get(row) === seen) continue;
    revealed.set(row, seen);
    const [outer, inner] = [row.getBoundingClientRect(), chosen.getBoundingClientRect()], spare = 28; // of the neighbour
    if (inner.left < outer.left + spare) row.scrollLeft += inner.left - outer.left - spare;
    else if (inner.right > outer.right - spare) row.scrollLeft += inner.right - outer.right + spare;
  }
}

// Until the first state of the cluster is here.
function waiting() {
  const { link } = cluster;
  const title = NAV.find(([name]) => name === section)?.[1] || "Overview";
  return h("div.stack", h("h1", title), h("section.panel", empty(link.message === "connecting" ? "Asking the cluster for its state." : "Nothing to show yet: this page has had no answer of the cluster.")));
}

function drawTop() {
  const active = Object.entries(cluster.counts).reduce((sum, [state, number]) => sum + (ended({ state }) ? 0 : number), 0); // also of jobs that are not here yet
  const badge = { jobs: active, nodes: cluster.nodes.size };
  render(document.getElementById("top"),
    h("a.brand", { href: "#/", "aria-label": `Grass, cluster ${me.cluster}` }, mark(), h("span", "Grass"), h("span.cluster", me.cluster)),
    h("nav", { "aria-label": "Pages" }, NAV.map(([name, text]) =>
      h("a", { href: `#/${name}`, "aria-current": section === name ? "page" : null }, text, badge[name] ? h("span.badge", count(badge[name])) : null))),
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
    lines.push(h("span", link.local ? "Not connected" : link.refused ? "The cluster refuses this page" : "The cluster does not answer", `${seen}: `, link.message, h("span.soft", `; this page tries again${shown}.`)));
  } else if (cluster.quiet > QUIET) {
    lines.push(h("span", `The cluster has said nothing for ${duration(cluster.quiet)}. `, h("span.soft", "This page shows the last known state.")));
  } else if (store) {
    lines.push(h("span", "The store refuses writes: ", store.message));
  }
  if (link.up && link.anew && clock.now() - link.anew < ANEW) lines.push(h("span", { class: "soft" }, `The cluster was made anew under this name, found at ${instant(link.anew)}. Jobs and nodes of the former one are gone.`));
  render(document.getElementById("link"), lines);
  const failed = [...cluster.jobs.values()].filter((job) => job.state === "FAILED" && clock.now() - job.ended < 600).length;
  document.title = `${link.up ? "" : "⚠ "}${failed ? `(${failed} failed) ` : ""}${me.cluster || "Grass"} · Grass`;
}

async function start() {
  cluster.listen(draw);
  window.addEventListener("hashchange", () => { dialog.close(); route(); });
  window.addEventListener("resize", reveal);
  window.addEventListener("grass-theme", () => { view?.redraw?.(); draw(); });
  startKeys();
  draw();
  setInterval(() => { if (!document.hidden) draw(); }, 1000); // durations grow
  await identified.promise;
  started = true;
  route();
}

start();
