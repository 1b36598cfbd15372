// Draws the timeline and the charts of a report. `grass report` writes it, with all that it imports, into the report.

import { Curves } from "./charts.js";
import { h } from "./dom.js";
import { panel } from "./parts.js";
import { timeline } from "./views/timeline.js";
import { usageCharts } from "./views/usage.js";

const { job, tasks, attempts, count, groups } = JSON.parse(document.getElementById("data").textContent);
const place = document.getElementById("drawn");
if (tasks.length) place.append(timeline(job, tasks, attempts, { count, link: null }));
const drawn = groups.map(([title, charts]) => {
  const made = usageCharts(title, Curves);
  place.append(panel(title, {}, h("div.body", made.element)));
  made.show({ charts });
  return made;
});
addEventListener("grass-theme", () => { for (const each of drawn) each.redraw(); });
