// What a reader chose, kept in this browser: columns, orders, what colours mean.

const PREFIX = "grass-";

export function recall(name, otherwise) {
  try { return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise; } catch { return otherwise; } // storage is switched off, or another program wrote it
}

export function keep(name, value) {
  try { localStorage.setItem(PREFIX + name, JSON.stringify(value)); } catch { /* the choice lasts as long as the page */ }
}
