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

const KEPT = 12; // earlier runs

const RUNNING = "A run is being made: a real client, a real broker.";
const BUSY =
  "The kernel is busy: the run begins when the running cell is done. " +
  "If the kernel was restarted, run the notebook's first cell, then this cell.";
const ENDED =
  "The kernel of this explorer has ended or was restarted. " +
  "Run the notebook's first cell, then this cell. The runs below stay.";
const LONG_MS = 15000; // longer than a run of any choice
const LONG =
  "It takes longer than usual, as it does when a broker has died. It will end; " +
  "to end it now, press ■ in the toolbar.";
const STARTING = "The first run is being made.";
const AGAIN = "This run proves nothing. Press “Run again”, or change a choice.";
const STILL = "What is shown was made with:";
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
function kernelSource(model) {
  return {
    hear: (tell, until) => {
      const heard = (said) => { if (typeof said?.news === "string") tell(said.news); };
      model.on("msg:custom", heard);
      until?.addEventListener("abort", () => model.off("msg:custom", heard));
    },
    ask: async (choice, tell) => {
      const told = { begun: () => tell(RUNNING), busy: () => tell(BUSY) };
      const said = await askKernel(model, { choice }, told).catch(() => ({ error: ENDED }));
      if (said.error) throw new Error(said.error);
      return said.run;
    },
  };
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
    root.append(painted(part, colour(style), from === to ? "fill" : "stroke"));
    if (from !== to && style.symbol === "x") root.append(...cross(to, ys[at] + 3, colour(style)));
  });
  return root;
}

// ------------------------------------------------------------------------------------------ the log

const stateAt = (cell, step) => cell.states.findLast((state) => state[0] <= step) ?? [-1, "", ""];

/** The rows of a run as a table, as they were at a step; what that step changed is lit. */
function logTable(run, styles, step) {
  const columns = 1 + Math.max(-1, ...run.log.flatMap((row) => row.cells.map((cell) => cell.at)));
  const heads = Array.from({ length: columns }, (_, at) => h("th", { scope: "col" }, String(at)));
  const rows = run.log.map((row) => {
    const cells = new Map(row.cells.map((cell) => [cell.at, cell]));
    const drawn = Array.from({ length: columns }, (_, at) => logCell(cells.get(at), styles, step));
    return h("tr", {}, h("th", { scope: "row" }, row.name), ...drawn);
  });
  return h("div", { class: "scrolls" }, h("table", { class: "log" },
    h("caption", {}, "The log, up to this step"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "offset"), ...heads)),
    h("tbody", {}, ...rows)));
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

// ---------------------------------------------------------------------------- one run, step by step

const button = (text, onclick, given) => h("button", { type: "button", onclick, ...given }, text);

/** The run that is shown: finding, scrubber, diagram, log, text and code. */
class Shown {
  constructor(styles, signal) {
    this.styles = styles;
    this.picture = h("div", { class: "picture" });
    this.key = h("div");
    this.log = h("div", { class: "rows" });
    this.finding = h("p", { class: "finding", role: "status" });
    this.counts = h("p", { class: "counts" });
    const onkeydown = (event) => {
      // Time runs down the page, and a slider's value up.
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      this.go(this.step + by);
    };
    const oninput = () => this.go(Number(this.scrub.value));
    const name = "Step of the run";
    this.scrub = h("input", { type: "range", min: 0, "aria-label": name, oninput, onkeydown });
    this.back = button("◀", () => this.go(this.step - 1), { "aria-label": "Step back" });
    this.on = button("▶", () => this.go(this.step + 1), { "aria-label": "Step on" });
    this.where = h("span", { class: "where" });
    this.said = h("p", { class: "said" });
    this.table = h("div", { class: "scrolls" });
    this.code = h("pre", { tabindex: 0, "aria-label": "The program of this run" });
    this.copy = button("Copy", () => this.copied(), { class: "copier" });
    this.el = h("div", { class: "shown", hidden: true },
      this.finding, this.counts,
      h("div", { class: "scrub" }, this.back, this.scrub, this.on, this.where),
      this.said,
      h("div", { class: "scene" }, h("div", {}, this.picture, this.key), this.log),
      h("details", {}, h("summary", {}, "The code that does the same"), this.copy, this.code),
      h("details", {}, h("summary", {}, "The same as text"), this.table),
    );
    const watch = new ResizeObserver(() => this.fit());
    watch.observe(this.picture);
    signal?.addEventListener("abort", () => watch.disconnect());
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

// ------------------------------------------------------------------------------------- the explorer

/**
 * Show an explorer in `el`: an offer of choices, runs that were made, and a source of others.
 * A run that is made is added to `runs`.
 */
export function explore(el, { offer, styles, runs = [], source, signal, closed = "" }) {
  const shown = new Shown(styles, signal);
  const made = runs;
  const controls = new Map();
  let running = false;
  let next = null;
  const status = h("p", { class: "status", role: "status" });
  const earlier = h("ul", { class: "earlier" });
  const again = source.isRecord ? null : button("Run again", ask);
  const root = ownKeys({ class: "lab-explorer", "aria-label": `Explorer: ${offer.title}` });
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
      let later = [];
      const going = (words) => { // of a run that has begun, more when it takes long
        later.forEach(clearTimeout);
        tell(words);
        const more = words === RUNNING ? [[1000, offer.takes], [LONG_MS, LONG]] : [];
        later = more.map(([ms, say]) => setTimeout(() => say && tell(`${RUNNING} ${say}`), ms));
      };
      if (!source.isRecord) going(made.length ? RUNNING : STARTING);
      try {
        const run = await source.ask(choice, going);
        if (!made.includes(run)) made.push(run);
        tell(again && run.outcomes.includes("inconclusive") ? AGAIN : "");
        if (!next) present(run);
      } catch (error) {
        tell(shown.run ? `${error.message} ${STILL} ${shown.run.chosen}.` : error.message);
      }
      later.forEach(clearTimeout);
    }
    running = false;
    root.removeAttribute("aria-busy");
  }

