// A space–time diagram: lanes from left to right, time downwards, an arrow for each frame.
//
// It draws a run that is data (run_data.py): its lanes, its steps, and what a step added to a log.
// The explorer and the panel stand on it. All text is text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const ROW = 30; // pixels from a step to the next
const SLOPE = 11; // how far an arrow falls on its way
const TOP = 18;
const HEAD = 26; // the names of the lanes
const GAP = 16; // more, where the wait was long
const GAP_MS = 20;
const LETTER = 6.7;
const BOLD = 8.1;
const LABEL_LEFT = 0.62; // a mark further to the right has its label on its left
const TIME = 52; // the column of milliseconds

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

/** A section whose keys are its own: while a control of it has the focus, JupyterLab hears none. */
function ownKeys(given, ...children) {
  const section = h("section", given, ...children);
  // JupyterLab looks at the focused element itself first, before what stands around it.
  section.addEventListener("focusin", ({ target }) => {
    target.setAttribute("data-lm-suppress-shortcuts", "true");
  });
  return section;
}

function s(tag, given = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function painted(made, paint, by = "fill") {
  made.style[by] = paint;
  return made;
}

const colour = (style) => `light-dark(${style.colour}, ${style.dark})`;
const short = (text, px) => {
  const room = Math.max(2, Math.floor(px / LETTER));
  return text.length <= room ? text : `${text.slice(0, room - 1)}…`;
};
const number = (text) => Number(String(text).replaceAll(",", ""));

const PATIENCE_MS = 1500; // a kernel that has not begun by then is busy
let asked = 0; // of all who ask, so that none takes another's answer

/**
 * Ask the kernel's half of a widget; wait for its answer for as long as that kernel lives.
 * `busy` is called if it does not begin soon, and `begun` when it does.
 */
function askKernel(model, question, { begun, busy } = {}) {
  const number = ++asked;
  return new Promise((resolve, reject) => {
    const slow = setTimeout(() => busy?.(), PATIENCE_MS);
    const over = (settle, said) => {
      clearTimeout(slow);
      model.off("msg:custom", hear);
      model.off("comm_live_update", ended);
      settle(said);
    };
    const hear = (said) => {
      if (said?.number !== number) return;
      if (!said.begun) return over(resolve, said);
      clearTimeout(slow);
      begun?.();
    };
    const ended = () => over(reject); // the kernel was restarted
    model.on("msg:custom", hear);
    model.on("comm_live_update", ended);
    try {
      model.send({ number, ...question });
    } catch (closed) { // its comm
      over(reject, closed);
    }
  });
}

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
  const rows = lanes.some((name) => name.length * BOLD > apart) ? 2 : 1;
  const high = HEAD + 17 * (rows - 1);
  const heading = s("svg", { width, height: high, class: "heading", "aria-hidden": "true" });
  const root = s("svg", { width, height, role: "img", "aria-label": run.finding });
  lanes.forEach((name, lane) => {
    const y = 17 + 17 * (lane % rows);
    const told = short(name, apart * rows - 4);
    const at = Math.min(x(lane), width - (told.length * BOLD) / 2); // the last one ends on the page
    heading.append(s("text", { x: at, y, class: "lane", "text-anchor": "middle" }, told));
    root.append(...laneLines(run, lane, x(lane), ys, height));
  });
  // In the last row, where the first lane has no name beside it.
  heading.append(s("text", { x: TIME - 10, y: 17 * rows, class: "ms", "text-anchor": "end" }, "ms"));
  run.steps.forEach((step, at) => {
    const y = ys[at];
    // Where lanes are many a label is cut short: the sentence is there under the pointer.
    const group = s("g", { class: "step", "data-step": at }, s("title", {}, step.text));
    group.append(s("rect", { class: "band", x: 0, y: y - 15, width, height: ROW - 1 }));
    const time = s("text", { x: TIME - 10, y: y + 4, class: "ms", "text-anchor": "end" }, step.ms);
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
  const text = s("text", { x, y: y + 4, "text-anchor": "middle", class: "boxed" }, value);
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
  if (step.path.length === 0) {
    return [s("text", { x: 8, y: y + 4, class: "label over" }, short(step.text, width))];
  }
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
  parts.push(painted(s("line", line), paint, "stroke"));
  step.path.slice(1, -1).forEach((lane) => {
    const share = (x(lane) - first) / (last - first);
    parts.push(painted(s("circle", { cx: x(lane), cy: y + SLOPE * share, r: 3 }), paint));
  });
  parts.push(...(stops ? cross(last, y + SLOPE, paint) : [head(first, last, y + SLOPE, paint)]));
  const right = last > first;
  const label = s("text", {
    x: first + (right ? 7 : -13), y: y - 3, "text-anchor": right ? "start" : "end", class: "label",
  }, short(step.label, Math.abs(last - first) - 16));
  return [...parts, painted(label, paint)];
}

function head(from, to, y, paint) {
  const back = from < to ? -9 : 9;
  return painted(s("path", { d: `M${to} ${y}l${back} -4.5v9z` }), paint);
}

function cross(x, y, paint) {
  return [[-6, -6, 6, 6], [-6, 6, 6, -6]].map(([x1, y1, x2, y2]) => {
    const ends = { x1: x + x1, y1: y + y1, x2: x + x2, y2: y + y2 };
    return painted(s("line", { ...ends, "stroke-width": 2.8 }), paint, "stroke");
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
  parts.forEach((part) => painted(part, paint, part.classList.contains("open") ? "stroke" : "fill"));
  const right = x < width * LABEL_LEFT;
  const label = s("text", {
    x: x + (right ? 10 : -10), y: y + 4, "text-anchor": right ? "start" : "end", class: "label",
  }, short(step.label, apart * 1.6));
  return [...parts, painted(label, paint)];
}

const FILLED = new Set(["square", "diamond", "star"]);
const looks = (style) => (FILLED.has(style.symbol) ? "full" : "open");

/** With what a label of a step may begin, and what that says. */
const SIGNS = [["↻", "sent again"], ["@", "at this offset"]];

/** What the marks of this run mean: those that it has, and no others. */
function legend(run, styles) {
  const onLanes = run.steps.filter((it) => it.path.length);
  const steps = [...new Set(onLanes.flatMap((it) => (it.since === undefined ? [it.style] : ["held", it.style])))];
  const signs = SIGNS.filter(([sign]) => onLanes.some((it) => it.label.startsWith(sign)));
  const kinds = [...new Set(run.log.flatMap((row) => row.cells.flatMap((it) => it.states.map((x) => x[2]))))];
  const entries = [
    ...steps.map((name) => entry(styles.steps[name], false)),
    ...signs.map(([sign, name]) => h("li", {}, h("b", {}, sign), name)),
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
      mark.append(painted(line, paint, "stroke"));
      if (style.symbol !== "square") mark.append(...(style.symbol === "x" ? cross(20, 6, paint) : [head(0, 25, 6, paint)]));
    } else {
      mark.append(...marked({ label: "" }, paint, style, 13, 6, 0, 99).slice(0, -1));
    }
    item.append(mark);
  }
  item.append(style.name);
  return item;
}

function stepTable(run, pick) {
  const rows = run.steps.map((step, at) => {
    const lanes = step.path.map((lane) => run.lanes[lane]);
    const way = lanes.length > 1 ? `${lanes[0]} → ${lanes.at(-1)}` : (lanes[0] ?? "");
    return h("tr", { "data-step": at, onclick: () => pick(at) },
      h("th", { scope: "row" }, String(at + 1)), h("td", {}, step.ms), h("td", {}, way),
      h("td", { class: "text" }, step.text));
  });
  const heads = ["step", "ms", "where", "what"].map((it) => h("th", { scope: "col" }, it));
  return h("table", { class: "steps" },
    h("caption", {}, run.finding), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows));
}
