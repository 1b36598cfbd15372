// One file of the share: its beginning as text or as a table, or the picture that it is. Whatever it contains is text or
// pixels here; the server decides which of its bytes may be shown as a picture.

import { h } from "../dom.js";
import { bytes, count, plural } from "../format.js";
import { empty, panel } from "../parts.js";
import { previewFile } from "../state.js";
import { addressOf, crumbs } from "./files.js";

export class FilePreview {
  // `changed` is called when there is something new to draw.
  constructor(id, path, changed) {
    this.id = id; this.path = path; this.name = path.split("/").pop();
    this.found = null; this.problem = "";
    previewFile(path).then((found) => { this.found = found; changed(); }, (error) => { this.problem = error.message; changed(); });
  }

  draw() {
    const { found } = this, address = addressOf(this.path);
    return panel(this.name, { key: "preview", label: `File ${this.name}`, end: [found ? h("span.soft", bytes(found.size)) : null, address === null ? null : h("a.button", { href: `/file?path=${encodeURIComponent(this.path)}`, download: this.name }, "Download")] },
      h("div.body", crumbs(this.id, this.path)), found ? this.content() : empty(this.problem || "Loading."));
  }

  content() {
    const { found } = this;
    if (found.kind === "picture") return h("div.body.picture", this.picture ||= this.image());
    if (found.kind === "table") return [this.table(found.rows), this.rest(`the first ${plural(found.rows.length - 1, "row")}`)];
    if (found.kind === "text") return [found.text ? h("div.source", { tabindex: 0, role: "region", "aria-label": `Text of ${this.name}` }, found.text) : empty("This file is empty."), this.rest(`the first ${bytes(found.text.length)}`)];
    return empty("This kind of file is not shown here; download it.");
  }

  image() {
    const image = h("img", { "data-keep": "picture", src: `/file?picture=1&path=${encodeURIComponent(this.path)}`, alt: this.name });
    image.onerror = () => { image.replaceWith(h("p.empty", "This picture cannot be shown here: it is too large or damaged. Download it.")); };
    return image;
  }

  rest(shown) { return this.found.more ? h("p.empty", `Only ${shown} of ${bytes(this.found.size)}; the download has all of it.`) : null; }

  table([head = [], ...rows]) {
    const number = (at) => rows.length > 0 && rows.every((row) => !row[at] || Number.isFinite(Number(row[at])));
    const numbers = head.map((_, at) => number(at));
    return h("div.window", { tabindex: 0, role: "region", "aria-label": `Table of ${this.name}, ${count(rows.length)} rows` }, h("table.plain", h("thead", h("tr", head.map((cell, at) => h("th", { class: numbers[at] ? "num" : "" }, cell)))),
      h("tbody", rows.map((row) => h("tr", head.map((_, at) => h("td", { class: numbers[at] ? "num" : "" }, row[at] ?? "")))))));
  }

  close() { /* nothing goes on */ }
}
