// The one dialog: asks before a change, and shows the command line that does the same.

import { h, render } from "./dom.js";
import { act } from "./state.js";

const overlay = document.getElementById("overlay");
let before = null;

export function open(content, label, size) {
  if (!overlay.firstChild) before = document.activeElement;
  const box = h("div.dialog", { class: size, role: "dialog", "aria-modal": "true", "aria-label": label }, content);
  for (const part of box.querySelectorAll(":scope > header, :scope > footer")) part.setAttribute("role", "presentation"); // not those of the page
  overlay.replaceChildren(box);
  overlay.onclick = (event) => { if (event.target === overlay) close(); };
  overlay.onkeydown = (event) => keepInside(event, box);
  (box.querySelector("[autofocus]") || box.querySelector("button, input, a"))?.focus();
  return box;
}

export function close() {
  if (!overlay.firstChild) return;
  overlay.replaceChildren();
  before?.focus?.();
}

export const isOpen = () => Boolean(overlay.firstChild);

function keepInside(event, box) {
  if (event.key === "Escape") { close(); event.stopPropagation(); return; }
  if (event.key !== "Tab") return;
  const stops = [...box.querySelectorAll("a[href], button:not([disabled]), input, select, textarea")];
  const first = stops[0], last = stops[stops.length - 1];
  if (event.shiftKey && document.activeElement === first) { last.focus(); event.preventDefault(); }
  else if (!event.shiftKey && document.activeElement === last) { first.focus(); event.preventDefault(); }
}

export function command(line) {
  const button = h("button.button", { type: "button" }, "Copy");
  button.onclick = async () => {
    try { await navigator.clipboard.writeText(line); button.textContent = "Copied"; }
    catch { button.textContent = "Select and copy"; }
  };
  return h("div.command", h("code", line), button);
}

// `line`, `body`: functions of the values of the fields. `fields`: [{name, label, value, type, min, step}].
export function confirm({ title, text, action, body, line, verb, danger = true, fields = [], done }) {
  const values = Object.fromEntries(fields.map((field) => [field.name, field.value]));
  const shown = h("div"), problem = h("p.error", { role: "alert" });
  const draw = () => render(shown, command(line(values)));
  const button = h("button.button.primary", { class: danger ? "danger" : "", type: "button" }, verb);
  const input = (field) => h("label", h("span.soft", field.label), " ", h("input.field", {
    name: field.name, type: field.type || "text", value: field.value, min: field.min, max: field.max, step: field.step, placeholder: field.placeholder,
    oninput: (event) => { values[field.name] = event.target.value; draw(); },
  }));
  button.onclick = async () => {
    button.disabled = true;
    problem.textContent = "";
    try {
      const answer = await act(action, body(values));
      close();
      done?.(answer);
    } catch (error) {
      problem.textContent = error.message;
      button.disabled = false;
    }
  };
  draw();
  open([
    h("header", h("h1", title)),
    h("div.body", h("p", text), fields.map(input), h("div.stack", h("h2", "The same on the command line"), shown), problem),
    h("footer", h("button.button", { type: "button", onclick: close, autofocus: true }, "Cancel"), button),
  ], title);
}
