// Schedules: batches and cron rules, with their next and last runs.

import { h } from "../dom.js";
import { naturally } from "../filter.js";
import { ago, clock, duration, instant } from "../format.js";
import { confirm } from "../dialog.js";
import { stateMark } from "../glyphs.js";
import { cards, empty, jobLink, panel } from "../parts.js";
import { cluster, me } from "../state.js";

export function schedulesView() {
  return {
    draw() {
      const found = [...cluster.schedules.values()].sort((one, two) => Number(two.state === "ACTIVE") - Number(one.state === "ACTIVE") || naturally(one.name, two.name));
      return h("div.stack", h("h1", "Schedules"), panel("Schedules", {}, found.length ? table(found) : empty("No schedule; `grass schedule start FILE` makes one.")));
    },
  };
}

function table(schedules) {
  return cards(h("table",
    h("thead", h("tr", h("th", "Schedule"), h("th", "State"), h("th", "Rule"), h("th.num", "Next"), h("th.num", "Last"), h("th", "Newest job"), h("th", h("span.hidden", "Actions")))),
    h("tbody", schedules.map((each) => h("tr", { "data-key": each.name },
      h("td.main", each.name, h("div.soft", each.user)),
      h("td", stateMark(each.state), each.reason ? h("div.soft", each.reason.message) : null),
      h("td", each.cron ? [h("code.nowrap", each.cron), h("div.soft", each.time_zone)] : `${each.jobs.length} jobs`),
      h("td.num", each.next ? [instant(each.next), h("div.soft", `in ${duration(each.next - clock.now())}`)] : "–"),
      h("td.num", each.last ? ago(each.last) : "–"),
      h("td", each.jobs.length ? jobLink(each.jobs[each.jobs.length - 1]) : "–"),
      h("td.num.acts", me.actions.includes("schedule-stop") && (me.role === "admin" || (me.role === "user" && each.user === me.user)) ? actions(each) : null))))));
}

function actions({ name, state, cron }) {
  const offer = (action, text, options, danger = false) => h("button.button", { class: danger ? "danger" : "", type: "button", onclick: () => confirm({ action, danger, body: () => ({ schedule: name }), ...options }) }, text);
  const stop = () => offer("schedule-stop", "Stop", { title: `Stop ${name}?`, text: "It starts nothing more. Jobs of a batch are stopped; the run of a cron rule continues.", line: () => `grass schedule stop ${name}`, verb: "Stop schedule" }, true);
  const remove = () => offer("schedule-delete", "Delete", { title: `Delete ${name}?`, text: "The schedule is removed for good. Its jobs stay.", line: () => `grass schedule delete ${name}`, verb: "Delete schedule" }, true);
  const run = offer("schedule-run", "Run now", { title: `Run ${name} now?`, text: cron ? "Starts one run besides its rule." : "Starts the jobs of the batch again.", line: () => `grass schedule run-now ${name}`, verb: "Run now" });
  if (!cron && state === "ACTIVE") return [stop()];
  if (state === "PAUSED") return [offer("schedule-resume", "Resume", { title: `Resume ${name}?`, text: "It starts jobs again by its rule.", line: () => `grass schedule resume ${name}`, verb: "Resume" }), " ", run, " ", remove()];
  if (state !== "ACTIVE") return [cron ? null : [run, " "], remove()];
  return [run, " ", offer("schedule-pause", "Pause", { title: `Pause ${name}?`, text: "It starts nothing until it is resumed.", line: () => `grass schedule pause ${name}`, verb: "Pause" }), " ",
    stop()];
}
