// The explorer: choices on the left, a real run as a space–time diagram and its log on the right.
//
// It draws runs that are data (run_data.py) and asks a source for another one:
//
//   source.ask(choice, tell)   a promise of a run; `tell(words)` says what is going on meanwhile
//   source.hear(tell)          calls tell(words) when the source itself has news, if it ever does
//   source.isRecord            true if the same choice always gives the same run
//
// In JupyterLab the source is the kernel; `recorded(runs)` is one that needs nobody. All text is
// text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 30; // pixels from a step to the next
const SLOPE = 11; // how far an arrow falls on its way
const TOP = 18;
const HEAD = 26; // the names of the lanes
const GAP = 16; // more, where the wait was long
const GAP_MS = 20;
const LETTER = 6.7;
const LABEL_LEFT = 0.62; // a mark further to the right has its label on its left
const TIME = 52; // the column of milliseconds
const KEPT = 12; // earlier runs
const WIDE = 860;
const PATIENCE_MS = 1500; // a kernel that has not begun by then is busy

const RUNNING = "A run is being made: a real client, a real broker.";
const BUSY =
  "The kernel is busy: the run begins when the running cell is done. " +
  "If the kernel was restarted, run the notebook's first cell, then this cell.";
const ENDED =
  "The kernel of this explorer has ended or was restarted. " +
  "Run the notebook's first cell, then this cell. The runs below stay.";
const STARTING = "The first run is being made.";
const AGAIN = "This run proves nothing. Press “Run again”, or change a choice.";
const NOT_RECORDED = "This choice was not recorded. Choose another one.";

// ------------------------------------------------------------------------------------ the sources

/** A source of recorded runs: the one whose choice is the same, or a sentence that there is none. */
export function recorded(runs) {
  const key = (choice) => JSON.stringify(Object.entries(choice).sort());
  const found = new Map(runs.map((run) => [key(run.choice), run]));
  return {
    isRecord: true,
    ask: async (choice) => {
      const run = found.get(key(choice));
      if (!run) throw new Error(NOT_RECORDED);
      return run;
    },
  };
}

/** The kernel behind a widget: it performs the run, and answers when it is done. */
function kernelSource(model, life) {
  const waiting = new Map();
  const listeners = new Set();
  let asked = 0;
  const heard = (said) => {
    if (said?.news) listeners.forEach((tell) => tell(said.news));
    waiting.get(said?.number)?.(said);
  };
  model.on("msg:custom", heard);
  life?.addEventListener("abort", () => model.off("msg:custom", heard));
  return {
    hear: (tell, until) => {
      listeners.add(tell);
      until?.addEventListener("abort", () => listeners.delete(tell));
    },
    ask: async (choice, tell) => {
      const number = ++asked;
      const busy = setTimeout(() => tell(BUSY), PATIENCE_MS);
      try {
        return await new Promise((resolve, reject) => {
          waiting.set(number, (said) => {
            clearTimeout(busy);
            if (said.begun) tell(RUNNING);
            else if (said.error) reject(new Error(said.error));
            else resolve(said.run);
          });
          try {
            model.send({ number, choice });
          } catch {
            reject(new Error(ENDED)); // its comm is closed
          }
        });
      } finally {
        clearTimeout(busy);
        waiting.delete(number);
      }
    },
  };
}

// ----------------------------------------------------------------------------------- small helpers

function h(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((it) => it !== null && it !== undefined));
  return made;
}

