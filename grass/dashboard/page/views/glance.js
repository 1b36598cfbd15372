// What a job does and last said, on its first tab: commands, tags, last figures, last lines of its log.

import { rendered } from "../ansi.js";
import { h } from "../dom.js";
import { short } from "../filter.js";
import { plural } from "../format.js";
import { tagsOf } from "../job_filter.js";
import { empty, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask } from "../state.js";
import { tagLink } from "./jobs.js";

export class Glance {
  // `settled`: returns whether nothing new will come.
  constructor(id, changed, settled) {
    this.id = id; this.found = null; this.problem = ""; this.changed = changed;
    this.poll = new Poll(async () => {
      try { this.found = await ask("glance", { job: id }); this.problem = ""; } catch (error) { this.problem = error.message; }
      if (this.closed) return null;
      this.changed();
      return !this.problem && settled() ? null : 10;
    });
    this.poll.now();
  }

  // `table`: whether the figures have a table of their own on the page.
  draw(job, table = false) {
    const { found } = this, place = `#/jobs/${encodeURIComponent(this.id)}`, tags = tagsOf(job);
    if (!found) return panel("At a glance", { key: "glance" }, empty(this.problem || "Loading."));
    return [panel("At a glance", { key: "glance", end: h("a.soft", { href: `${place}/about` }, "job file") }, h("div.body.stack",
      found.commands.map(({ component, text, image }) => h("div", { "data-key": component }, h("h3", component, image ? h("span.soft", ` in ${image}`) : null), h("div.source.small", { tabindex: 0, role: "region", "aria-label": `Command of ${component}` }, text))),
      tags.length ? h("p", h("span.soft", "Tags "), tags.map((tag) => [tagLink(tag), " "])) : null)),
    found.figures && !table ? panel("Last figures", { key: "last-figures", end: [more(found.figures.more), h("a.soft", { href: `${place}/curves` }, "curves")] }, figures(found.figures, place)) : null,
    panel("Last lines", { key: "last-lines", end: [found.of ? h("span.soft", `of ${found.of}`) : null, h("a.soft", { href: `${place}/logs${found.of ? `/${found.of}` : ""}` }, "whole log")] }, this.lines())];
  }

  lines() {
    const { lines } = this.found, several = new Set(lines.map((line) => line.task)).size > 1;
    if (!lines.length) return empty("Nothing was printed so far.");
    return h("div.log.wrap.last", { tabindex: 0, role: "region", "aria-label": "Lines of the log" }, lines.map((line, at) => h("div", { "data-key": at, class: line.stream === "stderr" ? "err" : "" },
      several ? h("span.from", line.task) : null, h("span.text", rendered(line.text)))));
  }

  close() { this.closed = true; this.poll.close(); }
}

function figures({ names, rows }, place) {
  return h("div.scroll", h("table", h("thead", h("tr", h("th", "Task"), names.map((name) => h("th.num", name)))),
    h("tbody", rows.map(([task, ...values]) => h("tr", { "data-row": true, "data-key": task }, h("td", h("a", { href: `${place}/tasks/${task}` }, task)),
      values.map((value) => h("td.num", value === null || value === undefined ? "–" : typeof value === "number" ? short(value) : String(value))))))));
}

function more({ tasks, figures: names }) {
  const words = [tasks ? plural(tasks, "more task") : "", names ? plural(names, "more figure") : ""].filter(Boolean);
  return words.length ? h("span.soft", words.join(", ")) : null;
}
