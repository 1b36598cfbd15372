// What the user may do with a job. The API checks the rights again.

import { close, confirm, open } from "../dialog.js";
import { h } from "../dom.js";
import { ended, me } from "../state.js";

// `pages`: the components that publish a web page.
export function jobActions(job, pages) {
  if (me.role === "viewer") return h("span.soft", me.shared ? "This page is read-only." : "You are a viewer: you can look, and change nothing.");
  if (me.role === "user" && job.user !== me.user) return [];
  const found = [], body = () => ({ job: job.id });
  const offer = (action, text, options, danger = false) => {
    if (me.actions.includes(action)) found.push(h("button.button", { class: danger ? "danger" : "", type: "button", "data-key": text, onclick: () => confirm({ action, danger, body, ...options }) }, text));
  };
  const show = (answer) => { if (answer.id) location.hash = `#/jobs/${encodeURIComponent(answer.id)}`; };
  if (ended(job)) {
    offer("job-rerun", "Rerun", { title: `Run ${job.name} again?`, text: "A new run with the same file.", line: () => `grass job rerun ${job.id}`, verb: "Rerun", done: show });
    if (job.counts.FAILED || job.counts.LOST || job.counts.STOPPED) {
      offer("job-rerun-failed", "Rerun failed", { title: `Run the failed tasks of ${job.name} again?`, text: "A new run with only the tasks that did not succeed.", line: () => `grass job rerun ${job.id} --failed`, verb: "Rerun failed", done: show });
    }
    offer("job-delete", "Delete", { title: `Delete ${job.name}?`, text: "The job and its logs are removed for good.", line: () => `grass job delete ${job.id}`, verb: "Delete job", done: () => { location.hash = "#/jobs"; } }, true);
    return found;
  }
  if (job.state === "QUEUED" && (job.held || job.starts)) offer("job-release", "Release", { title: `Release ${job.name}?`, text: "It starts as soon as it is its turn.", line: () => `grass job release ${job.id}`, verb: "Release" });
  if (job.state === "QUEUED" && !job.held) offer("job-hold", "Hold", { title: `Hold ${job.name} back?`, text: "Nothing of it starts until it is released.", line: () => `grass job hold ${job.id}`, verb: "Hold" });
  if (job.state === "QUEUED") {
    offer("job-priority", "Priority", { title: `Change the priority of ${job.name}`, text: "Jobs with a higher priority are served first.", verb: "Change",
      fields: [{ name: "priority", label: "Priority, 0 to 1000", value: String(job.priority), type: "number", min: 0, max: 1000 }],
      body: ({ priority }) => ({ job: job.id, priority: Number(priority) }), line: ({ priority }) => `grass job set ${job.id} --priority ${priority}` });
  }
  if (job.state === "SUSPENDED") offer("job-resume", "Resume", { title: `Resume ${job.name}?`, text: "It is queued again.", line: () => `grass job resume ${job.id}`, verb: "Resume" });
  if (job.state === "RUNNING") {
    for (const component of pages) {
      offer("page-open", pages.length > 1 ? `Page of ${component}` : "Web page", { title: `Open the web page of ${component}`, text: "A port of the machine on which the dashboard runs leads to it, until the task or `grass dashboard` ends.", verb: "Open",
        body: () => ({ job: job.id, component }), line: () => `grass job open ${job.id} ${component}`, done: showPage });
    }
    const names = Object.keys(job.components), first = names.find((name) => job.components[name].generation) || names[names.length - 1];
    offer("job-scale", "Scale", { title: `Scale ${job.name}`, text: "New tasks become members together, once all are ready. Tasks that leave may finish until the deadline.", verb: "Scale",
      fields: [{ name: "component", label: "Component", value: first }, { name: "size", label: "Tasks", value: String(job.components[first].replicas), type: "number", min: 0 }],
      body: ({ component, size }) => ({ job: job.id, component, size: Number(size) }), line: ({ component, size }) => `grass job scale ${job.id} ${component} ${size}`,
      done: () => { location.hash = `#/jobs/${encodeURIComponent(job.id)}/operations`; } });
    offer("job-restart", "Restart", { title: `Restart ${job.name}?`, text: "All its tasks are stopped and start again, also those that have ended.", line: () => `grass job restart ${job.id}`, verb: "Restart" }, true);
    offer("job-suspend", "Suspend", { title: `Suspend ${job.name}?`, text: "All its tasks are stopped and its resources released, until it is resumed.", line: () => `grass job suspend ${job.id}`, verb: "Suspend" }, true);
  }
  offer("job-stop", "Stop", { title: `Stop ${job.name}?`, text: "Its tasks get TERM, and KILL after their grace.", line: () => `grass job stop ${job.id}`, verb: "Stop job" }, true);
  return found;
}

function showPage({ url, task }) {
  open([h("header", h("h1", `The web page of ${task}`)), h("div.body", h("p", h("a", { href: url, target: "_blank", rel: "noopener", autofocus: true }, url))),
    h("footer", h("button.button", { type: "button", onclick: close }, "Close"))], "Web page");
}

export function taskActions(job, task) {
  if (ended(job) || me.role === "viewer" || (me.role === "user" && job.user !== me.user)) return [];
  if (["SUCCEEDED", "FAILED", "STOPPED"].includes(task.state)) return [];
  const body = () => ({ job: job.id, task: task.task });
  const offer = (action, text, options) => me.actions.includes(action) && h("button.button.danger", { type: "button", onclick: () => confirm({ action, body, verb: text, ...options }) }, text);
  return [
    task.node && offer("task-replace", "Replace task", { title: `Replace ${task.task}?`, text: "It is stopped and starts again, on another node if one accepts tasks.", line: () => `grass job replace ${job.id} ${task.task}` }),
    offer("task-stop", "Stop task", { title: `Stop ${task.task}?`, text: "Only this task. It does not start again.", line: () => `grass job stop ${job.id} ${task.task}` })];
}