function s(tag, given = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const colour = (style) => `light-dark(${style.colour}, ${style.dark})`;
const short = (text, px) => {
  const room = Math.max(2, Math.floor(px / LETTER));
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
};
const number = (text) => Number(String(text).replaceAll(",", ""));

// ------------------------------------------------------------------------------------- the diagram

/** Where each step of a run is drawn: its height, and the height of the whole. */
function heights(run, row = ROW, gap = GAP) {
  let y = row === ROW ? TOP : 4;
  let before = 0;
  const ys = run.steps.map((step, at) => {
    const ms = step.ms === "" ? before : number(step.ms);
    if (at && ms - before >= GAP_MS) y += gap;
    before = ms;
    const here = y;
    y += row;
    return here;
  });
  return { ys, height: y };
}

/**
 * The space–time diagram of a run: the names of the lanes, and the diagram, as two SVGs.
 * `pick` is called with the number of a clicked step.
 */
function diagram(run, styles, width, pick) {
  const { ys, height } = heights(run);
  const grown = growth(run);
  const lanes = [...run.lanes, ...(grown.some((each) => each.log.length) ? ["log"] : [])];
  const apart = (width - TIME - 4) / lanes.length;
  const x = (lane) => TIME + apart * (lane + 0.5);
  // Names that do not fit beside each other stand in two rows.
  const rows = lanes.some((name) => name.length * (LETTER + 1.4) > apart) ? 2 : 1;
  const high = HEAD + 17 * (rows - 1);
  const heading = s("svg", { width, height: high, class: "heading", "aria-hidden": "true" });
  const root = s("svg", { width, height, role: "img", "aria-label": run.finding });
  lanes.forEach((name, lane) => {
    const y = 17 + 17 * (lane % rows);
    const text = s("text", { x: x(lane), y, class: "lane", "text-anchor": "middle" });
    text.textContent = short(name, apart * rows - 4);
    heading.append(text);
    root.append(...laneLines(run, lane, x(lane), ys, height));
  });
  const ms = s("text", { x: TIME - 10, y: 17, class: "ms", "text-anchor": "end" });
  ms.textContent = "ms";
  heading.append(ms);
  run.steps.forEach((step, at) => {
    const y = ys[at];
    const group = s("g", { class: "step", "data-step": at });
    group.append(s("rect", { class: "band", x: 0, y: y - 15, width, height: ROW - 1 }));
    const time = s("text", { x: TIME - 10, y: y + 4, class: "ms", "text-anchor": "end" });
    time.textContent = step.ms;
    group.append(time, ...drawn(step, styles.steps[step.style], x, y, ys, apart, width));
    const from = x(step.path.find((lane) => run.lanes[lane].startsWith("broker ")) ?? 0);
    const places = grown[at].log.map((text, each) => x(lanes.length - 1) + 26 * each);
    if (places.length && step.path.length > 1) {
      group.append(s("line", { x1: from, x2: places[0], y1: y, y2: y, class: "append" }));
    }
    grown[at].log.forEach((text, each) => group.append(...box(places[each], y, text, "log")));
    for (const [lane, text] of grown[at].lanes) {
      // A mark on this lane has its label on one side; the box takes the other.
      const isMark = step.path.length === 1 && step.path[0] === lane;
      const left = isMark && x(lane) < width * LABEL_LEFT;
      group.append(...box(x(lane) + (left ? -17 : 15), y, text, "copy"));
    }
    group.addEventListener("click", () => pick(at));
    root.append(group);
  });
  return [heading, root];
}

/** What each step has added: the values in the log, and those in the log of a broker's lane. */
function growth(run) {
  const grown = run.steps.map(() => ({ log: [], lanes: [] }));
  for (const row of run.log) {
    const lane = run.lanes.indexOf(row.name);
    const isLog = row.name.startsWith("log") && !run.log.some((it) => it.name.startsWith("broker "));
    if (lane < 0 && !isLog) continue;
    for (const cell of row.cells) {
      const [at, text, kind] = cell.states[0];
      if (at < 0 || kind === "marker" || !run.steps[at].path.length) continue;
      if (isLog) grown[at].log.push(text);
      else grown[at].lanes.push([lane, text]);
    }
  }
  // A log that grew by several at once is told by its last: the rows beside the diagram have all.
  grown.forEach((each) => { each.lanes = [...new Map(each.lanes)]; });
  return grown;
}

function box(x, y, value, kind) {
  const wide = Math.max(18, value.length * LETTER + 8);
  const text = s("text", { x, y: y + 4, "text-anchor": "middle", class: "boxed" });
  text.textContent = value;
  return [s("rect", { x: x - wide / 2, y: y - 9, width: wide, height: 18, rx: 2, class: `box ${kind}` }), text];
}

/** The line of a lane; dashed where what it stands for does not run. */
function laneLines(run, lane, x, ys, height) {
  const lines = [];
  let from = 0;
  let dead = false;
  const add = (to) => {
    lines.push(s("line", { x1: x, x2: x, y1: from, y2: to, class: dead ? "down" : "lifeline" }));
    from = to;
  };
  run.steps.forEach((step, at) => {
    const here = step.path.length === 1 && step.path[0] === lane;
    if (here && (step.style === "broken" || step.style === "whole")) {
      add(ys[at]);
      dead = step.style === "broken";
    }
  });
  add(height - 6);
  return lines;
}

/** One step: an arrow that crosses lanes, or a mark on one, with its label. */
function drawn(step, style, x, y, ys, apart, width) {
  if (step.path.length === 0) return [wide(step, y, width)];
  const paint = colour(style);
  const first = x(step.path[0]);
  const last = x(step.path.at(-1));
  if (step.path.length === 1) return marked(step, paint, style, first, y, apart, width);
  const parts = [];
  if (step.since !== undefined) {
    const from = ys[step.since] + SLOPE;
    parts.push(s("line", { x1: first, x2: first, y1: from, y2: y, class: "held" }));
  }
  const stops = style.symbol === "x";
  const line = {
    x1: first, y1: y, x2: last, y2: y + SLOPE, "stroke-width": style.width, class: "wire",
  };
  if (style.dash) line["stroke-dasharray"] = style.dash;
  const arrow = s("line", line);
  arrow.style.stroke = paint;
  parts.push(arrow);
  step.path.slice(1, -1).forEach((lane) => {
    const share = (x(lane) - first) / (last - first);
    const dot = s("circle", { cx: x(lane), cy: y + SLOPE * share, r: 3 });
    dot.style.fill = paint;
    parts.push(dot);
  });
  parts.push(...(stops ? cross(last, y + SLOPE, paint) : [head(first, last, y + SLOPE, paint)]));
  const right = last > first;
  const label = s("text", {
    x: first + (right ? 7 : -13), y: y - 3, "text-anchor": right ? "start" : "end", class: "label",
  });
  label.textContent = short(step.label, Math.abs(last - first) - 16);
  label.style.fill = paint;
  return [...parts, label];
}

function wide(step, y, width) {
  const text = s("text", { x: TIME, y: y + 4, class: "label over" });
  text.textContent = short(step.text, width - TIME);
  return text;
}

function head(from, to, y, paint) {
  const back = from < to ? -9 : 9;
  const made = s("path", { d: `M${to} ${y}l${back} -4.5v9z` });
  made.style.fill = paint;
  return made;
}

function cross(x, y, paint) {
  return [[-6, -6, 6, 6], [-6, 6, 6, -6]].map(([x1, y1, x2, y2]) => {
    const made = s("line", { x1: x + x1, y1: y + y1, x2: x + x2, y2: y + y2, "stroke-width": 2.8 });
    made.style.stroke = paint;
    return made;
  });
}

/** A mark on one lane, with its label where there is room. */
function marked(step, paint, style, x, y, apart, width) {
  const shapes = {
    circle: () => s("circle", { cx: x, cy: y, r: 5 }),
    ring: () => s("circle", { cx: x, cy: y, r: 4.5, class: "open" }),
    square: () => s("rect", { x: x - 5, y: y - 5, width: 10, height: 10 }),
    triangle: () => s("path", { d: `M${x} ${y - 6}l6 11h-12z` }),
    diamond: () => s("path", { d: `M${x} ${y - 7}l6 7l-6 7l-6 -7z` }),
  };
  const parts = style.symbol === "x" ? cross(x, y, paint) : [(shapes[style.symbol] ?? shapes.circle)()];
  parts.forEach((part) => {
    part.style[part.classList.contains("open") ? "stroke" : "fill"] = paint;
  });
  const right = x < width * LABEL_LEFT;
  const label = s("text", {
    x: x + (right ? 10 : -10), y: y + 4, "text-anchor": right ? "start" : "end", class: "label",
  });
  label.textContent = short(step.label, apart * 1.6);
  label.style.fill = paint;
  return [...parts, label];
}

/** A run at a glance: the arrows of its diagram, without a word. */
function thumbnail(run, styles) {
  const { ys: all, height } = heights(run, 7, 7);
  const ys = all.map((y) => y * Math.min(1, 108 / height));
  const width = 132;
  const x = (lane) => (width / run.lanes.length) * (lane + 0.5);
  const root = s("svg", { viewBox: `0 0 ${width} 112`, width, height: 112, "aria-hidden": "true" });
  run.lanes.forEach((_, lane) => {
    root.append(s("line", { x1: x(lane), x2: x(lane), y1: 0, y2: 112, class: "lifeline" }));
  });
  run.steps.forEach((step, at) => {
    if (!step.path.length) return;
    const style = styles.steps[step.style];
    const [from, to] = [x(step.path[0]), x(step.path.at(-1))];
    const part =
      from === to
        ? s("circle", { cx: from, cy: ys[at], r: style.symbol === "x" ? 3.6 : 1.8 })
        : s("line", { x1: from, x2: to, y1: ys[at], y2: ys[at] + 3, "stroke-width": 1.4 });
    part.style[from === to ? "fill" : "stroke"] = colour(style);
    root.append(part);
    if (from !== to && style.symbol === "x") root.append(...cross(to, ys[at] + 3, colour(style)));
  });
  return root;
}

// ------------------------------------------------------------------------------------------ the log

const stateAt = (cell, step) => cell.states.findLast((state) => state[0] <= step) ?? [-1, "", ""];
const FILLED = new Set(["square", "diamond", "star"]);
const looks = (style) => (FILLED.has(style.symbol) ? "full" : "open");

/** The rows of a run as a table, as they were at a step; what that step changed is lit. */
function logTable(run, styles, step) {
  const columns = 1 + Math.max(-1, ...run.log.flatMap((row) => row.cells.map((cell) => cell.at)));
  const table = h("table", { class: "log" });
  table.append(
    h("caption", {}, "The log, up to this step"),
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "offset"),
      ...Array.from({ length: columns }, (_, at) => h("th", { scope: "col" }, String(at))),
    )),
  );
  const body = h("tbody");
  for (const row of run.log) {
    const cells = new Map(row.cells.map((cell) => [cell.at, cell]));
    body.append(
      h("tr", {},
        h("th", { scope: "row" }, row.name),
        ...Array.from({ length: columns }, (_, at) => logCell(cells.get(at), styles, step)),
      ),
    );
  }
  table.append(body);
  return h("div", { class: "scrolls" }, table);
}

