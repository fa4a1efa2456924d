// The browser's half of the panel: the ways to the stage, what is known of it, and what is shown.
//
// It stands on diagram.js, which draws the requests. All text is text, never markup.

// The two ways from this page to the stage: past the kernel, or through it.
//
// A path has `name` (in words), how often it is asked, and `ask(request, after)`, which makes one of
// the stage's requests and returns the state and the events after that number. An error says in
// words what is wrong; by its kind:
//   Closed    the stage has ended; the kernel can start another one
//   Ended     the stage itself has said so: nobody needs to ask it again
//   NoPath    this page cannot reach the stage by itself

class Closed extends Error {}
class Ended extends Closed {}
class NoPath extends Error {}

const CLOSED = "This lab is closed: Kafka has ended.";
const NO_RUN =
  "No run to show: the lab was closed before this panel could see one. " +
  'Press "Start the lab again", then run a cell.';
const NO_KERNEL = "The kernel has ended. Run the notebook's first cell, then this cell.";
const PROBE_MS = 5000;
const STATE = ["GET", "state"];

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

/** What both ways have in common: after a request the state and the news are asked for. */
class Path {
  constructor(model) {
    this.model = model;
  }

  async ask([method, path, body], after, signal = undefined) {
    const said = await this.fetch(method, path, signal, body);
    const state = said.brokers ? said : await this.fetch(...STATE, signal);
    if (state.ending) throw new Ended(CLOSED);
    const from = after ?? Math.max(0, state.seen - EVENTS_BEFORE);
    const news = state.seen > from && (await this.fetch("GET", `events?after=${from}`, signal));
    return { state, events: news ? news.events : [] };
  }
}

/** From the browser through jupyter-server-proxy: acts while a cell is running. */
class BrowserPath extends Path {
  name = "Connected past the kernel: the buttons also act while a cell is running.";
  everyMs = 300;

  async fetch(method, path, signal, body) {
    const address = proxyAddress(this.model.get("port"));
    if (!address) throw new NoPath();
    const headers = {
      Accept: "application/json",
      "X-Lab-Token": this.model.get("token"),
      "X-XSRFToken": cookie("_xsrf"),
    };
    const request = { method, headers, signal, cache: "no-store", redirect: "manual" };
    if (body) request.body = JSON.stringify(body);
    const answer = await fetch(new URL(path, address), request).catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Error("Jupyter does not answer. If ./lab up was ended, start it again.");
    });
    if (!answer.ok) throw await refusal(answer);
    return answer.json();
  }
}

/** Whose no is this: the stage's, which speaks JSON, or Jupyter's? */
async function refusal(answer) {
  const said = await answer.json().catch(() => null);
  if (answer.status === 401 && said) return new Closed(CLOSED);
  if (said && typeof said.kind === "string") return new Error(said.error);
  return answer.status >= 500 ? new Closed(CLOSED) : new NoPath();
}

/** Through the kernel: acts when the kernel is free. */
class KernelPath extends Path {
  name = "Connected through the kernel: a click acts when the running cell is done.";
  everyMs = 1000;

  constructor(model, busy) {
    super(model);
    this.busy = busy;
  }

  /** No bound: `busy` says that we wait. */
  async fetch(method, path, _, body) {
    const question = { method, path: `/${path}`, body };
    const said = await askKernel(this.model, question, { busy: this.busy })
      .catch(() => { throw new Error(NO_KERNEL); });
    if (said.error) throw method === "GET" ? new Closed(CLOSED) : new Error(said.error);
    return said.said;
  }
}

/** The way that works from this page; `said` is the state, if it has been asked for already. */
async function choosePath(model, signal, busy) {
  const browser = new BrowserPath(model);
  try {
    const probe = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    return { path: browser, said: await browser.ask(STATE, null, probe) };
  } catch (error) {
    if (signal.aborted || !(error instanceof NoPath)) throw error;
    return { path: new KernelPath(model, busy), said: null };
  }
}

