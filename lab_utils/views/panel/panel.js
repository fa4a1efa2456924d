// The browser's half of the panel: the ways to the stage, what is known of it, and what is shown.
//
// All text is text, never markup.

// The two ways from this page to the stage: past the kernel, or through it.
//
// A path has `name` (in words) and `ask(verb, given)`, which returns {state, events}; the browser's
// own path has `stream`, too. An error says in words what is wrong:
//   Refused   the stage has answered no; nothing else is wrong
//   Gone      nobody answers; what fixes it is said
//   NoPath    this page cannot reach the stage by itself

class Refused extends Error {}
class Gone extends Error {}
class NoPath extends Error {}

const ENDED =
  "The stage of this panel has ended. Run the notebook's first cell again, then this cell.";
const PROBE_MS = 5000;

// What each verb is in the stage's HTTP.
const REQUESTS = {
  state: () => ["GET", "state"],
  arm: (given, faults) => ["POST", "faults", { run: "", fault: faults[given.fault].fault }],
  disarm: (given) => ["DELETE", `faults/${encodeURIComponent(given.id)}`],
  reset: () => ["POST", "reset"],
};
for (const verb of ["kill", "pause", "resume", "stop", "start"]) {
  REQUESTS[verb] = (given) => ["POST", `brokers/${given.broker}/${verb}`];
}
for (const verb of ["cut", "hold", "heal"]) {
  REQUESTS[verb] = (given) => ["POST", `links/${given.link.join("/")}/${verb}`];
}

/** The address under which Jupyter passes on to a port, or null on a page that is not Jupyter's. */
function proxyAddress(port) {
  try {
    const config = JSON.parse(document.getElementById("jupyter-config-data").textContent);
    const base = new URL(config.baseUrl, location.href);
    // The token is for this page's own server and goes nowhere else.
    return base.origin === location.origin ? new URL(`proxy/${port}/`, base) : null;
  } catch {
    return null;
  }
}

function cookie(name) {
  const found = document.cookie.split("; ").find((one) => one.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}

/** From the browser through jupyter-server-proxy: acts while a cell is running. */
class BrowserPath {
  constructor(model) {
    this.name = "Connected past the kernel: the buttons also act while a cell is running.";
    this.model = model;
    this.address = proxyAddress(model.get("port"));
  }

  async ask(verb, given = {}, signal = undefined) {
    const [method, path, body] = REQUESTS[verb](given, this.model.get("faults"));
    const answer = await this.fetch(method, path, { body, signal });
    const said = await answer.json();
    const state = said.brokers ? said : await (await this.fetch("GET", "state", { signal })).json();
    return { state, events: [] };
  }

  /** Call `take` with each event after number `after`, until the stage ends the stream. */
  async stream(after, take, signal) {
    const accept = "text/event-stream";
    const answer = await this.fetch("GET", `events?after=${after}`, { accept, signal });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      take(messages.map(parsed).filter(Boolean));
    }
  }

  async fetch(method, path, { body, accept = "application/json", signal }) {
    if (!this.address) throw new NoPath();
    const headers = {
      Accept: accept,
      "X-Lab-Token": this.model.get("token"),
      "X-XSRFToken": cookie("_xsrf"),
    };
    const request = { method, headers, signal, cache: "no-store", redirect: "manual" };
    if (body) request.body = JSON.stringify(body);
    const answer = await fetch(new URL(path, this.address), request).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Gone("Jupyter does not answer. If ./lab up was ended, start it again.");
    });
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }
}

/** Whose no is this: the stage's, which speaks JSON, or Jupyter's? */
async function refusal(answer) {
  const said = await answer.json().catch(() => null);
  if (answer.status === 401 && said) return new Gone(ENDED);
  if (said && typeof said.kind === "string") return new Refused(said.error);
  return answer.status >= 500 ? new Gone(ENDED) : new NoPath();
}

/** One server-sent message as an event; null for a heartbeat. */
function parsed(message) {
  const lines = message.split("\n");
  const data = lines.find((line) => line.startsWith("data: "));
  const id = lines.find((line) => line.startsWith("id: "));
  return data ? { number: Number(id.slice(4)), ...JSON.parse(data.slice(6)) } : null;
}

/** Through the kernel: acts when the kernel is free. */
class KernelPath {
  constructor(model) {
    this.name = "Connected through the kernel: a click acts when the running cell is done.";
    this.model = model;
    this.waiting = new Map();
    this.asked = 0;
    this.seen = 0;
    this.hear = (said) => this.waiting.get(said?.number)?.(said);
    model.on("msg:custom", this.hear);
  }

