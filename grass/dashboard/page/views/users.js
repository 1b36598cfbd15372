// Users and fair share: who uses how much of the cluster, and who is served next.

import { h } from "../dom.js";
import { ago, bytes, cores, count, percent } from "../format.js";
import { cards, empty, jobLink, meter, panel } from "../parts.js";
import { Poll } from "../poll.js";
import { ask, cluster } from "../state.js";

export function usersView() {
  let shares = null, problem = "";
  const poll = new Poll(async () => {
    try { shares = await ask("shares"); problem = ""; } catch (error) { problem = error.message; }
    cluster.changed();
    return 5;
  });
  poll.now();
  return {
    close() { poll.close(); },
    draw() {
      if (!shares) return h("div.stack", h("h1", "Users"), h("section.panel", empty(problem || "Loading.")));
      return h("div.stack", h("h1", "Users"),
        h("p.soft", "Among jobs with the same priority, those of the user with the smallest share come first. The share adds up use now and recent use. Hours are those of the whole cluster; older use counts less."),
        panel("Shares", {}, shares.users.length ? userTable(shares.users) : empty("Nobody has used the cluster recently.")),
        panel("Next in the queue", {}, shares.queue.length ? queueTable(shares.queue) : empty("Nothing waits.")));
    },
  };
}

function userTable(users) {
  return cards(h("table", h("thead", h("tr", h("th.num", "Turn"), h("th", "User"), h("th", "Share of the cluster now"), h("th", "Share of recent use"), h("th", "Allocated"), h("th.num", "Running"), h("th.num", "Waiting"))),
    h("tbody", users.map((user, at) => h("tr", { "data-key": user.user }, h("td.num", at + 1), h("td.main", user.user),
      h("td.wide", meter("now", user.share, percent(user.share * 100), { limit: 2 })), h("td.wide", meter("past", user.past, `${percent(user.past * 100)}, ${user.hours.toFixed(1)} h`, { limit: 2 })),
      h("td.wide", allocated(user)), h("td.num", count(user.running)), h("td.num", count(user.waiting)))))));
}

const UNITS = { cpu: cores, gpu: cores, memory: bytes, disk: bytes };

// What is allocated to the tasks of a user, and the quota if there is one.
function allocated({ allocated: amounts, quota }) {
  const names = [...new Set([...Object.keys(amounts), ...Object.keys(quota)])].sort().filter((name) => amounts[name] || name in quota);
  const one = (name) => {
    const show = UNITS[name] || count;
    return `${name} ${show(amounts[name] || 0)}${name in quota ? ` of ${show(quota[name])}` : ""}`;
  };
  return names.map(one).join(", ") || "–";
}

function queueTable(queue) {
  return cards(h("table", h("thead", h("tr", h("th.num", "Position"), h("th", "Job"), h("th", "User"), h("th.num", "Priority"), h("th", "Why there"), h("th.num", "Since"))),
    h("tbody", queue.map((each, at) => h("tr", { "data-key": each.job || `hidden-${at}`, "data-row": true }, h("td.num", at + 1), h("td.main", each.job ? jobLink(each.job) : h("span.soft", "a job of another user")), h("td", each.user),
      h("td.num", each.priority), h("td.wide", each.why), h("td.num", ago(each.submitted)))))));
}
