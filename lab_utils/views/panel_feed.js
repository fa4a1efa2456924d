// What the panel knows of its stage: its state, and the latest requests with their fate.
//
// One feed serves all views of a widget. It follows the stage while a view is shown, comes back
// after a trouble, and is told by each event when to look at the state again.

const REQUESTS_SHOWN = 8;
const REQUESTS_BEFORE = 100; // events that are looked through when the panel opens
const LOOK_MS = 2000; // a broker that has died says so only when asked
const KERNEL_LOOK_MS = 1000;
const PATIENCE_MS = 1500; // a kernel that takes longer is busy
const BUSY =
  "The kernel is busy: a click acts when the running cell is done. " +
  "If it was restarted, run the notebook's first cell and this cell again.";
const BACK_OFF_MS = [500, 1000, 2000, 4000, 8000];

class Feed {
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.state = null;
    this.requests = new Map();
    this.seen = null;
    this.way = "Looking for the stage.";
    this.trouble = "";
    this.news = "";
  }

  /** Follow the stage for this view, until the view is gone. */
  show(view, signal) {
    this.views.add(view);
    signal.addEventListener("abort", () => this.leave(view));
    if (this.views.size === 1) {
      this.life = new AbortController();
      this.follow(this.life.signal);
    }
    view();
  }

  leave(view) {
    this.views.delete(view);
    if (this.views.size === 0) this.stop();
  }

  stop() {
    this.life?.abort();
    this.path?.close?.();
    this.path = null;
  }

  /** Do what a button says; the answer and each trouble is shown in words. */
  async click(verb, given, doing, done) {
    this.say(doing);
    try {
      if (!this.path) throw new Gone(this.trouble || "There is no connection to the stage yet.");
      this.take(await this.path.ask(verb, given));
      // An event that came meanwhile is the later news: the fault has fired already.
      if (this.news === doing) this.say(done);
    } catch (error) {
      this.say(`Not done: ${error.message || "the stage does not answer."}`);
    }
  }

  say(news) {
    this.news = news;
    this.draw();
  }

  draw() {
    for (const view of this.views) view();
  }

  async follow(signal) {
    for (let failures = 0; !signal.aborted; ) {
      try {
        let { path, said } = await choosePath(this.model, signal);
        if (signal.aborted) return path.close?.();
        this.path = path;
        if (!said) said = await this.inquireOnce(path);
        [this.way, this.trouble, failures] = [path.name, "", 0];
        this.begin(said.state.seen);
        this.take(said);
        await (path.stream ? this.listen(path, signal) : this.inquire(path, signal));
      } catch (error) {
        if (signal.aborted) return;
        this.path?.close?.();
        [this.path, this.state] = [null, null];
        this.way = "Not connected.";
        this.trouble = error.message || "The stage does not answer.";
        this.draw();
      }
      await pause(BACK_OFF_MS[Math.min(failures++, BACK_OFF_MS.length - 1)], signal);
    }
  }

  /** Look back a little for requests; what fired before the panel was opened is no news. */
  begin(seen) {
    this.seen ??= Math.max(0, seen - REQUESTS_BEFORE);
    this.opened ??= seen;
  }

  /** Take each event as it comes, and look at the state when one says so, and now and then. */
  async listen(path, signal) {
    const over = new AbortController();
    const both = AbortSignal.any([signal, over.signal]);
    const looks = this.look(path, both);
    try {
      for (;;) {
        const stream = path.stream(this.seen, (events) => this.heard(events), both);
        stream.catch(() => null); // whichever fails first is the one that is told
        const began = Date.now();
        await Promise.race([stream, looks]);
        if (Date.now() - began < LOOK_MS) await pause(LOOK_MS, both);
      }
    } finally {
      looks.catch(() => null);
      over.abort();
    }
  }

  /** Look at the state, again and again; ends with an error when the stage does not answer. */
  async look(path, signal) {
    while (!signal.aborted) {
      const due = new Promise((resolve) => (this.lookNow = resolve));
      await Promise.race([due, pause(LOOK_MS, signal)]);
      if (!signal.aborted) this.take(await path.ask("state", {}, signal));
    }
  }

  heard(events) {
    this.take({ events });
    if (events.some(changesState)) this.lookNow?.();
  }

  /** Ask the kernel for everything, once a second. */
  async inquire(path, signal) {
    while (!signal.aborted) {
      await pause(KERNEL_LOOK_MS, signal);
      if (signal.aborted) return;
      this.take(await this.inquireOnce(path));
      this.way = path.name;
      this.draw();
    }
  }

  /** Ask the kernel for everything; say so when it is busy. */
  async inquireOnce(path) {
    const busy = setTimeout(() => {
      this.way = BUSY;
      this.draw();
    }, PATIENCE_MS);
    try {
      return await path.ask("state");
    } finally {
      clearTimeout(busy);
    }
  }

  take({ state, events = [] }) {
    if (state) this.state = state;
    for (const event of events) {
      if (event.number <= this.seen) continue;
      this.seen = event.number;
      this.fold(event);
    }
    this.draw();
  }

  /** Add one event to what is known. */
  fold(event) {
    if (event.number > this.opened) this.news = newsOf(event) || this.news;
    if (event.source !== "wire") return;
    const connection = event.detail?.connection;
    const key = `${connection} ${event.correlation_id}`;
    if (event.kind === "closed") {
      for (const row of this.requests.values()) {
        if (row.requests[0].detail?.connection === connection) row.response ??= event;
      }
    } else if (event.kind === "request") {
      const known = this.requests.get(key)?.requests ?? [];
      this.requests.set(key, { requests: [...known, event], response: null });
      for (const old of [...this.requests.keys()].slice(0, -REQUESTS_SHOWN)) {
        this.requests.delete(old);
      }
    } else if (event.kind === "response" && this.requests.has(key)) {
      const row = this.requests.get(key);
      if (!row.response?.error) row.response = event;
    }
  }
}

const BROKER_NEWS = {
  starting: "is starting",
  started: "is running",
  resumed: "is running again",
  paused: "is paused",
  stopped: "is stopped",
  killed: "is killed",
  died: "has died",
  power_cut: "has lost its power (a simulation)",
};
const LINK_NEWS = { link_cut: "is cut", link_held: "is held", link_slow: "is slow", link_open: "is whole again" };
// What a broker's log comes to while a run lasts is no news, and there is much of it.
const QUIET = new Set(["log_end", "watermark"]);

/** Does an event say that the state is another one? */
function changesState({ source, kind }) {
  return source === "fault" || (source === "broker" && !QUIET.has(kind));
}

/** What an event tells everybody; most tell nothing. */
function newsOf({ source, kind, actor, api, detail }) {
  if (source === "fault" && kind === "fired") {
    return `${actor}(${api ? JSON.stringify(api) : "…"}) has fired.`;
  }
  if (source !== "broker") return "";
  if (kind === "healing") return "The run is over: the lab mends what is broken.";
  if (LINK_NEWS[kind]) {
    return `The link ${(detail?.brokers ?? "").split(" ").join("-")} ${LINK_NEWS[kind]}.`;
  }
  return BROKER_NEWS[kind] ? `Broker ${actor.split("-").at(-1)} ${BROKER_NEWS[kind]}.` : "";
}

/** Wait so long, or until it is over. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
    signal.addEventListener("abort", end);
  });
}