  async ask(verb, given = {}) {
    const number = ++this.asked;
    // No bound: a cell may run for as long as it likes, and the feed says that we wait.
    const said = await new Promise((resolve) => {
      this.waiting.set(number, resolve);
      this.model.send({ number, verb, after: this.seen, ...given });
    });
    this.waiting.delete(number);
    if (said.error) throw new Refused(said.error);
    this.seen = said.state.seen;
    return said;
  }

  close() {
    this.model.off("msg:custom", this.hear);
  }
}

/** The way that works from this page; `said` is the state, if it has been asked for already. */
async function choosePath(model, signal) {
  const browser = new BrowserPath(model);
  try {
    const probe = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    return { path: browser, said: await browser.ask("state", {}, probe) };
  } catch (error) {
    if (signal.aborted || !(error instanceof NoPath)) throw error;
    return { path: new KernelPath(model), said: null };
  }
}

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
  if (kind === "healing") return "The run is over: the lab repairs the cluster.";
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

// What the panel says of one request, and of one armed fault. All text is text, never markup.

// Each fate has a mark of its own shape; the colour says it once more.
const REQUEST_FATES = {
  forwarded: ["→", "blue", "reached the broker"],
  held: ["■", "sky", "held, then reached the broker"],
  corrupted: ["✶", "purple", "reached it with a flipped byte"],
  dropped: ["✕", "vermillion", "never reached the broker"],
  replayed: ["▼", "purple", "a copy, sent by the proxy"],
};
const ANSWER_FATES = {
  forwarded: ["←", "green", "answered"],
  held: ["■", "sky", "answered late"],
  replaced: ["◆", "purple", "answered by the proxy"],
  dropped: ["✕", "vermillion", "answer lost"],
};

/** An element with attributes and children; a child that is a string is text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function mark([shape, colour]) {
  return element("span", { class: `mark ${colour}`, "aria-hidden": "true" }, shape);
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function progress({ fired, waiting }) {
  if (!fired) return "is armed, and has not fired yet";
  const times = fired === 1 ? "once" : `${fired} times`;
  return waiting ? `has fired ${times}, and is armed again` : `has fired ${times}`;
}

function requestRow({ requests, response }) {
  const [first] = requests;
  const client = first.actor || "a client";
  const cells = [
    element("td", { title: first.run ?? "" }, client),
    element("td", { title: first.topic ?? "" }, said(requests)),
    element("td", {}, ...fate(REQUEST_FATES, first.fate)),
    element("td", {}, ...answerOf(first, response)),
  ];
  return element("tr", {}, ...cells);
}

function emptyRow() {
  const cells = [1, 2, 3, 4].map(() => element("td", {}, "\u00a0"));
  return element("tr", { "aria-hidden": "true" }, ...cells);
}

/** What a request asks, and which order it carries. */
function said(requests) {
  const [first] = requests;
  const values = requests.map(({ value }) => value).filter((value) => value !== undefined);
  const records = requests.reduce((sum, request) => sum + (request.records ?? 0), 0);
  if (records === 1 && values.length === 1) return `${first.api} order ${values[0].slice(0, 24)}`;
  return records ? `${first.api} ${counted(records, "order")}` : first.api ?? "unreadable";
}

function fate(words, name) {
  const [shape, colour, text] = words[name] ?? ["?", "grey", name ?? ""];
  return [mark([shape, colour]), text];
}

function answerOf(request, response) {
  if (!response) return request.detail?.acks === "0" ? ["none asked for (acks=0)"] : ["none yet"];
  if (response.kind === "closed") return ["none: the connection is closed"];
  if (response.error && response.fate === "forwarded") {
    return [mark(["▲", "orange"]), response.error];
  }
  const [shape, text] = fate(ANSWER_FATES, response.fate);
  const more = response.error ? `: ${response.error}` : at(response.offset);
  return [shape, `${text}${response.fate === "dropped" ? "" : more}`];
}

function at(offset) {
  return offset === undefined ? "" : `, offset ${offset}`;
}

// Brokers and the links between them: a tile or a row each, with what can be done to it. One broker
// is a row. Several are a tile each, with their roles, and every pair has a link.

// Each state has a mark of its own shape; the colour says it once more. `doing` has what is said
// while a verb is done, and when it is.
const BROKER = {
  // Of each state its mark, its colour, and the verbs that fit it.
  states: {
    running: ["●", "green", "kill", "pause", "stop"],
    starting: ["◔", "sky", "kill"],
    paused: ["❚❚", "orange", "kill", "resume", "stop"],
    stopped: ["■", "grey", "start"],
    died: ["✕", "vermillion", "start"],
  },
  doing: {
    kill: ["Killing", "killed"],
    pause: ["Pausing", "paused"],
    resume: ["Resuming", "running again"],
    stop: ["Stopping", "stopped"],
    start: ["Starting", "running"],
  },
  subject: (name) => name.replace("b", "B"),
};
const LINK = {
  states: {
    open: ["━", "green", "cut", "hold"],
    held: ["❚❚", "orange", "cut", "heal"],
    slow: ["◔", "sky", "cut", "hold", "heal"],
    cut: ["✕", "vermillion", "hold", "heal"],
  },
  doing: {
    cut: ["Cutting", "cut: what was in flight is lost"],
    hold: ["Holding", "held: nothing is lost, nothing arrives"],
    heal: ["Healing", "whole again"],
  },
  subject: (name) => `The ${name}`,
};

