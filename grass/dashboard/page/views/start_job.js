// The dialog that starts a job: a file that is chosen or pasted, what would become of it, and its start.

import { close, command, open } from "../dialog.js";
import { h, render } from "../dom.js";
import { act, me } from "../state.js";

const EXAMPLE = "name: hello\ncomponents:\n  main:\n    command: echo hello\n";
const LARGEST = 1 << 20; // bytes, as of any job file

export const mayStart = () => me.role !== "viewer" && me.actions.includes("job-start");

// `name`, `text`: of a file to begin with.
export function startJob({ name = "", text = "" } = {}) {
  if (!mayStart()) return;
  let plan = null, turn = 0;
  const shown = h("div.stack"), problem = h("p.error", { role: "alert" });
  const area = h("textarea.field", { "aria-label": "Job file or script", spellcheck: "false", autocomplete: "off", autocapitalize: "off", placeholder: EXAMPLE, autofocus: true, oninput: edited });
  const chooser = h("input.field", { type: "file", "aria-label": "Choose a file", onchange: chosen });
  const button = h("button.button.primary", { type: "button", onclick: () => (plan ? start() : check()) });
  area.value = text;

  function draw() {
    button.textContent = plan ? "Start job" : "Check";
    button.disabled = !area.value.trim();
    render(shown, plan ? planned(plan) : null, h("div.stack", h("h2", "The same on the command line"), command(`grass job start ${quoted(name || "job.yml")}`)));
  }

  function edited() { plan = null; turn += 1; problem.textContent = ""; draw(); }

  async function chosen() {
    const [file] = chooser.files;
    if (!file) return;
    if (file.size > LARGEST) { edited(); problem.textContent = `${file.name}: is larger than 1 MiB`; return; }
    try { area.value = await file.text(); name = file.name; edited(); }
    catch (error) { problem.textContent = `${file.name}: cannot be read: ${error.message}`; }
  }

  // Asks the cluster; an answer that comes after the text was changed counts for nothing.
  async function asked(action) {
    const mine = ++turn;
    button.disabled = true;
    problem.textContent = "";
    try {
      const answer = await act(action, { name, text: area.value });
      if (mine === turn) return answer;
    } catch (error) {
      if (mine === turn) { problem.textContent = error.message; button.disabled = false; }
    }
    return null;
  }

  async function check() {
    const answer = await asked("job-plan");
    if (!answer) return;
    problem.textContent = answer.problem || "";
    plan = answer.problem ? null : answer;
    draw();
    if (plan) button.focus();
    else area.focus();
  }

  async function start() {
    const answer = await asked("job-start");
    if (!answer) return;
    close();
    location.hash = `#/jobs/${encodeURIComponent(answer.id)}`;
  }

  draw();
  open([
    h("header", h("h1", "Start a job")),
    h("div.body", h("p.soft", "Choose a job file or a script, or write one here. Nothing starts before you have seen what would happen."),
      h("div.filters", chooser), area, problem, shown),
    h("footer", h("button.button", { type: "button", onclick: close }, "Cancel"), button),
  ], "Start a job", "wide");
}

function planned(plan) {
  const devices = plan.rows.some(([, , , gpus]) => gpus !== "-");
  return h("section.panel", { "aria-label": "What would happen" },
    h("header", h("h2", plan.head)),
    h("div.scroll", h("table",
      h("thead", h("tr", h("th", "Component"), h("th.num", "Tasks"), h("th", "Node"), devices ? h("th", "GPUs") : null, h("th", "Reason"))),
      h("tbody", plan.rows.map(([component, tasks, node, gpus, reason]) => h("tr", h("td", component), h("td.num", tasks), h("td", node), devices ? h("td", gpus) : null, h("td.wide", reason)))))),
    notes(plan));
}

function notes({ evictions, warnings, sends, folder }) {
  const found = [evictions, ...warnings.map((each) => `Warning: ${each}`), sends.length ? `It sends ${sends.join(", ")} to the cluster.` : "", folder ? `Relative paths begin in ${folder}.` : ""].filter(Boolean);
  return found.length ? h("div.body.stack", found.map((each) => h("p.soft", each))) : null;
}

// A file name as a word of a shell.
function quoted(word) {
  const path = word.startsWith("-") ? `./${word}` : word;
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
