// Makes elements, and changes those on the page into new ones without losing focus or scroll position.
// Text is always text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "circle", "rect", "line", "g", "text", "title", "polyline"]);

// h("a.link", {href: "#/"}, "text", child, [children]); null and false are left out.
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const svg = SVG_TAGS.has(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  if (props !== null && props !== undefined && (props instanceof Node || typeof props !== "object" || Array.isArray(props))) {
    children.unshift(props);
    props = null;
  }
  for (const [key, value] of Object.entries(props || {})) set(element, key, value);
  append(element, children);
  return element;
}

function set(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key === "class") element.setAttribute("class", `${element.getAttribute("class") || ""} ${value}`.trim());
  else if (key.startsWith("on")) element[key] = value;
  else if (key === "value") { element.value = value; element.setAttribute("value", value); }
  else if (key === "vars") for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
  else element.setAttribute(key, value === true ? "" : value);
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? standIn(child) : String(child));
  }
}

const kept = new WeakMap(); // stand-in → the element on the page

// An element with `data-keep` that is on the page must not leave it, also not for a moment: it would lose its focus and
// scroll positions. So a new tree gets a stand-in for it.
function standIn(node) {
  if (node.nodeType !== 1 || !node.isConnected || !node.hasAttribute("data-keep")) return node;
  const stand = node.cloneNode(false);
  kept.set(stand, node);
  return stand;
}

// Puts the elements themselves in the place of their stand-ins, in a tree that is new on the page.
function settle(tree) {
  if (tree.nodeType !== 1) return;
  for (const each of tree.querySelectorAll("[data-keep]")) if (kept.has(each)) each.replaceWith(kept.get(each));
}

// Changes the children of `root` into `trees`. An element with `data-keep` stays as it is while it is in the trees.
export function render(root, ...trees) {
  const wanted = document.createDocumentFragment();
  append(wanted, trees);
  morphChildren(root, wanted);
}

function keyOf(node) {
  return node.nodeType === 1 ? node.getAttribute("data-key") || node.getAttribute("data-keep") : null;
}

function morphChildren(old, wanted) {
  const keyed = new Map();
  for (const child of old.childNodes) { const key = keyOf(child); if (key) keyed.set(key, child); }
  let at = old.firstChild;
  for (const next of [...wanted.childNodes]) {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : at;
    if (!key && match && keyOf(match)) match = null;
    const real = kept.get(next) || next;
    if (match && sameKind(match, next) && (match === real || !isKept(next))) {
      if (match !== at) old.insertBefore(match, at);
      else at = at.nextSibling;
      keyed.delete(key);
      morph(match, next);
    } else {
      old.insertBefore(real, at);
      settle(real);
    }
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

const isKept = (node) => node.nodeType === 1 && node.hasAttribute("data-keep");

function sameKind(one, two) {
  return one.nodeType === two.nodeType && one.nodeName === two.nodeName;
}

const HANDLERS = ["onclick", "oninput", "onchange", "onkeydown", "onsubmit", "onpointermove", "onpointerleave", "onerror"];

function morph(old, wanted) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  if (isKept(old)) return;
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name) && (name !== "open" || old.nodeName !== "DETAILS")) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) === value) continue;
    if (name === "style") old.style.cssText = value; // the policy forbids to set the attribute
    else old.setAttribute(name, value);
  }
  for (const name of HANDLERS) if (old[name] !== wanted[name]) old[name] = wanted[name];
  if ("value" in old && old.nodeName !== "LI" && old !== document.activeElement && old.value !== wanted.value) old.value = wanted.value;
  if (old.nodeName === "INPUT" && old.type === "checkbox") old.checked = wanted.checked;
  morphChildren(old, wanted);
}
