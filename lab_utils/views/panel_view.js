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