// What the panel knows of its stage: its state, and what happened in the latest run.
//
// One feed serves all views of a widget. It follows the stage while a view is shown, and comes back
// after a trouble.

// Of the latest run: what was broken stays, and of what went through the latest is shown.
const SHOWN = ["Produce", "Fetch", "OffsetCommit", "EndTxn"]; // and what a fault is about
const BROKEN_KEPT = 3;
const LATEST_KEPT = 4;
const WAITING_KEPT = 40; // for an answer
const EVENTS_BEFORE = 100; // events that are looked through when the panel opens
const BUSY =
  "The kernel is busy: a click acts when the running cell is done. " +
  "If it was restarted, run the notebook's first cell and this cell again.";
const RETRY_MS = 1000;
const CLOSED_MS = 15000; // a stage that has ended rarely comes back at its port; the button asks at once

class Feed {
  constructor(model) {
    this.model = model;
    this.views = new Set();
    this.way = "Looking for the stage.";
    this.trouble = "";
    this.news = "";
    this.forget();
    // The kernel has closed the lab, whose last run stays in view, or has started it again.
    model.on("change:port", () => this.forget());
    for (const change of ["change:port", "change:closed"]) {
      model.on(change, () => {
        this.stop();
        if (this.views.size) this.start();
      });
    }
  }

  /** A stage numbers its events from 1: what is known of the one before is nothing. */
  forget() {
    [this.state, this.seen, this.opened] = [null, null, null];
    this.beginRun("");
  }

  beginRun(run) {
    [this.run, this.rows] = [run, new Map()];
    [this.requests, this.others, this.broken, this.atLeast] = [0, 0, 0, ""];
  }

  /** Follow the stage for this view, until the view is gone. */
  show(view, signal) {
    this.views.add(view);
    signal.addEventListener("abort", () => this.views.delete(view) && !this.views.size && this.stop());
    if (this.views.size === 1) this.start();
    view();
  }

  start() {
    this.life = new AbortController();
    if (this.model.get("closed")) this.end(new Closed(CLOSED));
    else this.follow(this.life.signal);
  }

  stop() {
    this.life?.abort();
    this.path = null;
  }

  /** Do what a button says, in one or several requests; each trouble is shown in words. */
  async click(requests, doing, done) {
    this.say(doing);
    try {
      if (!this.path) throw new Error(this.trouble || "There is no connection to the stage yet.");
      for (const request of requests) this.take(await this.path.ask(request, this.seen));
      // An event that came meanwhile is the later news: the fault has fired already.
      if (this.news === doing) this.say(done);
    } catch (error) {
      this.say(`Not done: ${error.message || "the stage does not answer."}`);
    }
  }

  /** Let the kernel start the lab again; when it has, the port of the widget is another one. */
  async startAgain() {
    this.say("The lab is starting.");
    const said = await askKernel(this.model, { verb: "again" }, { busy: () => this.say(BUSY) })
      .catch(() => ({ error: NO_KERNEL }));
    this.say(said.error ? `Not done: ${said.error}` : "");
  }

  say(news) {
    this.news = news;
    this.draw();
  }

  draw() { this.views.forEach((view) => view()); }

