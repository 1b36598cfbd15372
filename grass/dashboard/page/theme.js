// Sets the theme before the first paint, so that a dark page never flashes white. "auto" follows the system. Paper is light.
(() => {
  let chosen = "auto";
  try { chosen = localStorage.getItem("grass-theme") || "auto"; } catch { /* storage is switched off */ }
  const dark = matchMedia("(prefers-color-scheme: dark)"), print = matchMedia("print");
  const apply = () => {
    document.documentElement.dataset.theme = print.matches ? "light" : chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    dispatchEvent(new Event("grass-theme"));
  };
  for (const each of [dark, print]) each.addEventListener("change", apply);
  window.grassTheme = {
    get chosen() { return chosen; },
    choose(next) {
      chosen = next;
      try { localStorage.setItem("grass-theme", next); } catch { /* the choice lasts as long as the page */ }
      apply();
    },
  };
  apply();
})();
