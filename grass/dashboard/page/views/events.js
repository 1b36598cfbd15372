// The event log with filters. New events come with the feed.

import { h } from "../dom.js";
import { instant } from "../format.js";
import { empty, jobLink, nodeLink, panel } from "../parts.js";
import { cluster } from "../state.js";

const MOST = 300;

export function eventsView(_, query) {
  let text = query.get("q") || "", kind = "";
  return {
    draw() {
      const kinds = [...new Set(cluster.events.map((event) => event.kind))].sort();
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const found = cluster.events.filter((event) => (!kind || event.kind === kind)
        && words.every((word) => Object.values(event).some((value) => String(value).toLowerCase().includes(word)))).reverse();
      return h("div.stack", h("h1", "Events"),
        h("div.filters",
          h("input.field", { type: "search", "aria-label": "Filter events", placeholder: "Filter by any word", value: text, oninput: (event) => { text = event.target.value; cluster.changed(); } }),
          h("select.field", { "aria-label": "Kind of event", onchange: (event) => { kind = event.target.value; cluster.changed(); } },
            h("option", { value: "" }, "Every kind"), kinds.map((each) => h("option", { value: each, selected: each === kind }, each)))),
        panel("Newest first", { end: h("span.soft", `${found.length} of the last ${cluster.events.length}`) }, found.length ? eventList(found.slice(0, MOST)) : empty("No event matches.")));
    },
  };
}

export function eventList(events) {
  return h("div", events.map((event) => h("div.event", { "data-key": event.id },
    h("span.soft.nowrap", instant(event.time)), h("span.mono", event.kind),
    h("span.message", event.message, " ", h("span.soft", event.user ? `by ${event.user} ` : "",
      event.job ? ["· ", jobLink(event.job), " "] : "", event.node ? ["· ", nodeLink(event.node)] : "")))));
}