  async follow(signal) {
    const busy = () => {
      this.way = BUSY;
      this.draw();
    };
    while (!signal.aborted) {
      try {
        let { path, said } = await choosePath(this.model, signal, busy);
        if (signal.aborted) return;
        this.path = path;
        for (; !signal.aborted; said = await path.ask(STATE, this.seen, signal)) {
          if (!said) continue; // nothing has been asked yet
          [this.way, this.trouble, this.isClosed] = [path.name, "", false];
          this.take(said);
          await pause(path.everyMs, signal);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.end(error);
        if (error instanceof Ended) return;
      }
      await pause(this.isClosed ? CLOSED_MS : RETRY_MS, signal);
    }
  }

  /** Nothing is known of the stage any more, and this is why. */
  end(error) {
    [this.path, this.state] = [null, null];
    [this.way, this.news] = ["Not connected.", ""];
    this.trouble = error.message || "The stage does not answer.";
    this.isClosed = error instanceof Closed;
    this.draw();
  }

  /** What fired before the panel was opened is no news. */
  take({ state, events }) {
    this.state = state;
    this.seen ??= Math.max(0, state.seen - EVENTS_BEFORE);
    this.opened ??= state.seen;
    // The stage keeps the latest events only.
    if (events.length && events[0].number > this.seen + 1) this.atLeast = "at least ";
    for (const event of events) {
      if (event.number <= this.seen) continue;
      this.seen = event.number;
      this.fold(event);
    }
    this.draw();
  }

  /** Add one event to what is known of the latest run. */
  fold(event) {
    if (event.number > this.opened) this.news = newsOf(event) || this.news;
    if (event.run && event.run !== this.run) this.beginRun(event.run);
    if (event.source === "wire") this.foldFrame(event);
    // Each open run is told of a broker; one telling is enough.
    else if (event.source === "broker" && !event.run && HAPPENED[event.kind]) {
      this.rows.set(`broker ${event.number}`, { happened: event });
    }
    this.prune();
  }

  foldFrame(event) {
    const connection = event.detail?.connection;
    const key = `${connection} ${event.correlation_id}`;
    const known = this.rows.get(key);
    if (event.kind === "request") {
      const requests = [...(known?.requests ?? []), event];
      const number = known?.number ?? (this.shows(event.api) ? ++this.requests : 0);
      if (!number && !known) this.others += 1;
      const again = this.isAgain(key, event);
      this.rows.set(key, { ...known, number, requests, response: null, again });
    } else if (event.kind === "response" && known && !known.response?.error) {
      known.response = event;
    }
    const row = this.rows.get(key);
    if (row && !row.isCounted && this.isBroken(row)) {
      row.isCounted = true;
      this.broken += 1;
    }
  }

  shows(api) {
    const named = [...this.model.get("faults"), ...(this.state?.faults ?? [])];
    return SHOWN.includes(api) || named.some(({ fault }) => fault.api === api);
  }

  /** Did it, other than most, not simply go through? */
  isBroken({ number, requests, response, happened }) {
    // What a consumer that closes does not wait for: nothing is broken when its answer comes.
    const left = this.model.get("left");
    if (response?.fate === "undelivered" && left.includes(requests?.[0].api)) return false;
    const fates = [...(requests ?? []), response ?? {}].map(({ fate }) => fate ?? "forwarded");
    return Boolean(happened || (number && (response?.error || fates.some((it) => it !== "forwarded"))));
  }

  /** Does a request carry what a broken one carried? */
  isAgain(key, { value, topic }) {
    const earlier = [...this.rows].filter(([other, row]) => other !== key && this.isBroken(row));
    return value !== undefined && earlier.some(([, { requests }]) =>
      requests?.some((it) => it.value === value && it.topic === topic));
  }

  /** Keep what was broken, what came again, and the latest of the rest. */
  prune() {
    const rows = [...this.rows];
    const last = (fits, many) => rows.filter(([, row]) => fits(row)).slice(-many);
    // A cut connection takes all that is in flight: its first stands for them.
    const cuts = new Map(last(isDropped, Infinity).reverse().map(([, row]) => [connectionOf(row), row]));
    const isCause = (row) => this.isBroken(row) && (!isDropped(row) || cuts.get(connectionOf(row)) === row);
    const broken = last(isCause, BROKEN_KEPT);
    const values = new Set(broken.flatMap(([, { requests }]) => requests?.map((it) => it.value) ?? []));
    const kept = new Map([
      ...broken,
      ...last(({ again, requests }) => again && values.has(requests[0].value), BROKEN_KEPT),
      ...last(({ number }) => number, LATEST_KEPT),
      ...last(({ number }) => number === 0, LATEST_KEPT),
    ]);
    const waiting = new Map(last(({ response }) => response === null, WAITING_KEPT));
    for (const [key, row] of rows) {
      row.isShown = kept.has(key);
      if (!row.isShown && !waiting.has(key)) this.rows.delete(key);
    }
  }
}

const isDropped = ({ requests, response }) => {
  const fates = [requests?.[0].fate, response?.fate];
  return fates.includes("dropped") || fates.includes("undelivered");
};
const connectionOf = ({ requests }) => requests?.[0].detail?.connection;

// What becomes of a broker or a link: how it is drawn, and what is said of it.
const HAPPENED = {
  started: ["whole", "is running"],
  resumed: ["whole", "is running again"],
  paused: ["broken", "is paused"],
  stopped: ["broken", "is stopped"],
  killed: ["broken", "is killed"],
  died: ["broken", "has died"],
  power_cut: ["broken", "has lost its power (a simulation)"],
  link_cut: ["broken", "is cut"],
  link_held: ["broken", "is held"],
  link_slow: ["broken", "is slow"],
  link_open: ["whole", "is open again"],
};
/** What an event tells everybody; most tell nothing. */
function newsOf({ source, kind, actor, api, detail }) {
  if (source === "fault" && kind === "fired") {
    return `${actor}(${api ? JSON.stringify(api) : "…"}) has fired.`;
  }
  if (source !== "broker") return "";
  if (kind === "healing") return "The run is over: the lab repairs the cluster.";
  const subject = kind.startsWith("link_")
    ? `The link ${(detail?.brokers ?? "").split(" ").join("-")}`
    : `Broker ${actor.split("-").at(-1)}`;
  return HAPPENED[kind] ? `${subject} ${HAPPENED[kind][1]}.` : "";
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

// The latest run as the data that diagram.js draws.

const REQUEST = {
  forwarded: "request", held: "held", corrupted: "corrupted", dropped: "lost", replayed: "replayed",
};

/** The lanes and steps of what is kept of a run; the others too, if `all`. */
function runOf(feed, styles, all) {
  const rows = [...feed.rows.values()].filter((row) => row.isShown && (all || row.number !== 0));
  const actors = [...new Set(rows.filter((row) => row.requests).map(({ requests }) => clientOf(requests)))];
  const ids = feed.state?.brokers?.map(({ id }) => `broker ${id}`) ?? [];
  const named = rows.flatMap(({ requests }) => (requests ? [brokerOf(requests)] : []));
  const lanes = [...(actors.length ? actors : ["client"]), "proxy", ...new Set([...ids, ...named])];
  const steps = rows.flatMap((row) => (row.happened ? happening(row.happened) : frames(row)));
  steps.sort((a, b) => a.at_ns - b.at_ns);
  const began = steps[0]?.at_ns ?? 0;
  const shown = withGaps(steps, all).map((step) => ({
    ...step,
    path: step.path.map((lane) => lanes.indexOf(lane)).filter((lane) => lane >= 0),
    ms: step.at_ns === undefined ? "" : ((step.at_ns - began) / 1e6).toFixed(1),
    text: step.text ?? sentence(step, styles.steps[step.style]),
  }));
  return { lanes, steps: shown, log: [], finding: findingOf(feed) };
}

/** The latest run in a few words, or why there is none: a stage that is not seen may have one. */
function findingOf({ run, atLeast, requests, broken, state, isClosed }) {
  if (!run) return state ? "No run yet" : isClosed ? NO_RUN : "";
  const many = `${atLeast}${requests} request${requests === 1 ? "" : "s"}`;
  return `Run ${run}: ${many}, ${broken || "none"} broken`;
}

/** Where requests that went through have been left out, a line says how many. */
function withGaps(steps, all) {
  let before = 0;
  return steps.flatMap((step) => {
    const left = step.number ? step.number - before - 1 : 0;
    before = Math.max(before, step.number ?? 0);
    const text = `… ${left} more`;
    return left > 0 && !all ? [{ style: "read", path: [], text }, step] : [step];
  });
}

const clientOf = ([first]) => first.actor || "a client";
const brokerOf = ([first]) => `broker ${first.detail?.broker ?? "?"}`;

/** The steps of one request: its way to the broker, and the answer's way back. */
function frames({ number, requests, response, again }) {
  const [first] = requests;
  const [client, broker] = [clientOf(requests), brokerOf(requests)];
  const name = `${again ? "\u21bb" : ""}${nameOf(requests)}`;
  const stopped = first.fate === "dropped";
  const style = stopped && response ? "replaced" : REQUEST[first.fate] ?? "request";
  const ends = first.fate === "replayed" ? ["proxy", broker] : [client, "proxy", broker];
  const path = stopped ? [client, "proxy"] : ends;
  const asked = { at_ns: first.at_ns, number, style, path, label: name };
  if (!response) return [asked];
  const place = response.offset === undefined ? "ok" : `@${response.offset}`;
  const answer = { at_ns: response.at_ns, label: response.error ?? place, of: name };
  const fates = {
    dropped: ["lost", [broker, "proxy"]],
    undelivered: ["undelivered", [broker, "proxy"]],
    replaced: ["replaced", ["proxy", client]],
    held: ["held", [broker, "proxy", client]],
  };
  const through = [response.error ? "error" : "answer", [...ends].reverse()];
  [answer.style, answer.path] = fates[response.fate] ?? through;
  return [asked, answer];
}

/** What a request carries, in few words. */
function nameOf(requests) {
  const [first] = requests;
  const values = requests.map(({ value }) => value).filter((value) => value !== undefined);
  const records = requests.reduce((sum, request) => sum + (request.records ?? 0), 0);
  if (records === 1 && values.length === 1) return `order ${values[0].slice(0, 24)}`;
  if (records) return `${records} orders`;
  return first.api === "OffsetCommit" && first.offset !== undefined
    ? `commit ${first.offset}` : first.api ?? "unreadable";
}

function happening({ at_ns, actor, kind, detail }) {
  const [style, words] = HAPPENED[kind];
  const ids = kind.startsWith("link_") ? (detail?.brokers ?? "").split(" ") : [actor.split("-").at(-1)];
  const path = ids.map((id) => `broker ${id}`);
  return [{ at_ns, style, path, label: kind.replace("link_", "").replace("_", " "),
    text: `${path.join(" – ")} ${words}` }];
}

function sentence({ path, label, of, style }, { name }) {
  const what = of && label !== of ? `answer to ${of}: ${label}` : label;
  return `${path[0]} → ${path.at(-1)}: ${what}${["request", "answer"].includes(style) ? "" : `, ${name}`}`;
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
    killed: ["✕", "vermillion", "start"],
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
    heal: ["Healing", "open again"],
  },
  subject: (name) => `The ${name}`,
};

const mark = ([shape, colour]) => h("span", { class: `mark ${colour}`, "aria-hidden": "true" }, shape);

/** What of the brokers is shown; no more, so that a tile is not drawn again without need. */
function brokersKey(brokers) {
  const shown = ({ id, state, leads, in_sync, replicates }) => [id, state, leads, in_sync, replicates];
  return JSON.stringify(brokers?.map(shown) ?? null);
}

function brokerTile(view, broker, several) {
  const { id, state } = broker;
  const role = several ? [h("span", { class: "role" }, roleOf(broker))] : [];
  return tile(view, BROKER, `broker ${id}`, state, `brokers/${id}`, role);
}

/** How many partitions a broker leads, and in how many of its own it is in sync. */
function roleOf({ leads = 0, in_sync = 0, replicates = 0 }) {
  return `leads ${leads}, in the ISR of ${in_sync} of ${replicates} partition${replicates === 1 ? "" : "s"}`;
}

/** Every pair of brokers, and what is the matter with the link between them. */
function linksBetween(state) {
  const ids = state?.brokers?.map(({ id }) => id) ?? [];
  const stopped = new Map((state?.links ?? []).map(({ brokers, state }) => [String(brokers), state]));
  const pairs = ids.flatMap((a, at) => ids.slice(at + 1).map((b) => [a, b]));
  return pairs.map((pair) => ({ pair, state: stopped.get(String(pair)) ?? "open" }));
}

/** The name of a broker or a link, its state, and a button for each verb; `path` is the stage's. */
function tile(view, { states, doing, subject }, name, state, path, more = []) {
  const [sign, paint, ...fitting] = states[state] ?? ["?", "grey"];
  const verbs = Object.entries(doing).map(([verb, [now, done]]) => {
    const fits = fitting.includes(verb);
    const act = () =>
      fits
        ? view.feed.click([["POST", `${path}/${verb}`]], `${now} ${name}.`, `${subject(name)} is ${done}.`)
        : view.feed.say(`${subject(name)} is ${state}: there is nothing to ${verb}.`);
    const button = view.button(`${verb} ${name}`, `${verb} ${name}`, `${verb} ${name}`, act, verb);
    // Never `disabled`: the keyboard would lose its place when a state changes.
    button.setAttribute("aria-disabled", String(!fits));
    return button;
  });
  const stated = h("span", { class: "state" }, mark([sign, paint]), state);
  const title = h("span", { class: "name" }, name);
  return h("div", { role: "group", "aria-label": name }, title, stated, ...more, ...verbs);
}

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

const group = (name, ...children) => h("fieldset", {}, h("legend", {}, name), ...children);

class View {
  constructor(feed, model, root, signal) {
    [this.feed, this.model, this.styles] = [feed, model, model.get("styles")];
    this.way = h("p", { class: "way", role: "status" });
    this.trouble = h("p", { role: "alert" });
    const again = "Start the lab again";
    this.again = this.button("again", again, "", () => feed.startAgain(), again);
    this.closed = h("div", { class: "trouble" }, this.trouble, this.again);
    this.news = h("p", { class: "news", role: "status" });
    this.brokers = h("div", { class: "brokers", tabindex: "-1" });
    this.links = h("div", { class: "brokers links", tabindex: "-1" });
    this.faults = h("div", { class: "faults", tabindex: "-1" });
    this.title = h("h4");
    this.picture = h("div", { class: "picture" });
    this.key = h("div");
    this.table = h("div", { class: "scrolls" });
    const asText = h("details", {}, h("summary", {}, "The same as text"), this.table);
    this.all = h("input", { type: "checkbox", onchange: () => this.drawNow() });
    this.others = h("label", { class: "others" }, this.all, h("span"));
    this.run = h("div", {}, this.picture, this.key, this.others, asText);
    this.draw = this.draw.bind(this);
    root.append(this.whole());
    const fit = new ResizeObserver(() => this.draw());
    fit.observe(this.picture);
    signal.addEventListener("abort", () => fit.disconnect());
  }