/** What of the brokers is shown; no more, so that a tile is not drawn again without need. */
function brokersKey(brokers) {
  const shown = ({ id, state, leads, in_sync, replicates }) => [id, state, leads, in_sync, replicates];
  return JSON.stringify(brokers?.map(shown) ?? null);
}

function brokerTile(view, broker, several) {
  const { id, state } = broker;
  const role = several ? [element("span", { class: "role" }, roleOf(broker))] : [];
  return tile(view, BROKER, `broker ${id}`, state, { broker: id }, role);
}

/** How many partitions a broker leads, and in how many of its own it is in sync. */
function roleOf({ leads = 0, in_sync = 0, replicates = 0 }) {
  return `leads ${leads}, in the ISR of ${in_sync} of ${counted(replicates, "partition")}`;
}

/** Every pair of brokers, and what is the matter with the link between them. */
function linksBetween(state) {
  const ids = state?.brokers?.map(({ id }) => id) ?? [];
  const stopped = new Map((state?.links ?? []).map(({ brokers, state }) => [String(brokers), state]));
  const pairs = ids.flatMap((a, at) => ids.slice(at + 1).map((b) => [a, b]));
  return pairs.map((pair) => ({ pair, state: stopped.get(String(pair)) ?? "open" }));
}

function linkRow(view, { pair, state }) {
  return tile(view, LINK, `link ${pair.join("-")}`, state, { link: pair });
}

/** The name of a broker or a link, its state, and a button for each verb; `given` names it. */
function tile(view, kind, name, state, given, more = []) {
  const stated = element("span", { class: "state" }, mark(kind.states[state] ?? ["?", "grey"]), state);
  const title = element("span", { class: "name" }, name);
  const verbs = Object.keys(kind.doing).map((verb) => verbButton(view, kind, verb, name, state, given));
  return element("div", { role: "group", "aria-label": name }, title, stated, ...more, ...verbs);
}

/** A button that is never `disabled`: the keyboard would lose its place when a state changes. */
function verbButton(view, { states, doing, subject }, verb, name, state, given) {
  const [now, done] = doing[verb];
  const fits = (states[state] ?? []).slice(2).includes(verb);
  const act = () =>
    fits
      ? view.feed.click(verb, given, `${now} ${name}.`, `${subject(name)} is ${done}.`)
      : view.feed.say(`${subject(name)} is ${state}: there is nothing to ${verb}.`);
  const button = view.button(`${verb} ${name}`, `${verb} ${name}`, `${verb} ${name}`, act);
  button.setAttribute("aria-disabled", String(!fits));
  button.append(verb);
  return button;
}

// What the panel shows: brokers, faults, the latest requests. All text is text, never markup.

/** Write a text where it differs: what is rewritten is read aloud again. */
function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** Replace the content of a place when `key` has changed; the keyboard's place is kept. */
function replace(place, key, build) {
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.name;
  place.replaceChildren(...build());
  if (focused) (place.querySelector(`[data-name="${CSS.escape(focused)}"]`) ?? place).focus();
}

class View {
  constructor(feed, model, root) {
    [this.feed, this.model] = [feed, model];
    this.way = element("p", { class: "way", role: "status" });
    this.trouble = element("p", { class: "trouble", role: "alert" });
    this.news = element("p", { class: "news", role: "status" });
    this.brokers = element("div", { class: "brokers", tabindex: "-1" });
    this.links = element("div", { class: "brokers links", tabindex: "-1" });
    this.armed = element("ul", { class: "armed", tabindex: "-1", "aria-label": "Armed faults" });
    this.rows = element("tbody");
    this.draw = this.draw.bind(this);
    root.append(this.whole());
  }

  whole() {
    const lab = this.model.get("lab");
    const panel = element("section", { class: "lab-panel", "aria-label": `Panel of lab ${lab}` });
    for (const [name, value] of Object.entries(this.model.get("colours"))) {
      panel.style.setProperty(`--lab-${name}`, value);
    }
    const head = element("header", {}, element("strong", {}, `Lab ${lab}`), this.resetButton());
    const faults = element("div", { class: "faults" }, ...this.faultButtons());
    panel.append(
      head,
      this.way,
      this.trouble,
      this.group("Brokers", this.brokers),
      this.group("Links between brokers", this.links),
      this.group("Faults, for whichever client comes next", faults, this.armed),
      this.news,
      this.table(),
    );
    return panel;
  }