function logCell(cell, styles, step) {
  if (!cell) return h("td", { class: "none" });
  const [since, text, kind] = stateAt(cell, step);
  const style = styles.cells[kind];
  if (!style && cell.states.some((state) => state[2] === "pointer")) return h("td", { class: "none" });
  const made = h("td", {}, h("span", {}, text || (style ? "–" : "")));
  if (!style) return made;
  made.firstChild.title = style.name;
  made.style.setProperty("--c", colour(style));
  made.className = `${looks(style)} ${kind}`;
  if (since === step) made.classList.add("lit");
  return made;
}

/** What the marks of this run mean: those that it has, and no others. */
function legend(run, styles) {
  const steps = [...new Set(run.steps.filter((it) => it.path.length).map((it) => it.style))];
  const kinds = [...new Set(run.log.flatMap((row) => row.cells.flatMap((it) => it.states.map((x) => x[2]))))];
  const entries = [
    ...steps.map((name) => entry(styles.steps[name], false)),
    ...kinds.filter((name) => styles.cells[name]).map((name) => entry(styles.cells[name], name)),
  ];
  return h("ul", { class: "legend", "aria-label": "What the marks mean" }, ...entries);
}

function entry(style, cell) {
  const item = h("li");
  if (cell) {
    const mark = h("span", { class: `key ${looks(style)} ${cell}` });
    mark.style.setProperty("--c", colour(style));
    item.append(mark);
  } else {
    const mark = s("svg", { width: 26, height: 12, "aria-hidden": "true" });
    const isLine = style.symbol === "arrow" || style.width > 2.5 || style.dash;
    const paint = colour(style);
    if (isLine) {
      const line = s("line", { x1: 0, x2: 20, y1: 6, y2: 6, "stroke-width": Math.min(style.width, 3) });
      if (style.dash) line.setAttribute("stroke-dasharray", style.dash);
      line.style.stroke = paint;
      mark.append(line);
      if (style.symbol !== "square") mark.append(...(style.symbol === "x" ? cross(20, 6, paint) : [head(0, 25, 6, paint)]));
    } else {
      mark.append(...marked({ label: "" }, paint, style, 13, 6, 0, 99).slice(0, -1));
    }
    item.append(mark);
  }
  item.append(style.name);
  return item;
}

