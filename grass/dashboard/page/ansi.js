// Terminal output as text: colours and weights become classes, everything else of a terminal is left out.
// The result is text nodes and spans; markup in a line is text.

import { h } from "./dom.js";

const ESCAPE = /\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]/g;
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
const CUBE = [0, 95, 135, 175, 215, 255];

// What a terminal would show last on this line: a carriage return begins the line again.
function lastOfLine(text) {
  const parts = text.replace(/\r+$/, "").split("\r");
  return parts[parts.length - 1];
}

export function stripped(text) {
  return lastOfLine(text).replace(ESCAPE, "").replace(CONTROL, "");
}

export function rendered(text) {
  const line = lastOfLine(text), pieces = [];
  let style = {}, at = 0;
  const add = (piece) => { const clean = piece.replace(CONTROL, ""); if (clean) pieces.push(Object.keys(style).length ? span(style, clean) : document.createTextNode(clean)); };
  for (const match of line.matchAll(ESCAPE)) {
    add(line.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m") style = changed(style, match[1]);
  }
  add(line.slice(at));
  return pieces;
}

function span(style, text) {
  const element = h("span", { class: ["bold", "dim", "italic", "underline"].filter((name) => style[name]).map((name) => `a-${name}`).join(" ") }, text);
  if (typeof style.colour === "number") element.classList.add(`a-${style.colour % 8}`);
  else if (style.colour) element.style.color = style.colour;
  return element;
}

export function changed(style, codes) {
  const numbers = codes.split(/[;:]/).map((code) => Number(code || 0));
  let next = { ...style };
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) { delete next.bold; delete next.dim; }
    else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 90;
    else if (code === 39) delete next.colour;
    else if (code === 38 || code === 48) {
      const colour = numbers[at + 1] === 5 ? palette(numbers[at + 2]) : numbers[at + 1] === 2 ? rgb(numbers.slice(at + 2, at + 5)) : null;
      at += numbers[at + 1] === 5 ? 2 : 4;
      if (code === 38 && colour !== null) next.colour = colour;
    }
  }
  return next;
}

const rgb = (parts) => `rgb(${parts.map((part) => Math.max(0, Math.min(255, part || 0))).join(" ")})`;

function palette(number) {
  if (!(number >= 0 && number <= 255)) return null;
  if (number < 16) return number % 8;
  if (number >= 232) { const grey = 8 + (number - 232) * 10; return rgb([grey, grey, grey]); }
  const cube = number - 16;
  return rgb([CUBE[Math.floor(cube / 36)], CUBE[Math.floor(cube / 6) % 6], CUBE[cube % 6]]);
}
