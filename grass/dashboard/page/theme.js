// Takes the secret of the link out of the address. Sets the theme before the first paint, so that a dark page never flashes white. "auto" follows the system.
(() => {
  if (location.pathname !== "/") history.replaceState(null, "", `/${location.hash}`);
  let chosen = "auto";
  try { chosen = localStorage.getItem("grass-theme") || "auto"; } catch { /* storage is switched off */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
    dispatchEvent(new Event("grass-theme"));
  };
  dark.addEventListener("change", apply);
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
