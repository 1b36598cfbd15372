// What changed the size of a job or moved its tasks, and the generation of each membership.

import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { ago } from "../format.js";
import { shape, toneOf, wordOf } from "../glyphs.js";
import { cards, empty, panel } from "../parts.js";
import { me } from "../state.js";

export function operationList(job, operations) {
  const members = Object.entries(job.components).filter(([, part]) => part.generation);
  return [
    members.length ? panel("Memberships", { key: "members" }, h("div.scroll", h("table", h("thead", h("tr", h("th", "Component"), h("th.num", "Members"), h("th.num", "Generation"), h("th.num", "Joining"))),
      h("tbody", members.map(([name, part]) => h("tr", h("td.main", name), h("td.num", part.replicas - (part.joining || []).length), h("td.num", part.generation), h("td.num", (part.joining || []).length))))))) : null,
    panel("Operations", { key: "operations" }, operations === null ? empty("Loading.") : operations.length ? table(job, [...operations].reverse()) : empty("Nothing was scaled, restarted or replaced.")),
  ];
}

function table(job, operations) {
  const mine = me.role === "admin" || (me.role === "user" && job.user === me.user);
  return cards(h("table", h("thead", h("tr", h("th", "Operation"), h("th", "State"), h("th", "What happens"), h("th", "By"), h("th.num", "Filed"), h("th", h("span.hidden", "Actions")))),
    h("tbody", operations.map((each) => h("tr", { "data-key": each.id },
      h("td.main", `${each.kind} ${each.component || "the job"}`, each.to_size === null ? null : h("div.soft", `${each.from_size ?? "–"} → ${each.to_size}`)),
      h("td", h("span.state", shape(each.outcome ? toneOf(each.outcome) : "running"), wordOf(each.outcome || each.state))),
      h("td.wide", each.message || "–", each.reason ? h("div.soft", each.reason) : null), h("td", each.author), h("td.num", ago(each.filed)),
      h("td.acts", each.cancellable && mine && me.actions.includes("operation-cancel") ? h("button.button", { type: "button", onclick: () => confirm({ action: "operation-cancel", title: `Cancel ${each.kind} of ${job.name}?`, text: "It is undone if it is not complete.",
        body: () => ({ job: job.id, operation: each.id }), line: () => `grass job operations ${job.id} --cancel ${each.id}`, verb: "Cancel operation" }) }, "Cancel") : null))))));
}
