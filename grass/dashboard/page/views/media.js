// What tasks reported besides figures: the newest text, picture or table of each name, and earlier ones by their step.
// All of it is from a task: text goes into text nodes, and the server sends nothing but pictures for an <img>.

import { h } from "../dom.js";
import { bytes, count, instant } from "../format.js";
import { empty, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, me, previewFile } from "../state.js";

const MOST_TASKS = 500; // in the choice of a task

export class Media {
  // `task`: only what this one reported. `settled`: returns whether nothing new will come.
  constructor(id, task, changed, settled) {
    this.id = id; this.task = task; this.only = Boolean(task); this.changed = changed; this.settled = settled;
    this.found = null; this.problem = "";
    this.chosen = new Map(); // name → number of the one that is shown; none: the newest
    this.tables = new Map(); // file and time → its rows, or why there are none
    this.broken = new Set(); // file and time of pictures that the browser cannot draw
    this.poll = new Poll(() => this.load());
    this.poll.now();
  }

  async load() {
    try { this.found = await ask("media", { job: this.id, task: this.task || null }); this.problem = ""; } catch (error) { this.problem = error.message; }
    if (this.closed) return null;
    this.changed();
    return !this.problem && this.settled() ? null : 10;
  }

  draw() {
    const { found } = this;
    if (!found || (!found.names.length && !(this.only ? found.troubles : found.tasks).length)) return null; // most tasks report none
    const title = this.only ? `Reported by ${this.task}` : "Reported";
    return panel(title, { key: "media", end: this.only ? null : this.choice() },
      [this.problem ? `This is not the newest: ${this.problem}` : "", ...(this.only ? found.troubles : [])].filter(Boolean).map((text) => h("p.note.inside", text)),
      found.names.length ? h("div.media", found.names.map((each) => this.one(each))) : empty("This task has reported no text, picture or table."));
  }

  choice() {
    const { tasks, task } = this.found;
    if (tasks.length < 2) return h("span.soft", task);
    const choose = (event) => { this.task = event.target.value; this.chosen.clear(); this.poll.now(); };
    return h("label.soft", "Task: ", h("select.field", { "aria-label": "Task whose reports are shown", onchange: choose },
      tasks.slice(0, MOST_TASKS).map((each) => h("option", { value: each, selected: each === task }, each))));
  }

  one({ name, seen, shown }) {
    const last = shown.length - 1, wanted = this.chosen.get(name), found = shown.findIndex((each) => each.number === wanted), at = found < 0 ? last : found, each = shown[at];
    const choose = (number) => { if (number === last) this.chosen.delete(name); else this.chosen.set(name, shown[number].number); this.changed(); };
    return h("figure.medium", { "data-key": name },
      h("figcaption", h("b", name), h("span.soft", `step ${each.step}, ${instant(each.at)}`), seen > shown.length ? h("span.soft", { title: "Of many, some that are spread evenly are kept." }, `${count(shown.length)} of ${count(seen)} kept`) : null,
        each.file && me.files ? h("a", { href: `/file?${new URLSearchParams({ path: each.file })}`, download: each.file.split("/").pop(), "aria-label": `Download ${name}` }, "Download") : null),
      this.content(name, each),
      last > 0 ? h("input", { type: "range", min: 0, max: last, value: at, "aria-label": `Step of ${name}`, "aria-valuetext": `step ${each.step}`, oninput: (event) => choose(Number(event.target.value)) }) : null);
  }

  content(name, each) {
    if (each.kind === "text") return h("div.text", { tabindex: 0, role: "region", "aria-label": `Text of ${name}` }, each.text);
    if (!me.files) return h("p.soft", "This machine cannot reach the file: ", h("code", each.file));
    const key = `${each.file} ${each.at}`;
    if (this.broken.has(key)) return h("p.soft", `${each.file.split("/").pop()}, ${bytes(each.size)}: this browser cannot show it as a picture.`);
    if (each.kind === "picture") return h("img", { onerror: () => { this.broken.add(key); this.changed(); }, src: `/file?${new URLSearchParams({ path: each.file, picture: "", at: each.at })}`, alt: `${name} at step ${each.step}`, loading: "lazy" });
    if (each.kind === "table") return this.table(name, each);
    return h("p.soft", `${each.file.split("/").pop()}, ${bytes(each.size)}: a file of this kind is only downloaded.`);
  }

  table(name, each) {
    const key = `${each.file} ${each.at}`, found = this.tables.get(key);
    if (!found) {
      this.tables.set(key, { problem: "Loading." });
      previewFile(each.file).then((said) => this.tables.set(key, said), (error) => this.tables.set(key, { problem: error.message })).then(() => { if (!this.closed) this.changed(); });
    }
    if (found?.text) return h("div.text", { tabindex: 0, role: "region", "aria-label": `Text of ${name}` }, found.text);
    if (!found?.rows?.length) return h("p.soft", found?.problem || (found ? "This table is empty." : "Loading."));
    const [head, ...rows] = found.rows;
    return h("div.scroll", { tabindex: 0, role: "region", "aria-label": `Table ${name}` }, h("table", h("thead", h("tr", head.map((cell) => h("th", cell)))), h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", cell)))))),
      found.more ? h("p.soft", "Only the beginning is shown; download the file for the rest.") : null);
  }

  close() { this.closed = true; this.poll.close(); }
}