  whole() {
    const lab = this.model.get("lab");
    const panel = ownKeys({ class: "lab-explorer lab-panel", "aria-label": `Panel of lab ${lab}` });
    const reset = this.button("reset", "reset: disarm all faults, make every broker run",
      "No fault is armed, every broker runs, every link is open", () =>
        this.feed.click([["POST", "reset"]], "Resetting.", "No fault is armed, every broker runs."), "reset");
    panel.append(
      h("header", {}, h("strong", {}, `Lab ${lab}`), reset),
      this.way, this.closed,
      group("Brokers", this.brokers),
      group("Links between brokers", this.links),
      group("Faults for the next client: press to arm, press again to disarm", this.faults),
      this.news, this.title, this.run,
    );
    return panel;
  }

  button(name, label, title, onclick, ...children) {
    const given = { type: "button", "data-name": name, "aria-label": label, title, onclick };
    return h("button", given, ...children);
  }

  /** Draw at the next frame, however many events come before it. */
  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.drawNow();
    });
  }

  drawNow() {
    const { feed } = this;
    write(this.way, feed.way);
    write(this.trouble, feed.trouble);
    [this.closed.hidden, this.again.hidden] = [!feed.trouble, !feed.isClosed];
    for (const it of [this.brokers, this.faults]) it.parentElement.hidden = Boolean(feed.isClosed);
    write(this.news, feed.news);
    const brokers = feed.state?.brokers;
    const several = (brokers?.length ?? 0) > 1;
    this.brokers.classList.toggle("tiles", several);
    replace(this.brokers, brokersKey(brokers), () =>
      brokers ? brokers.map((broker) => brokerTile(this, broker, several)) : ["not known"]);
    const links = linksBetween(feed.state);
    this.links.parentElement.hidden = links.length === 0;
    replace(this.links, JSON.stringify(links), () => links.map(({ pair, state }) =>
      tile(this, LINK, `link ${pair.join("-")}`, state, `links/${pair.join("/")}`)));
    const faults = this.offered();
    replace(this.faults, JSON.stringify(faults), () => faults.map((fault) => this.faultButton(fault)));
    this.drawRun();
  }

  drawRun() {
    const run = runOf(this.feed, this.styles, this.all.checked);
    write(this.title, run.finding);
    this.run.hidden = !this.feed.state && !this.feed.rows.size;
    this.others.hidden = !this.feed.others;
    write(this.others.lastChild, `Also the ${this.feed.others} other requests (Metadata, ApiVersions, …)`);
    const width = Math.floor(this.picture.clientWidth);
    const key = `${width} ${JSON.stringify(run)}`;
    if (!width || key === this.drawn) return;
    this.drawn = key;
    const pick = (at) => this.feed.say(run.steps[at].text);
    this.picture.replaceChildren(...diagram(run, this.styles, width, pick));
    this.picture.scrollTop = 0;
    this.key.replaceChildren(legend(run, this.styles));
    this.table.replaceChildren(stepTable(run, pick));
  }

  /** The faults that have a button, then those of a run, each with what is known of it. */
  offered() {
    const offered = this.model.get("faults").map((button) =>
      ({ ...button, run: "", ids: [], fired: 0, waiting: 0 }));
    for (const { id, run, fault, code, fired } of this.feed.state?.faults ?? []) {
      let known = offered.find((it) => it.run === run && it.code === code);
      if (!known) offered.push((known = { words: "", code, run, ids: [], fired: 0, waiting: 0 }));
      known.ids.push(id);
      known.fired += fired;
      known.waiting += fired && fault.once ? 0 : 1;
    }
    return offered;
  }

  /** A button that arms its fault, and disarms it; what it has come to stands on it. */
  faultButton({ words, code, about = "", fault, run, ids, fired, waiting }) {
    const state = waiting ? "armed" : fired ? `fired ${fired === 1 ? "once" : `${fired} times`}` : "";
    const clear = ids.map((id) => ["DELETE", `faults/${encodeURIComponent(id)}`]);
    const act = () => {
      if (run) return this.feed.say(`${code} is of run ${run}, which disarms it when it ends.`);
      if (waiting || !fault) return this.feed.click(clear, `One moment: ${code}.`, `${code} is disarmed.`);
      const arm = ["POST", "faults", { run: "", fault }];
      return this.feed.click([...clear, arm], `Arming ${code}.`, `${code} is armed, and waits for its request.`);
    };
    const whose = run ? ` of run ${run}` : "";
    const sign = mark(waiting ? ["◆", "blue"] : ["✕", "vermillion"]);
    const button = this.button(`${code}${whose}`, `${words || code}, ${code}${whose}`, `${code}: ${about}`, act,
      words ? h("span", {}, words) : null, h("code", {}, `${code}${whose}`),
      state ? h("span", { class: "fate" }, sign, state) : null);
    button.setAttribute("aria-pressed", String(waiting > 0));
    button.classList.toggle("fired", Boolean(fired && !waiting));
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
      const view = new View(feed, model, el, signal);
      feed.show(view.draw, signal);
    },
  };
};
