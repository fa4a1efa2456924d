// The two ways from this page to the stage: past the kernel, or through it.
//
// A path has `name` (in words) and `ask(verb, given)`, which returns {state, events}; the browser's
// own path has `stream`, too. An error says in words what is wrong:
//   Refused   the stage has answered no; nothing else is wrong
//   Gone      nobody answers; what mends it is said
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