// ---------------------------------------------------------------------------- one run, step by step

/** The run that is shown: diagram, log, finding, scrubber, text and code. */
class Shown {
  constructor(styles) {
    this.styles = styles;
    this.picture = h("div", { class: "picture" });
    this.key = h("div");
    this.log = h("div", { class: "rows" });
    this.finding = h("p", { class: "finding", role: "status" });
    this.counts = h("p", { class: "counts" });
    this.scrub = h("input", { type: "range", min: 0, "aria-label": "Step of the run" });
    this.scrub.addEventListener("input", () => this.go(Number(this.scrub.value)));
    this.scrub.addEventListener("keydown", (event) => {
      // Time runs down the page, and a slider's value up.
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.go(this.step + by);
    });
    this.back = h("button", { type: "button", "aria-label": "Step back" }, "◀");
    this.on = h("button", { type: "button", "aria-label": "Step on" }, "▶");
    this.back.addEventListener("click", () => this.go(this.step - 1));
    this.on.addEventListener("click", () => this.go(this.step + 1));
    this.where = h("span", { class: "where" });
    this.said = h("p", { class: "said" });
    this.table = h("div", { class: "scrolls" });
    this.code = h("pre", { tabindex: 0, "aria-label": "The program of this run" });
    this.copy = h("button", { type: "button", class: "copier" }, "Copy");
    this.copy.addEventListener("click", () => this.copied());
    this.el = h("div", { class: "shown", hidden: true },
      h("div", { class: "scene" }, h("div", {}, this.picture, this.key), this.log),
      this.finding, this.counts,
      h("div", { class: "scrub" }, this.back, this.scrub, this.on, this.where),
      this.said,
      h("details", {}, h("summary", {}, "The code that does the same"), this.copy, this.code),
      h("details", {}, h("summary", {}, "The same as text"), this.table),
    );
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.picture);
  }

  show(run) {
    this.run = run;
    this.el.hidden = false;
    this.finding.textContent = run.finding;
    this.counts.textContent = run.run ? `Run ${run.run}: ${run.counts}.` : `${run.counts}.`;
    this.code.textContent = run.code;
    this.copy.parentElement.hidden = !run.code;
    this.scrub.max = run.steps.length - 1;
    this.table.replaceChildren(stepTable(run, (at) => this.go(at)));
    this.width = 0;
    this.fit();
    this.go(run.steps.length - 1);
    this.picture.scrollTop = 0;
  }

  /** Draw the diagram anew where the page has become wider or narrower. */
  fit() {
    const width = Math.floor(this.picture.clientWidth);
    if (!this.run || !width || width === this.width) return;
    this.width = width;
    this.picture.replaceChildren(...diagram(this.run, this.styles, width, (at) => this.go(at)));
    this.key.replaceChildren(legend(this.run, this.styles));
    this.light();
  }

  go(step) {
    const last = this.run.steps.length - 1;
    this.step = Math.max(0, Math.min(step, last));
    const { text, ms } = this.run.steps[this.step] ?? { text: "", ms: "" };
    this.scrub.value = this.step;
    this.scrub.setAttribute("aria-valuetext", text);
    this.where.textContent = `step ${this.step + 1} of ${last + 1}${ms === "" ? "" : `, ${ms} ms`}`;
    this.said.textContent = text;
    this.back.disabled = this.step === 0;
    this.on.disabled = this.step === last;
    this.log.replaceChildren(logTable(this.run, this.styles, this.step));
    this.light();
  }

  light() {
    for (const group of this.picture.querySelectorAll(".step")) {
      const at = Number(group.dataset.step);
      group.classList.toggle("now", at === this.step);
      group.classList.toggle("later", at > this.step);
    }
    for (const row of this.table.querySelectorAll("tbody tr")) {
      row.classList.toggle("now", Number(row.dataset.step) === this.step);
    }
    const box = this.picture;
    const now = box.querySelector(".step.now .band");
    if (now && box.scrollHeight > box.clientHeight) {
      const y = Number(now.getAttribute("y"));
      if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - 60 - HEAD) {
        box.scrollTop = y - box.clientHeight / 2;
      }
    }
  }

  async copied() {
    const done = await navigator.clipboard?.writeText(this.run.code).then(() => true, () => false);
    if (!done) getSelection().selectAllChildren(this.code);
    this.copy.textContent = done ? "Copied" : "Selected: copy it with the keyboard";
  }
}

