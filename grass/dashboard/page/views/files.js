// Files of the share: what is in a folder, with downloads. A job's output is jobs/ID; the whole share is what tasks read.

import { h } from "../dom.js";
import { bytes, count, instant } from "../format.js";
import { cards, empty, panel } from "../parts.js";
import { ask, listFiles } from "../state.js";

const MOST = 1000;

export class FileList {
  // `changed` is called when there is something new to draw.
  constructor(id, path, changed) {
    this.id = id; this.changed = changed;
    this.path = path ?? `jobs/${id}`;
    this.entries = null; this.problem = ""; this.earlier = [];
    this.load();
    ask("earlier-runs", { job: id }).then((found) => { this.earlier = found; this.changed(); }, () => {}); // the head of the page says when the cluster is away
  }

  async load() {
    clearTimeout(this.timer);
    try { this.entries = await listFiles(this.path); this.problem = ""; } catch (error) { this.problem = error.message; }
    if (this.closed) return;
    this.changed();
    this.timer = setTimeout(() => this.load(), 15000);
  }

  draw() {
    return panel("Files", { key: "files", end: this.entries ? h("span.soft", this.entries.length > MOST ? `the first ${count(MOST)} of ${count(this.entries.length)}` : count(this.entries.length)) : null },
      h("div.body", crumbs(this.id, this.path), this.earlier.length ? h("p.note", "Tasks that were not run again have written into ", this.earlier.map((run, at) => [at ? ", " : "", folder(this.id, `jobs/${run}`, `jobs/${run}`)]), ".") : null),
      this.entries?.length ? this.table() : empty(this.problem ? this.explained() : this.entries ? "This folder is empty." : "Loading."));
  }

  explained() {
    return this.path === `jobs/${this.id}` && this.problem.includes("there is no") ? "This job has written no files into its output folder (GRASS_OUTPUT)." : this.problem;
  }

  table() {
    return cards(h("table", h("thead", h("tr", h("th", "Name"), h("th.num", "Size"), h("th.num", "Changed"), h("th", h("span.hidden", "Actions")))),
      h("tbody", this.entries.slice(0, MOST).map((each) => {
        const path = [this.path, each.name].filter(Boolean).join("/"), address = addressOf(path);
        const name = each.type === "folder" ? folder(this.id, path, `${each.name}/`) : each.type === "file" && address !== null ? h("a", { href: `#/jobs/${encodeURIComponent(this.id)}/file/${address}` }, each.name) : each.name;
        return h("tr", { "data-row": true, "data-key": each.name },
          h("td.main", name, each.type === "link" ? h("span.soft", " symbolic link") : null),
          h("td.num", each.type === "file" ? bytes(each.size) : h("span.none", "–")), h("td.num", instant(each.modified)),
          h("td.num.acts", each.type === "file" && address !== null ? h("a.button", { href: `/file?path=${encodeURIComponent(path)}`, download: each.name, "aria-label": `Download ${each.name}` }, "Download") : null));
      }))));
  }

  close() { this.closed = true; clearTimeout(this.timer); }
}

// The path of a file in an address, with the names of its folders. A name that is not text has none: the command line can
// still fetch its folder.
export function addressOf(path) {
  try { return path.split("/").map(encodeURIComponent).join("/"); } catch { return null; }
}

export function folder(id, path, text, chosen = false) {
  const address = addressOf(path);
  return address === null ? h("span", text) : h("a", { href: `#/jobs/${encodeURIComponent(id)}/files/${address || "."}`, "aria-current": chosen ? "page" : null }, text);
}

// The folders above a file or folder, each a link.
export function crumbs(id, path) {
  const parts = path.split("/").filter(Boolean);
  return h("nav.crumbs", { "aria-label": "Folder" }, folder(id, "", "share", !parts.length), parts.map((part, at) => [h("span.faint", " / "),
    at < parts.length - 1 ? folder(id, parts.slice(0, at + 1).join("/"), part) : h("span", { "aria-current": "page" }, part)]));
}
