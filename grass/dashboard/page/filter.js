// The filter of tables and curves of runs: `lr=0.3 adam` means runs whose lr is 0.3, and that say adam anywhere.

// Returns whether a run is meant. `names`: columns; `cells`: its values in their order.
export function filterOf(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => (/^[^=]+=/.test(word) ? [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)] : [null, word]));
  return (names, cells) => words.every(([name, word]) => {
    if (name === null) return cells.some((cell) => cell !== null && String(cell).toLowerCase().includes(word));
    const at = names.findIndex((each) => each.toLowerCase() === name);
    return at >= 0 && String(cells[at]).toLowerCase() === word;
  });
}

// Names of figures of which the greatest is the best.
const MORE_IS_BETTER = /acc|reward|score|return|f1|auc|precision|recall|bleu|rouge|map|iou|psnr|ssim|success|speed|throughput|per_s/i;

export const moreIsBetter = (name) => MORE_IS_BETTER.test(name);

const collator = new Intl.Collator("en", { numeric: true });

// The order of two cells.
export const inOrder = (one, two) => (typeof one === "number" && typeof two === "number" ? one - two : collator.compare(String(one), String(two)));

export const naturally = (one, two) => collator.compare(one, two); // n2 before n10

export const short = (value) => String(Number(value.toPrecision(6)));

// "lr 0.3, seed 1"
export const described = (names, cells) => names.map((name, at) => (cells[at] === "" || cells[at] === null || cells[at] === undefined ? null : `${name} ${cells[at]}`)).filter(Boolean).join(", ");
