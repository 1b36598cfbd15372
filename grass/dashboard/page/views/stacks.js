// At which lines the processes of a running task are now, on demand: as `grass job stacks` shows it.

import { h } from "../dom.js";
import { clock, instant, plural } from "../format.js";
import { empty, panel } from "../parts.js";
import { ask } from "../state.js";

const STATES = { R: "running", S: "waiting", D: "waiting in the kernel (D)", T: "stopped (T)", Z: "ended (Z)" };

export class Stacks {
  // `changed` is called when there is something new to draw.
  constructor(job, task, changed) {
    this.job = job; this.task = task; this.changed = changed;
    this.found = null; this.problem = ""; this.read = null; this.asking = false;
  }

  async ask() {
    this.asking = true;
    this.changed();
    try { this.found = await ask("stacks", { job: this.job, task: this.task }); this.problem = ""; this.read = clock.now(); } catch (error) { this.problem = error.message; }
    this.asking = false;
    this.changed();
  }

  button() {
    return h("button.button", { type: "button", disabled: this.asking, title: "At which lines its processes are now. Nothing is stopped for it.", onclick: () => this.ask() }, this.asking ? "Reading stacks" : this.found ? "Stacks again" : "Stacks");
  }

  draw() {
    if (!this.found && !this.problem) return null;
    if (this.problem) return panel("Stacks", { key: "stacks" }, empty(this.problem));
    const { processes, notes } = this.found;
    return panel("Stacks", { key: "stacks", end: h("span.soft", `${plural(processes.length, "process").replace("processs", "processes")} at ${instant(this.read)}`) },
      notes.map((note) => h("p.note.inside", note)),
      processes.length ? processes.map((each) => h("div.body", { "data-key": each.pid }, h("h3", `${each.command} `, h("span.soft", `pid ${each.pid}, ${STATES[each.state] || each.state}${each.waits_in ? ` in ${each.waits_in}` : ""}`)),
        each.problem ? h("p.soft", each.problem) : null,
        (each.threads || []).map((thread) => h("div", thread.name && !thread.main ? h("h3.soft", `thread ${thread.name}`) : null,
          h("div.source.small", { tabindex: 0, role: "region", "aria-label": `Stack of pid ${each.pid}${thread.main ? "" : `, thread ${thread.name}`}` }, thread.frames.join("\n") || "(no Python frame)"))),
        each.kernel?.length ? h("div.source.small", { tabindex: 0, role: "region", "aria-label": `Kernel stack of pid ${each.pid}` }, each.kernel.join("\n")) : null)) : empty("No process of this task was found."));
  }
}