  group(name, ...children) {
    return element("fieldset", {}, element("legend", {}, name), ...children);
  }

  table() {
    const heads = ["client", "request", "on its way", "answer"];
    const head = element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)));
    const caption = element("caption", {}, "The latest requests, newest first");
    const table = element("table", {}, caption, element("thead", {}, head), this.rows);
    return element("div", { class: "requests" }, table);
  }

  button(name, label, title, onclick) {
    const attributes = { type: "button", "data-name": name, "aria-label": label, title, onclick };
    return element("button", attributes);
  }

  resetButton() {
    const title = "No fault is armed, every broker runs, every link is whole";
    const button = this.button("reset", "reset: disarm all faults, make every broker run", title, () =>
      this.feed.click("reset", {}, "Resetting.", "No fault is armed, every broker runs."),
    );
    button.append("reset");
    return button;
  }

  faultButtons() {
    return this.model.get("faults").map((fault, number) => {
      const title = `${fault.code}: ${fault.about}`;
      const button = this.button(fault.code, `${fault.words}, ${fault.code}`, title, () =>
        this.arm(fault, number),
      );
      button.append(element("span", {}, fault.words), element("code", {}, fault.code));
      return button;
    });
  }

  arm(fault, number) {
    const same = this.groups().find((group) => group.run === "" && group.code === fault.code);
    if (same?.waiting) {
      this.feed.say(`${fault.code} is armed already, and waits for its request.`);
    } else {
      const armed = `${fault.code} is armed, and waits for its request.`;
      this.feed.click("arm", { fault: number }, `Arming ${fault.code}.`, armed);
    }
  }

  /** Draw at the next frame, however many events come before it. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    write(this.way, this.feed.way);
    write(this.trouble, this.feed.trouble);
    this.trouble.hidden = !this.feed.trouble;
    write(this.news, this.feed.news);
    this.drawBrokers(this.feed.state?.brokers);
    this.drawArmed();
    const rows = [...this.feed.requests.values()].reverse();
    this.rows.replaceChildren(...rows.map((row) => requestRow(row)));
    const missing = Math.max(0, REQUESTS_SHOWN - rows.length);
    for (let number = 0; number < missing; number++) this.rows.append(emptyRow());
  }

  drawBrokers(brokers) {
    const several = (brokers?.length ?? 0) > 1;
    this.brokers.classList.toggle("tiles", several);
    replace(this.brokers, brokersKey(brokers), () =>
      brokers ? brokers.map((broker) => brokerTile(this, broker, several)) : ["not known"],
    );
    const links = linksBetween(this.feed.state);
    this.links.parentElement.hidden = links.length === 0;
    replace(this.links, JSON.stringify(links), () => links.map((link) => linkRow(this, link)));
  }

  /** Equal faults of one run, counted together. */
  groups() {
    const groups = new Map();
    for (const { id, run, fault, code, fired } of this.feed.state?.faults ?? []) {
      const key = JSON.stringify([run, code]);
      const group = groups.get(key) ?? { run, code, ids: [], fired: 0, waiting: 0 };
      group.ids.push(id);
      group.fired += fired;
      group.waiting += fired && fault.once ? 0 : 1;
      groups.set(key, group);
    }
    return [...groups.values()];
  }

  drawArmed() {
    const groups = this.groups();
    const none = this.feed.state ? "none armed" : "not known";
    replace(this.armed, JSON.stringify([none, groups]), () =>
      groups.length ? groups.map((group) => this.armedRow(group)) : [element("li", {}, none)],
    );
  }

  armedRow(group) {
    const { code } = group;
    const colour = group.fired ? ["✓", "vermillion"] : ["◇", "blue"];
    const whose = group.run ? ` of run ${group.run}` : "";
    const row = element("li", {}, mark(colour), element("code", {}, code), `${whose} ${progress(group)}`);
    if (!group.run) row.append(" ", this.disarmButton(code, group));
    return row;
  }

  disarmButton(code, { ids, waiting }) {
    const word = waiting ? "disarm" : "clear";
    const done = waiting ? `${code} is disarmed.` : `${code} is off the list.`;
    const button = this.button(`${word} ${code}`, `${word} ${code}`, "take it off the list", async () => {
      for (const id of ids) await this.feed.click("disarm", { id }, `One moment: ${code}.`, done);
    });
    button.append(word);
    return button;
  }
}

export default () => {
  let feed;
  return {
    initialize({ model, signal }) {
      feed = new Feed(model);
      signal.addEventListener("abort", () => feed.stop());
    },
    render({ model, el, signal }) {
      const view = new View(feed, model, el);
      feed.show(view.draw, signal);
    },
  };
};
