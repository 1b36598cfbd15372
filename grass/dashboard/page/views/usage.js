// A set of charts of one node, job or task: one chart per unit. `show` takes what the server's question answers:
// {"charts": [{"title", "unit", "x", "series": [{"name", "values"}], "time", "along"}]}.

import { h } from "../dom.js";

export function usageCharts(key, Curves) {
  const element = h("div.charts", { "data-keep": `charts-${key}` });
  const charts = new Map();
  return {
    element,
    show({ charts: wanted }) {
      const names = new Set(wanted.map((each) => each.title));
      for (const [title, chart] of charts) if (!names.has(title)) { chart.close(); chart.element.remove(); charts.delete(title); }
      element.querySelector(":scope > p")?.remove();
      if (!wanted.length) this.fail("No figures yet.");
      for (const each of wanted) {
        if (!charts.has(each.title)) {
          const chart = new Curves(`${key}-${each.title}`, { title: each.title, unit: each.unit, time: each.time !== false, along: each.along, most: each.unit === "percent" ? 100 : undefined });
          charts.set(each.title, chart);
          element.append(chart.element);
        }
        charts.get(each.title).show(each);
      }
    },
    fail(message) {
      if (!charts.size) element.replaceChildren(h("p.soft", message));
    },
    redraw() { for (const chart of charts.values()) chart.redraw(); },
    close() { for (const chart of charts.values()) chart.close(); },
  };
}