function stepTable(run, pick) {
  const rows = run.steps.map((step, at) => {
    const lanes = step.path.map((lane) => run.lanes[lane]);
    const way = lanes.length > 1 ? `${lanes[0]} → ${lanes.at(-1)}` : (lanes[0] ?? "");
    const row = h("tr", { "data-step": at },
      h("th", { scope: "row" }, String(at + 1)), h("td", {}, step.ms), h("td", {}, way),
      h("td", { class: "text" }, step.text));
    row.addEventListener("click", () => pick(at));
    return row;
  });
  const heads = ["step", "ms", "where", "what"].map((it) => h("th", { scope: "col" }, it));
  return h("table", { class: "steps" },
    h("caption", {}, run.finding), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
}

// ------------------------------------------------------------------------------------- the explorer

/**
 * Show an explorer in `el`: an offer of choices, runs that were made, and a source of others.
 * A run that is made is added to `runs`.
 */
export function explore(el, { offer, styles, runs = [], source, signal, closed = "" }) {
  const shown = new Shown(styles);
  const made = runs;
  const controls = new Map();
  let running = false;
  let next = null;
  const status = h("p", { class: "status", role: "status" });
  const earlier = h("ul", { class: "earlier" });
  const again = source.isRecord ? null : h("button", { type: "button" }, "Run again");
  const root = h("section", {
    class: "lab-explorer", "aria-label": `Explorer: ${offer.title}`, "data-lm-suppress-shortcuts": "true",
  });
  const chosen = () => Object.fromEntries([...controls].map(([name, it]) => [name, it.value()]));
  const tell = (words) => { status.textContent = words; };

  async function ask() {
    next = chosen();
    if (running) return;
    running = true;
    root.setAttribute("aria-busy", "true");
    while (next) {
      const choice = next;
      next = null;
      if (!source.isRecord) tell(made.length ? RUNNING : STARTING);
      const slow = setTimeout(() => { if (offer.takes) tell(`${RUNNING} ${offer.takes}`); }, 1000);
      try {
        const run = await source.ask(choice, tell);
        if (!made.includes(run)) made.push(run);
        tell(again && run.outcomes.includes("inconclusive") ? AGAIN : "");
        if (!next) present(run);
      } catch (error) {
        tell(error.message);
      }
      clearTimeout(slow);
    }
    running = false;
    root.removeAttribute("aria-busy");
  }

  function present(run) {
    shown.show(run);
    const list = made.slice(-KEPT).reverse();
    earlier.replaceChildren(...list.map((it) => small(it, it === run)));
    earlier.parentElement.hidden = made.length < 2;
  }

  function small(run, isShown) {
    const words = offer.choices.map((it) => chosenWords(it, run.choice[it.name])).join(" · ");
    const button = h("button", { type: "button", "aria-pressed": String(isShown) },
      thumbnail(run, styles), strip(run, styles),
      h("span", { class: "chosen" }, words), h("span", { class: "what" }, run.finding));
    button.addEventListener("click", () => {
      Object.entries(run.choice).forEach(([name, option]) => controls.get(name)?.set(option));
      present(run);
    });
    return h("li", {}, button);
  }

  for (const choice of offer.choices) controls.set(choice.name, control(choice, ask));
  again?.addEventListener("click", ask);
  const form = h("div", { class: "choices", role: "group", "aria-label": "Choices" },
    ...[...controls.values()].map((it) => it.el), again);
  root.append(
    h("h3", {}, offer.title),
    h("div", { class: "body" }, form, h("div", { class: "result" }, status, shown.el)),
    h("div", { hidden: true }, h("h4", {}, "Runs so far, the latest first"), earlier),
  );
  el.append(root);
  const fit = new ResizeObserver(() => root.classList.toggle("wide", root.clientWidth >= WIDE));
  fit.observe(root);
  signal?.addEventListener("abort", () => { fit.disconnect(); shown.watch.disconnect(); });
  source.hear?.(tell, signal);
  if (made.length) {
    const last = made.at(-1);
    Object.entries(last.choice).forEach(([name, option]) => controls.get(name)?.set(option));
    present(last);
    tell(closed);
  } else {
    ask();
  }
}

/** What was chosen, as a few words. */
function chosenWords(choice, option) {
  if (choice.slider) return `at ${option}`;
  return choice.asks.endsWith("?") || option.length > 6 ? option : `${choice.asks} ${option}`;
}

/** The log of a run as one line of small squares, and behind it what is missing there. */
function strip(run, styles) {
  const made = h("span", { class: "strip" });
  for (const cell of run.log.filter((row) => row.glance).flatMap((row) => row.cells)) {
    const [, text, kind] = cell.states.at(-1);
    const style = styles.cells[kind];
    if (!style) continue;
    const each = h("span", { class: `${looks(style)} ${kind}` }, text);
    each.style.setProperty("--c", colour(style));
    made.append(each);
  }
  return made;
}

let groups = 0;

/** What a learner changes: a group of buttons, one of them chosen, or a slider. */
function control(choice, changed) {
  const box = h("fieldset", {}, h("legend", {}, choice.asks));
  const from = choice.options.indexOf(choice.default);
  if (choice.slider) {
    const slider = h("input", {
      type: "range", min: 0, max: choice.options.length - 1, value: from, "aria-label": choice.asks,
    });
    const value = () => choice.options[Number(slider.value)];
    const out = h("output", {}, value());
    const told = () => { out.textContent = value(); slider.setAttribute("aria-valuetext", value()); };
    slider.addEventListener("input", told);
    slider.addEventListener("change", changed);
    box.append(h("div", { class: "slider" }, slider, out));
    const set = (option) => { slider.value = choice.options.indexOf(option); told(); };
    return { el: box, value, set };
  }
  const name = `lab-choice-${++groups}`;
  const inputs = choice.options.map((option, at) => {
    const input = h("input", { type: "radio", name, value: option, checked: at === from });
    input.addEventListener("change", changed);
    box.append(h("label", {}, input, h("span", {}, option)));
    return input;
  });
  return {
    el: box,
    value: () => inputs.find((it) => it.checked).value,
    set: (option) => inputs.forEach((it) => { it.checked = it.value === option; }),
  };
}

// ---------------------------------------------------------------------------------------- a sweep

/** Show the table of a sweep in `el`: an outcome for each setting and position; a click its run. */
export function tabulate(el, { grid, styles, runs, signal }) {
  const shown = new Shown(styles);
  const root = h("section", {
    class: "lab-explorer", "aria-label": "Sweep", "data-lm-suppress-shortcuts": "true",
  });
  const positions = [...new Set(grid.faults.flatMap((fault) => fault.positions))];
  const columns = grid.faults.reduce((sum, fault) => sum + fault.positions.length, 0);
  const table = h("table", { class: "sweep" },
    h("caption", {}, "What became of the orders. Press a cell to see its run."),
    h("thead", {}, h("tr", {}, h("td"),
      ...positions.map((at) => h("th", { scope: "col" }, at ? `nth=${at}` : "")))));
  const pick = (run, cell) => {
    table.querySelectorAll("button").forEach((it) => it.setAttribute("aria-pressed", "false"));
    cell.setAttribute("aria-pressed", "true");
    shown.show(run);
  };
  const cell = (setting, fault, position, words, run) => {
    const style = styles.outcomes[words[0]];
    const button = h("button", { type: "button", "aria-pressed": "false", title: style.name,
      "aria-label": `${words.join(", ")}: ${setting}; ${fault}${position ? `, nth=${position}` : ""}` },
    h("b", { "aria-hidden": "true" }, style.symbol), " ", words.join(", "));
    button.style.setProperty("--c", colour(style));
    button.classList.toggle("right", words[0].endsWith(" once"));
    button.addEventListener("click", () => pick(run, button));
    return h("td", {}, button);
  };
  let before = 0;
  for (const fault of grid.faults) {
    const name = h("th", { scope: "rowgroup", colspan: positions.length + 1 }, fault.name);
    const rows = grid.settings.map((setting, row) => h("tr", {},
      h("th", { scope: "row" }, ...setting.split(/(?<=[.=])/).flatMap((part) => [part, h("wbr")])),
      ...positions.map((position) => {
        const at = fault.positions.indexOf(position);
        if (at < 0) return h("td");
        const words = grid.words[row][before + at];
        return cell(setting, fault.name, position, words, runs[row * columns + before + at]);
      })));
    table.append(h("tbody", {}, h("tr", {}, name), ...rows));
    before += fault.positions.length;
  }
  root.append(h("div", { class: "scrolls" }, table), shown.el);
  el.append(root);
  const fit = new ResizeObserver(() => root.classList.toggle("wide", root.clientWidth >= WIDE));
  fit.observe(root);
  signal?.addEventListener("abort", () => { fit.disconnect(); shown.watch.disconnect(); });
}

// ------------------------------------------------------------------------------------- the widget

export default () => {
  // Of one widget, for all its views: anywidget calls this function for each model.
  let source;
  let runs;
  return {
    initialize({ model, signal }) {
      source = kernelSource(model, signal);
      runs = [...(model.get("runs") ?? [])];
    },
    render({ model, el, signal }) {
      if (model.get("grid")) {
        const given = { grid: model.get("grid"), styles: model.get("styles"), runs: model.get("runs") };
        tabulate(el, { ...given, signal });
        return;
      }
      const names = ["offer", "styles", "closed"];
      const given = Object.fromEntries(names.map((name) => [name, model.get(name)]));
      explore(el, { ...given, runs, source, signal });
    },
  };
};
