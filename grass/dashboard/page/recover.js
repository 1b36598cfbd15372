// Takes the secret of the link out of the address. Loads again what the network lost: a browser drops requests when a network interface of its machine appears or goes.
// The server writes this script into the document, so that the script itself cannot be lost.
(() => {
  if (location.pathname !== "/") history.replaceState(null, "", `/${location.hash}`);
  const FIRST = 500, LONGEST = 30000; // milliseconds until the next try
  const kept = "grass-pause"; // how long the next load of the page waits, if it fails too
  let reloading = false, pauses = new Map();
  const read = () => { try { return Number(sessionStorage.getItem(kept)) || FIRST; } catch { return FIRST; } };
  const keep = (pause) => { try { sessionStorage.setItem(kept, pause); } catch { /* storage is switched off: the pause does not grow */ } };
  const after = (pause) => new Promise((resolve) => setTimeout(resolve, pause));

  addEventListener("error", ({ target }) => {
    if (target.tagName === "LINK" && target.rel === "stylesheet") again(target);
    else if (target.tagName === "SCRIPT" && target.type === "module") reload();
  }, true);
  addEventListener("load", () => {
    if (!document.getElementById("overlay")) reload(); // the document ends before its last element
    else if (!reloading) keep(FIRST);
  });

  async function again(sheet) {
    const pause = pauses.get(sheet.href) || FIRST;
    pauses.set(sheet.href, Math.min(2 * pause, LONGEST));
    await after(pause);
    sheet.replaceWith(sheet.cloneNode());
  }

  async function reload() {
    if (reloading) return;
    reloading = true;
    for (let pause = read(); ; pause = Math.min(2 * pause, LONGEST)) {
      keep(Math.min(2 * pause, LONGEST));
      await after(pause);
      try { await fetch("/me"); break; } catch { say("The program `grass dashboard` does not answer; it may have been ended. This page tries again."); }
    }
    location.reload(); // whoever answered says what is wrong, if it is not the network
  }

  window.grassReload = reload;

  function say(text) {
    const place = document.querySelector("main .empty");
    if (place) place.textContent = text;
  }
})();
