// Asks again and again while the page is shown. A hidden tab asks nothing; once it is shown again, it asks at once.

export class Poll {
  // `load` asks, and returns after how many seconds to ask again; null: not again until `now()` is called.
  constructor(load) {
    this.load = load;
    this.turn = 0;
    this.missed = false;
    this.onVisible = () => { if (this.missed && !document.hidden) this.now(); };
    document.addEventListener("visibilitychange", this.onVisible);
  }

  async now() {
    clearTimeout(this.timer);
    this.missed = false;
    const mine = ++this.turn;
    const seconds = await this.load();
    if (mine !== this.turn || seconds === null) return; // closed, or asked again meanwhile
    this.timer = setTimeout(() => { if (document.hidden) this.missed = true; else this.now(); }, seconds * 1000);
  }

  close() {
    this.turn += 1;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
  }
}
