// What the panel says of one request, and of one armed fault. All text is text, never markup.

// Each fate has a mark of its own shape; the colour says it once more.
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