  function present(run) {
    Object.entries(run.choice).forEach(([name, option]) => controls.get(name)?.set(option));
    shown.show(run);
    const list = made.slice(-KEPT).reverse();
    earlier.replaceChildren(...list.map((it) => small(it, it === run)));
    earlier.parentElement.hidden = made.length < 2;
  }

  function small(run, isShown) {
    const onclick = () => {
      if (!running) tell(closed);  // what was said was about another run
      present(run);
    };
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(isShown), onclick },
      thumbnail(run, styles), strip(run, styles),
      h("span", { class: "chosen" }, run.chosen), h("span", { class: "what" }, run.finding)));
  }

  for (const choice of offer.choices) controls.set(choice.name, control(choice, ask));
  const form = h("div", { class: "choices", role: "group", "aria-label": "Choices" },
    ...[...controls.values()].map((it) => it.el), again);
  root.append(
    h("h3", {}, offer.title),
    h("div", { class: "body" }, form, h("div", { class: "result" }, status, shown.el)),
    h("div", { hidden: true }, h("h4", {}, "Runs so far, the latest first"), earlier),
  );
  el.append(root);
  source.hear?.(tell, signal);
  if (made.length) {
    present(made.at(-1));
    tell(closed);
  } else {
    ask();
  }
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
    const value = () => choice.options[Number(slider.value)];
    const told = () => { out.textContent = value(); slider.setAttribute("aria-valuetext", value()); };
    const slider = h("input", {
      type: "range", min: 0, max: choice.options.length - 1, value: from, "aria-label": choice.asks,
      oninput: told, onchange: changed,
    });
    const out = h("output", {}, value());
    box.append(h("div", { class: "slider" }, slider, out));
    const set = (option) => { slider.value = choice.options.indexOf(option); told(); };
    return { el: box, value, set };
  }
  const name = `lab-choice-${++groups}`;
  const inputs = choice.options.map((option, at) => {
    const checked = at === from;
    const input = h("input", { type: "radio", name, value: option, checked, onchange: changed });
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
  const shown = new Shown(styles, signal);
  const root = ownKeys({ class: "lab-explorer", "aria-label": "Sweep" });
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
      onclick: () => pick(run, button),
      "aria-label": `${words.join(", ")}: ${setting}; ${fault}${position ? `, nth=${position}` : ""}` },
    h("b", { "aria-hidden": "true" }, style.symbol), " ", words.join(", "));
    button.style.setProperty("--c", colour(style));
    button.classList.toggle("right", words[0].endsWith(" once"));
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
}

// ------------------------------------------------------------------------------- a run that grows

/** Show the run that a widget holds, and show it anew whenever it is another one. */
function follow(model, el, signal) {
  const shown = new Shown(model.get("styles"), signal);
  const root = ownKeys({ class: "lab-explorer", "aria-label": "The run so far" }, shown.el);
  el.append(root);
  const show = () => {
    const run = model.get("run");
    shown.el.hidden = !run.steps?.length;
    if (!run.steps?.length) return;
    shown.show(run);
    shown.picture.scrollTop = shown.picture.scrollHeight; // what was added
  };
  model.on("change:run", show);
  signal?.addEventListener("abort", () => model.off("change:run", show));
  show();
}

// ------------------------------------------------------------------------------------- the widget

export default () => {
  // Of one widget, for all its views: anywidget calls this function for each model.
  let source;
  let runs;
  return {
    initialize({ model }) {
      source = kernelSource(model);
      runs = [...(model.get("runs") ?? [])];
    },
    render({ model, el, signal }) {
      if (model.get("run")) return follow(model, el, signal);
      const [styles, grid] = [model.get("styles"), model.get("grid")];
      if (grid) return tabulate(el, { grid, styles, runs, signal });
      const [offer, closed] = [model.get("offer"), model.get("closed")];
      explore(el, { offer, styles, runs, source, signal, closed });
    },
  };
};
