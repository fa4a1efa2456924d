// The brokers and the links between them: a tile or a row each, with what can be done to it.
//
// One broker is a row. Several are a tile each, with their roles, and every pair has a link.

// Each state has a mark of its own shape; the colour says it once more.
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
const LINK_MARKS = { open: ["━", "green"], held: ["❚❚", "orange"], slow: ["◔", "sky"], cut: ["✕", "vermillion"] };
const LINK_FITTING = { open: ["cut", "hold"], held: ["cut", "heal"], slow: ["cut", "hold", "heal"], cut: ["hold", "heal"] };
const LINK_DOING = {
  cut: ["Cutting", "cut: what was in flight is lost"],
  hold: ["Holding", "held: nothing is lost, nothing arrives"],
  heal: ["Healing", "whole again"],
};

/** What of the brokers is shown; no more, so that a tile is not drawn again without need. */
function brokersKey(brokers) {
  const shown = ({ id, state, leads, in_sync, replicates }) => [id, state, leads, in_sync, replicates];
  return JSON.stringify(brokers?.map(shown) ?? null);
}

function brokerTile(view, broker, several) {
  const { id, state } = broker;
  const stated = element("span", { class: "state" }, mark(BROKER_MARKS[state] ?? ["?", "grey"]), state);
  const name = element("span", { class: "name" }, `broker ${id}`);
  const role = several ? [element("span", { class: "role" }, roleOf(broker))] : [];
  const verbs = Object.keys(DOING).map((verb) => brokerButton(view, verb, id, state));
  return element("div", { role: "group", "aria-label": `broker ${id}` }, name, stated, ...role, ...verbs);
}

/** How many partitions a broker leads, and in how many of its own it is in sync. */
function roleOf({ leads = 0, in_sync = 0, replicates = 0 }) {
  return `leads ${leads}, in the ISR of ${in_sync} of ${counted(replicates, "partition")}`;
}

function brokerButton(view, verb, id, state) {
  const [doing, done] = DOING[verb];
  const fits = (FITTING[state] ?? []).includes(verb);
  const act = () =>
    fits
      ? view.feed.click(verb, { broker: id }, `${doing} broker ${id}.`, `Broker ${id} is ${done}.`)
      : view.feed.say(`Broker ${id} is ${state}: there is nothing to ${verb}.`);
  return verbButton(view, verb, `broker ${id}`, fits, act);
}

/** A button that is never `disabled`: the keyboard would lose its place when a state changes. */
function verbButton(view, verb, what, fits, act) {
  const button = view.button(`${verb} ${what}`, `${verb} ${what}`, `${verb} ${what}`, act);
  button.setAttribute("aria-disabled", String(!fits));
  button.append(verb);
  return button;
}

/** Every pair of brokers, and what is the matter with the link between them. */
function linksBetween(state) {
  const ids = state?.brokers?.map(({ id }) => id) ?? [];
  const stopped = new Map((state?.links ?? []).map(({ brokers, state }) => [String(brokers), state]));
  const pairs = ids.flatMap((a, at) => ids.slice(at + 1).map((b) => [a, b]));
  return pairs.map((pair) => ({ pair, state: stopped.get(String(pair)) ?? "open" }));
}

function linkRow(view, { pair, state }) {
  const name = `link ${pair.join("-")}`;
  const stated = element("span", { class: "state" }, mark(LINK_MARKS[state] ?? ["?", "grey"]), state);
  const verbs = Object.keys(LINK_DOING).map((verb) => linkButton(view, verb, pair, state));
  const title = element("span", { class: "name" }, name);
  return element("div", { role: "group", "aria-label": name }, title, stated, ...verbs);
}

function linkButton(view, verb, pair, state) {
  const [doing, done] = LINK_DOING[verb];
  const name = `link ${pair.join("-")}`;
  const fits = (LINK_FITTING[state] ?? []).includes(verb);
  const act = () =>
    fits
      ? view.feed.click(verb, { link: pair }, `${doing} ${name}.`, `The ${name} is ${done}.`)
      : view.feed.say(`The ${name} is ${state}: there is nothing to ${verb}.`);
  return verbButton(view, verb, name, fits, act);
}
