// The lines of one chart of many runs: which runs, smoothed, averaged, and at common steps. Pure.

const MOST_STEPS = 1024; // of a chart; with more, those that follow each other share one

// "each run", or the mean of runs that differ only in some parameters.
export const EACH = "", COLOUR = "*";

// `runs`: [{key, label, values, steps, points}]. Returns {x, lines: [{key, label, value, runs, y, low, high}]}; `value`: that of
// the parameter `colour`. `over`: EACH; a parameter over which to average; or COLOUR, over all but the one of the colour.
export function linesOf(runs, { parameters, colour, over, smooth }) {
  const { x, place } = axisOf(runs.flatMap((run) => run.steps));
  const groups = new Map();
  for (const run of runs) {
    const kept = over === EACH ? null : parameters.filter((name) => (over === COLOUR ? name === colour : name !== over));
    const key = kept ? JSON.stringify(kept.map((name) => run.values[name] ?? "")) : run.key;
    const label = kept ? kept.map((name) => `${name} ${run.values[name] ?? "–"}`).join(", ") || "all runs" : run.label;
    if (!groups.has(key)) groups.set(key, { key, label, value: run.values[colour] ?? "", runs: [] });
    groups.get(key).runs.push(run);
  }
  const lines = [...groups.values()].map((group) => {
    const curves = group.runs.map((run) => placed(run.steps, smoothed(run.points, smooth), x.length, place));
    return { ...group, ...(over === EACH ? { y: curves[0], low: null, high: null } : band(curves.map((curve) => filled(curve, x)))) };
  });
  return { x, lines };
}

// The steps of all curves, and the position of each. Too many are put into parts of equal length.
function axisOf(steps) {
  const all = [...new Set(steps)].sort((one, two) => one - two);
  if (all.length <= MOST_STEPS) {
    const known = new Map(all.map((step, at) => [step, at]));
    return { x: all, place: (step) => known.get(step) };
  }
  const [low, high] = [all[0], all[all.length - 1]], part = (high - low) / MOST_STEPS;
  return { x: [...Array(MOST_STEPS)].map((_, at) => low + (at + 0.5) * part), place: (step) => Math.min(MOST_STEPS - 1, Math.floor((step - low) / part)) };
}

// A moving average in which older points count less and less, as TensorBoard's; `weight` from 0 (none) to below 1.
export function smoothed(points, weight) {
  if (!weight) return points;
  let sum = 0, share = 1;
  return points.map((value) => { sum = sum * weight + value * (1 - weight); share *= weight; return sum / (1 - share); });
}

function placed(steps, points, length, place) {
  const sums = Array(length).fill(null), numbers = new Uint32Array(length);
  steps.forEach((step, at) => { const where = place(step); sums[where] = (sums[where] ?? 0) + points[at]; numbers[where] += 1; });
  return sums.map((sum, at) => (numbers[at] > 1 ? sum / numbers[at] : sum));
}

// Between its points a curve is a straight line, so that curves with other steps can be averaged.
function filled(curve, x) {
  const whole = [...curve];
  let before = -1;
  curve.forEach((value, at) => {
    if (value === null) return;
    for (let gap = before + 1; before >= 0 && gap < at; gap += 1) whole[gap] = curve[before] + ((value - curve[before]) * (x[gap] - x[before])) / (x[at] - x[before]);
    before = at;
  });
  return whole;
}

// The mean, the least and the greatest of curves.
function band(curves) {
  const y = [], low = [], high = [];
  for (let at = 0; at < (curves[0]?.length || 0); at += 1) {
    let sum = 0, number = 0, least = Infinity, most = -Infinity;
    for (const curve of curves) { const value = curve[at]; if (value !== null) { sum += value; number += 1; least = Math.min(least, value); most = Math.max(most, value); } }
    y.push(number ? sum / number : null); low.push(number ? least : null); high.push(number ? most : null);
  }
  return { y, low, high };
}
