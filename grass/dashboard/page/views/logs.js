// The log of a job or one task: follows, shows the lines that match a filter, with colours of a terminal or without.

import { rendered, stripped } from "../ansi.js";
import { h, render } from "../dom.js";
import { count, moment, zone } from "../format.js";

const MOST = 5000;
const AGAIN = 2000; // milliseconds until a log that broke off is read again

const isFigure = (line) => line.text.startsWith("GRASS_METRIC ");

export class LogPane {
  constructor(job, component) {
    this.job = job;
    this.lines = [];
    this.dropped = 0;
    this.options = { component: component || "", tail: 1000, follow: true, text: "", stream: "", colours: true, wrap: true, times: false, figures: false };
    this.list = h("div.log.wrap", { tabindex: 0, role: "log", "aria-label": "Log", "aria-live": "off" });
    this.bar = h("div.filters");
    this.note = h("span.soft", { role: "status" });
    this.element = h("section.panel", { "data-keep": "log", "aria-label": "Log" }, h("header", this.bar, h("div.end", this.note)), this.list);
    this.parts = [];
    this.watcher = new ResizeObserver(() => this.atEnd()); // lines may come before the list is on the page
    this.watcher.observe(this.list);
    this.onVisible = () => { clearTimeout(this.again); if (document.hidden) this.source?.close(); else this.read(); };
    document.addEventListener("visibilitychange", this.onVisible);
    this.read();
  }

  // `parts`: names that the choice offers: components, and tasks.
  offer(parts) {
    if (JSON.stringify(parts) !== JSON.stringify(this.parts)) { this.parts = parts; this.drawBar(); }
  }

  drawBar() {
    const { options } = this;
    const toggle = (name, text, title) => h("button.button", { type: "button", title, "aria-pressed": String(options[name]), onclick: () => { options[name] = !options[name]; this.drawBar(); this.redraw(name); } }, text);
    render(this.bar,
      h("select.field", { "aria-label": "Component or task", onchange: (event) => { options.component = event.target.value; this.read(); } },
        h("option", { value: "" }, "All tasks"), this.parts.map((name) => h("option", { value: name, selected: name === options.component }, name))),
      h("input.field", { type: "search", "aria-label": "Filter lines", placeholder: "Words, or /an expression/", value: options.text, oninput: (event) => { options.text = event.target.value; this.redraw(); } }),
      h("select.field", { "aria-label": "Stream", onchange: (event) => { options.stream = event.target.value; this.redraw(); } },
        [["", "Both streams"], ["stdout", "stdout"], ["stderr", "stderr"]].map(([value, text]) => h("option", { value, selected: value === options.stream }, text))),
      h("select.field", { "aria-label": "How many lines", onchange: (event) => { options.tail = Number(event.target.value); this.read(); } },
        [200, 1000, 5000].map((lines) => h("option", { value: lines, selected: lines === options.tail }, `last ${count(lines)}`))),
      toggle("follow", "Follow", "Stay at the end as lines come"), toggle("colours", "Colours", "Show the colours that the task printed"),
      toggle("wrap", "Wrap", "Break long lines"), toggle("times", `Times (${zone()})`, "Show when each line was read"),
      h("a.button", { href: `/log-file?${new URLSearchParams({ job: this.job, ...(options.component && { component: options.component }) })}`, download: "", title: "The whole log as a file" }, "Download"),
      this.lines.some(isFigure) ? toggle("figures", "Figures", "Show also the lines with which tasks report figures") : null);
  }

  clear() {
    this.stale = false;
    this.lines = []; this.dropped = 0;
    this.list.replaceChildren();
  }

  // `again`: after the connection broke off.
  read(again = false) {
    this.source?.close();
    if (document.hidden) return;
    clearTimeout(this.again);
    if (again) this.stale = true; // the lines stay until new ones are here
    else this.clear();
    this.drawBar();
    const words = new URLSearchParams({ job: this.job, tail: this.options.tail, follow: "true" });
    if (this.options.component) words.set("component", this.options.component);
    this.tell("reading");
    this.source = new EventSource(`/logs?${words}`);
    this.source.addEventListener("alive", () => this.tell());
    this.source.onmessage = (message) => this.add(JSON.parse(message.data));
    this.source.onerror = () => {
      this.source.close();
      this.tell("the connection broke off; the log is read again");
      this.again = setTimeout(() => this.read(true), AGAIN);
    };
  }

  add(piece) {
    if (this.stale) this.clear();
    if (piece.end !== undefined) { this.source.close(); this.tell(piece.end || "complete"); return; }
    const had = this.lines.some(isFigure);
    this.lines.push(...piece.lines);
    if (!had && piece.lines.some(isFigure)) this.drawBar();
    const over = this.lines.length - MOST;
    if (over > 0) { this.lines.splice(0, over); this.dropped += over; }
    const fits = this.filter();
    this.list.append(...piece.lines.filter(fits).map((line) => this.row(line)));
    while (this.list.childElementCount > MOST) this.list.firstChild.remove();
    this.atEnd();
    this.tell();
  }

  redraw(option) {
    this.list.classList.toggle("wrap", this.options.wrap);
    if (option !== "follow" && option !== "wrap") this.list.replaceChildren(...this.lines.filter(this.filter()).map((line) => this.row(line)));
    this.atEnd();
    this.tell();
  }

  atEnd() {
    if (!this.options.follow) return;
    const { list } = this, unseen = () => list.scrollHeight - list.clientHeight - list.scrollTop;
    let frames = 5, at = 0; // lines get their height when they come into view
    const scroll = () => {
      if (list.scrollTop < at && unseen() > 2) return; // somebody scrolled up meanwhile
      list.scrollTop = list.scrollHeight; at = list.scrollTop; frames -= 1;
      if (frames) requestAnimationFrame(scroll);
    };
    requestAnimationFrame(scroll);
  }

  filter() {
    const { text, stream } = this.options, expression = /^\/(.+)\/$/.exec(text);
    let pattern = null;
    if (expression) try { pattern = new RegExp(expression[1], "i"); } catch { /* as plain text until it is whole */ }
    const plain = text.toLowerCase();
    return (line) => (this.options.figures || text || !isFigure(line)) && (!stream || line.stream === stream) && (!text || (pattern ? pattern.test(line.text) : line.text.toLowerCase().includes(plain)));
  }

  row(line) {
    const shown = this.options.colours ? rendered(line.text) : [document.createTextNode(stripped(line.text))];
    return h("div", { class: line.stream === "stderr" ? "err" : "" },
      this.options.times ? h("span.from", moment(line.time)) : null,
      h("span.from", { title: `attempt ${line.attempt}, ${line.stream}` }, line.task),
      line.lost ? h("span.gap", `${count(line.lost)} bytes are missing here`) : null,
      h("span.text", shown, line.more ? h("span.gap", ` … ${count(line.more)} more characters; \`grass job logs\` has the whole line`) : null));
  }

  tell(state) {
    const shown = this.list.childElementCount, hidden = this.options.figures || this.options.text ? 0 : this.lines.filter(isFigure).length;
    this.state = state || (this.state === "reading" ? "" : this.state) || "";
    this.note.textContent = [`${count(shown)} lines`, hidden ? `${count(hidden)} of figures hidden` : "", this.dropped ? `${count(this.dropped)} older ones left out` : "", this.state].filter(Boolean).join(" · ");
  }

  close() { this.watcher.disconnect(); this.source?.close(); clearTimeout(this.again); document.removeEventListener("visibilitychange", this.onVisible); }
}
