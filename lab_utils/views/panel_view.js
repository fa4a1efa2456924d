// What the panel shows: brokers, faults, the latest requests. All text is text, never markup.

// Each state and fate has a mark of its own shape; the colour says it once more.
const BROKER_MARKS = {
  running: ["●", "green"],
  starting: ["◔", "sky"],
  paused: ["❚❚", "orange"],
  stopped: ["■", "grey"],
  died: ["✕", "vermillion"],
};
const FITTING = {
  running: ["kill", "pause", "stop"],
  starting: ["kill"],
  paused: ["kill", "resume", "stop"],
  stopped: ["start"],
  died: ["start"],
};
const DOING = {
  kill: ["Killing", "killed"],
  pause: ["Pausing", "paused"],
  resume: ["Resuming", "running again"],
  stop: ["Stopping", "stopped"],
  start: ["Starting", "running"],
};
const REQUEST_FATES = {
  forwarded: ["→", "blue", "reached the broker"],
  held: ["■", "sky", "held, then reached the broker"],
  corrupted: ["✶", "purple", "reached it with a flipped byte"],
  dropped: ["✕", "vermillion", "never reached the broker"],
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

/** Write a text where it differs: what is rewritten is read aloud again. */
function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function mark([shape, colour]) {
  return element("span", { class: `mark ${colour}`, "aria-hidden": "true" }, shape);
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
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
    const title = "No fault is armed, every broker runs";
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
    const same = this.groups().find((group) => group.run === "" && sameFault(group, fault));
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
    const key = JSON.stringify(brokers?.map(({ id, state }) => [id, state]) ?? null);
    replace(this.brokers, key, () =>
      brokers ? brokers.map((broker) => this.brokerRow(broker)) : ["not known"],
    );
  }

  brokerRow({ id, state }) {
    const said = element("span", { class: "state" }, mark(BROKER_MARKS[state] ?? ["?", "grey"]), state);
    const verbs = Object.keys(DOING).map((verb) => this.brokerButton(verb, id, state));
    const name = element("span", { class: "name" }, `broker ${id}`);
    return element("div", { role: "group", "aria-label": `broker ${id}` }, name, said, ...verbs);
  }

  brokerButton(verb, id, state) {
    const [doing, done] = DOING[verb];
    const fits = (FITTING[state] ?? []).includes(verb);
    const button = this.button(`${verb} ${id}`, `${verb} broker ${id}`, `${verb} broker ${id}`, () =>
      fits
        ? this.feed.click(verb, { broker: id }, `${doing} broker ${id}.`, `Broker ${id} is ${done}.`)
        : this.feed.say(`Broker ${id} is ${state}: there is nothing to ${verb}.`),
    );
    // Not `disabled`: the keyboard would lose its place when the state changes under it.
    button.setAttribute("aria-disabled", String(!fits));
    button.append(verb);
    return button;
  }

  /** Equal faults of one run, counted together. */
  groups() {
    const groups = new Map();
    for (const { id, run, fault, fired } of this.feed.state?.faults ?? []) {
      const key = JSON.stringify([run, fault]);
      const group = groups.get(key) ?? { run, fault, ids: [], fired: 0, waiting: 0 };
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
    const code = codeOf(group.fault, this.model.get("faults"));
    const colour = group.fired ? ["✓", "vermillion"] : ["◇", "blue"];
    const times = group.fired === 1 ? "once" : `${group.fired} times`;
    const fired = group.fired ? `has fired ${times}` : "has not fired yet";
    const waits = group.waiting ? ", is armed" : "";
    const whose = group.run ? ` for run ${group.run}` : "";
    const row = element("li", {}, mark(colour), element("code", {}, code), ` ${fired}${waits}${whose}`);
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

function sameFault(group, fault) {
  return codeOf(group.fault, [fault]) === fault.code;
}

/** The call of an armed fault: as its button has it, else from what it was made with. */
function codeOf(armed, faults) {
  const names = Object.keys(armed);
  const same = (fault) => names.every((name) => fault[name] === armed[name]);
  const known = faults.find(({ fault }) => same(fault));
  if (known) return known.code;
  const { fault, api, at, ...rest } = armed;
  const given = Object.entries(rest).filter(([, value]) => value !== null && value !== true);
  const others = given
    .filter(([name, value]) => name !== "nth" || value !== 1)
    .map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
  return `${fault}(${JSON.stringify(api ?? at)}${others.join("")})`;
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
