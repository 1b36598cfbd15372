// The state of the cluster in this tab, from the feed of the dashboard's own server.
//
// A hidden tab closes its feed: it would only cost work, and a browser allows few connections to one server. When it is
// shown again it gets a new snapshot, which also covers a machine that slept.

import { clock, duration } from "./format.js";

const KEYS = { jobs: "id", tasks: "task", nodes: "name", schedules: "name" };
const MOST_EVENTS = 500, MOST_ENDED = 1000;
const ENDED = new Set(["SUCCEEDED", "FAILED", "STOPPED"]);
const SETTLING = 30; // seconds
const SILENCE = 15; // seconds; the server says something every 5 s
const MOST_TRIES = 4;

export const ended = (job) => ENDED.has(job.state);

// Whether the job ended so long ago that nothing more comes of it, such as its last usage.
export const settled = (job) => Boolean(job) && ended(job) && clock.now() - job.ended > SETTLING;

export class Feed {
  constructor(job) {
    this.job = job;
    this.listeners = new Set();
    this.scheduled = false;
    this.source = null;
    this.forget();
    this.link = { up: false, message: "connecting", since: 0, local: true };
    this.opened = Date.now();
    this.quiet = 0; // seconds for which the cluster has said nothing
    this.onVisible = () => this.follow();
    document.addEventListener("visibilitychange", this.onVisible);
    this.watchdog = setInterval(() => this.checkAlive(), 5000);
    this.follow();
  }

  forget() {
    this.jobs = new Map(); this.tasks = new Map(); this.nodes = new Map(); this.schedules = new Map();
    this.events = []; this.counts = {}; this.store = null; this.known = false; this.complete = true;
  }

  follow() {
    if (document.hidden && this.known) { this.source?.close(); this.source = null; return; }
    if (this.source) return;
    this.heard = Date.now();
    this.source = new EventSource(this.job ? `/feed?job=${encodeURIComponent(this.job)}` : "/feed");
    this.source.onmessage = (message) => this.add(JSON.parse(message.data));
    this.source.onerror = () => this.lost();
  }

  // The feed broke off. Finds out why: the program ended, this page may not look any more, or `reason`.
  async lost(reason = "the connection broke off") {
    this.source?.close(); this.source = null;
    clearTimeout(this.again);
    let message = reason;
    try {
      const answer = await fetch("/me", { headers: { Accept: "application/json" } });
      if (!answer.ok) message = (await answer.json()).error.message;
    } catch { message = "the program `grass dashboard` does not answer; it may have been ended"; }
    const since = this.link.local && !this.link.up && this.link.since ? this.link.since : clock.now();
    this.link = { up: false, message, since, local: true };
    this.changed();
    this.again = setTimeout(() => this.follow(), 2000);
  }

  checkAlive() {
    const silent = (Date.now() - this.heard) / 1000;
    if (this.source && silent > SILENCE) this.lost(`nothing came for ${duration(silent)}; perhaps this machine slept`);
  }

  add(piece) {
    this.heard = Date.now();
    this.quiet = piece.quiet || 0;
    if (piece.me) { Object.assign(me, piece.me); identified.resolve(); }
    if (piece.snapshot) this.forget();
    if (piece.time) clock.offset = piece.time - Date.now() / 1000;
    for (const [kind, key] of Object.entries(KEYS)) {
      for (const thing of piece[kind] || []) this[kind].set(thing[key], thing);
      for (const name of piece.removed?.[kind] || []) this[kind].delete(name);
    }
    if (piece.events) this.events = [...this.events, ...piece.events].slice(-MOST_EVENTS);
    if (piece.counts) this.counts = piece.counts;
    if (piece.complete !== undefined) this.complete = piece.complete; // false: more of the first state is on its way
    if (piece.store !== undefined) this.store = piece.store;
    if (piece.link) this.link = piece.link;
    this.known ||= Boolean(piece.time);
    this.dropOld();
    this.changed(piece);
    if (document.hidden) this.follow();
  }

  dropOld() {
    const old = [...this.jobs.values()].filter(ended);
    if (old.length <= MOST_ENDED) return;
    old.sort((one, two) => one.ended - two.ended);
    for (const job of old.slice(0, old.length - MOST_ENDED)) this.jobs.delete(job.id);
  }

  // Tells the listeners once per frame, however many messages came.
  changed(piece) {
    for (const task of piece?.tasks || []) (this.touched ||= new Set()).add(task.task);
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      for (const listener of [...this.listeners]) listener(this);
    });
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close() {
    this.source?.close();
    clearInterval(this.watchdog); clearTimeout(this.again);
    document.removeEventListener("visibilitychange", this.onVisible);
  }
}

export const me = { cluster: "", user: "", role: "viewer", shared: true, files: false, actions: [], questions: [] };

// Resolved with the first message of the server, which says what this page may show. Views are made after that.
export const identified = {};
identified.promise = new Promise((resolve) => { identified.resolve = resolve; });

export const cluster = new Feed(null);

export async function ask(name, words = {}) {
  if (!me.questions.includes(name)) throw new Error("this page does not show that");
  const given = Object.entries(words).filter(([, value]) => value !== null && value !== undefined);
  return answerTo(`/ask/${name}?${new URLSearchParams(given)}`);
}

// What is in a folder of the share.
export async function listFiles(path) {
  return answerTo(`/files?${new URLSearchParams({ path })}`);
}

// The beginning of a file of the share.
export async function previewFile(path) {
  return answerTo(`/preview?${new URLSearchParams({ path })}`);
}

// How the output files of jobs differ.
export async function fileGroups(jobs) {
  return answerTo(`/file-groups?${new URLSearchParams({ jobs: jobs.join() })}`);
}

export async function act(name, body) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  return answered(await fetch(`/do/${name}`, { method: "POST", headers, body: JSON.stringify(body) }));
}

// Asks again what the browser dropped, as it does when a network interface of its machine appears or goes.
async function answerTo(question) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await answered(await fetch(question, { headers: { Accept: "application/json" } }));
    } catch (error) {
      if (!(error instanceof TypeError) || tries === MOST_TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

async function answered(response) {
  const body = await response.json();
  if (!response.ok) throw new Error(body.error?.message || `the server answered ${response.status}`);
  return body;
}
