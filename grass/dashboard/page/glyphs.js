// A state is always a shape and a colour, so that it can be told without seeing colours.

import { h } from "./dom.js";
import { plural } from "./format.js";

const SHAPES = {
  running: (paint) => [h("circle", { cx: 6, cy: 6, r: 4.6, fill: "none", stroke: paint, "stroke-width": 1.6 }), h("circle", { cx: 6, cy: 6, r: 2.2, fill: paint })],
  succeeded: (paint) => [h("circle", { cx: 6, cy: 6, r: 5.4, fill: paint }), h("path", { d: "M3.4 6.2 5.3 8 8.7 4.3", fill: "none", stroke: "var(--panel)", "stroke-width": 1.6 })],
  failed: (paint) => [h("rect", { x: 0.8, y: 0.8, width: 10.4, height: 10.4, rx: 2, fill: paint }), h("path", { d: "M3.8 3.8l4.4 4.4M8.200 3.8l-4.4 4.4", stroke: "var(--panel)", "stroke-width": 1.6 })],
  pending: (paint) => [h("circle", { cx: 6, cy: 6, r: 4.8, fill: "none", stroke: paint, "stroke-width": 1.4, "stroke-dasharray": "2.4 1.9" })],
  stopped: (paint) => [h("rect", { x: 1.6, y: 1.6, width: 8.8, height: 8.8, rx: 1.5, fill: "none", stroke: paint, "stroke-width": 1.6 })],
  lost: (paint) => [h("path", { d: "M6 .4 11.600 6 6 11.600 .4 6z", fill: paint })],
  warn: (paint) => [h("path", { d: "M6 .8 11.700 11H.3z", fill: paint }), h("path", { d: "M6 4.600v3M6 8.900v.7", stroke: "var(--panel)", "stroke-width": 1.4 })],
};

export const TONES = {
  QUEUED: "pending", RUNNING: "running", STOPPING: "stopped", SUCCEEDED: "succeeded", FAILED: "failed", STOPPED: "stopped",
  PENDING: "pending", ASSIGNED: "pending", LOST: "lost", SUSPENDED: "pending", RESCALING: "running", HELD: "pending",
  JOINING: "pending", READY: "succeeded", SILENT: "warn", DRAINING: "stopped", DRAINED: "stopped", QUARANTINED: "failed", LEFT: "stopped",
  ACTIVE: "running", PAUSED: "pending", DONE: "succeeded",
  PARTIALLY_DONE: "warn", ROLLED_BACK: "failed", TIMED_OUT: "failed", CANCELLED: "stopped", REJECTED: "failed",
};

export const toneOf = (state) => TONES[state] || "pending";
export const wordOf = (state) => state.toLowerCase().replaceAll("_", " ");

// What a job looks like and is called, on every page. One that succeeded may have failed tasks.
export function jobState(job) {
  const failed = job.state === "SUCCEEDED" ? (job.counts.FAILED || 0) + (job.counts.LOST || 0) : 0;
  return failed ? { tone: "warn", text: `succeeded, ${plural(failed, "task")} failed` } : { tone: toneOf(job.state), text: wordOf(job.state) };
}

// The same of a node. One that is ready may get no tasks, or have a device that is at fault.
export function nodeState(node) {
  if (node.state !== "READY") return { tone: toneOf(node.state), text: wordOf(node.state) };
  if (node.cordoned) return { tone: "stopped", text: "cordoned" };
  if (node.conditions?.length) return { tone: "warn", text: "ready, gets no tasks" };
  if (Object.keys(node.quarantine || {}).length || (node.usage?.gpus || []).some((gpu) => gpu.error)) return { tone: "warn", text: "ready, a device is at fault" };
  return { tone: "succeeded", text: "ready" };
}

export const mark = ({ tone, text }, shown = text) => h("span.state", shape(tone), shown);

export function shape(tone) {
  return h("svg", { class: `glyph tone-${tone}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, SHAPES[tone]("currentColor"));
}

export function stateMark(state, text) {
  return h("span.state", shape(toneOf(state)), text ?? wordOf(state));
}
