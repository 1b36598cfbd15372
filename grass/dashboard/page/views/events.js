// The whole event log, page by page, with filters that the cluster applies. New events come with the feed.

import { h } from "../dom.js";
import { instant } from "../format.js";
import { empty, jobLink, nodeLink, panel } from "../parts.js";
import { ask, cluster } from "../state.js";

const FIELDS = { text: "Any word", job: "Job", node: "Node", user: "User" };
const PAUSE = 250; // milliseconds after a key before the cluster is asked
const AGAIN = 5000; // milliseconds after an answer that failed

export function eventsView(_, query) {
  const wanted = { text: query.get("q") || "", job: query.get("job") || "", node: query.get("node") || "", user: query.get("user") || "", kind: query.get("kind") || "" };
  let found = null, kinds = [], older = null, problem = "", timer = null, asked = 0, paging = false, newest = "";

  // `before`: where the last answer ended; without it, the page begins anew.
  async function load(before) {
    const mine = ++asked;
    clearTimeout(timer); // of an answer from the beginning, which would take the place of an older page
    paging = Boolean(before);
    try {
      const answer = await ask("event-log", { ...wanted, before });
      if (mine !== asked) return; // another filter was chosen meanwhile
      found = before ? [...found, ...answer.events] : answer.events;
      older = answer.before;
      kinds = answer.kinds;
      problem = "";
      paging = false;
    } catch (error) {
      if (mine !== asked) return;
      problem = error.message;
      timer = setTimeout(() => load(before), AGAIN);
    }
    cluster.changed();
  }

  function choose(name, value) {
    wanted[name] = value;
    older = null; // where an answer for another filter ended
    asked += 1; // what is on its way is for another filter
    paging = false;
    clearTimeout(timer);
    timer = setTimeout(load, PAUSE);
    cluster.changed();
  }
  const stop = cluster.listen(() => {
    const last = cluster.events[cluster.events.length - 1]?.id || "";
    if (last === newest) return;
    const first = !newest;
    newest = last;
    if (!first && !paging && found && found.length <= 100) { clearTimeout(timer); timer = setTimeout(load, PAUSE); }
  });
  load();
  return {
    close() { stop(); clearTimeout(timer); asked += 1; },
    draw() {
      const filtered = Object.values(wanted).some(Boolean);
      return h("div.stack", h("h1", "Events"),
        h("div.filters",
          Object.entries(FIELDS).map(([name, text]) => h("input.field", { type: "search", "aria-label": name === "text" ? "Filter events" : `${text} of events`, placeholder: text, value: wanted[name], oninput: (event) => choose(name, event.target.value.trim()) })),
          h("select.field", { "aria-label": "Kind of event", onchange: (event) => choose("kind", event.target.value) },
            h("option", { value: "" }, "Every kind"), kinds.map((each) => h("option", { value: each, selected: each === wanted.kind }, each)))),
        panel("Newest first", { end: h("span.soft", found ? `${found.length}${older ? ", and there may be older ones" : ""}` : "") },
          problem ? empty(problem) : found === null ? empty("Loading.") : found.length ? eventList(found) : empty(filtered && older ? "None of the newest events matches." : filtered ? "No event that is kept matches." : "No event is kept."),
          older && !problem ? h("div.body", h("button.button", { type: "button", onclick: () => load(older) }, "Show older events")) : null));
    },
  };
}

// The run that an event is of. One of an older Grass names only the job: the run at that time, if this tab knows it.
function runOf({ run, job: name, time }) {
  if (run) return run;
  const runs = [...cluster.jobs.values()].filter((job) => job.name === name);
  return runs.find((job) => job.submitted <= time && time <= (job.ended ?? Infinity))?.id || name;
}

export function eventList(events) {
  return h("div", events.map((event) => h("div.event", { "data-key": event.id },
    h("span.soft.nowrap", instant(event.time)), h("span.mono", event.kind),
    h("span.message", event.message, " ", h("span.soft", event.user ? `by ${event.user} ${event.address ? `from ${event.address} ` : ""}` : "",
      event.job ? ["· ", jobLink(runOf(event), event.job), " "] : "", event.node ? ["· ", nodeLink(event.node)] : "")))));
}
