// Numbers and times as text. Times are those of the master: `clock.offset` corrects the browser's clock.

export const clock = { offset: 0, now() { return Date.now() / 1000 + this.offset; } };

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function count(value) {
  return value.toLocaleString("en-US");
}

export function cores(thousandths) {
  const value = thousandths / 1000;
  return value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 2 : 1 });
}

// An amount of a resource in a specification.
export function amount(name, value) {
  return name === "cpu" || name === "gpu" ? cores(value) : name === "memory" || name === "disk" ? bytes(value) : String(value);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function ago(time) {
  if (!time) return "–";
  const seconds = clock.now() - time;
  return seconds < 2 ? "now" : `${duration(seconds)} ago`;
}

const two = (value) => String(value).padStart(2, "0");

// The name of this browser's time zone at a time, such as GMT+2: it changes with the season.
const zones = new Map();
export function zone(time = clock.now()) {
  const date = new Date(time * 1000), offset = date.getTimezoneOffset();
  if (!zones.has(offset)) zones.set(offset, new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(date).find((part) => part.type === "timeZoneName")?.value || "");
  return zones.get(offset);
}

// A time with its zone. `moment`: without it, where the zone stands beside.
export const instant = (time) => (time ? `${moment(time)} ${zone(time)}` : "–");

export function moment(time) {
  if (!time) return "–";
  const date = new Date(time * 1000), today = new Date(clock.now() * 1000);
  const hour = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === today.toDateString()) return hour;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${hour}`;
}

export function percent(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value)} %`;
}

export function notFinite(number) {
  return `${plural(number, "value")} ${number === 1 ? "was" : "were"} not finite (NaN or infinite)`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}
