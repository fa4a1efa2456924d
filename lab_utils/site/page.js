// The end of the explorer's module on a page without a kernel: each explorer of the page is given
// its offer, and a source of the runs that were recorded for it. A choice names its options in the
// sequence in which they are offered, and the number of its run.

for (const el of document.querySelectorAll(".lab-recorded")) {
  const { offer, styles, choices, runs } = JSON.parse(el.querySelector("script").textContent);
  const names = offer.choices.map((it) => it.name);
  const all = choices.map(([options, at]) => {
    const choice = Object.fromEntries(names.map((name, each) => [name, options[each]]));
    return { ...runs[at], choice };
  });
  const first = all.find((run) => offer.choices.every((it) => run.choice[it.name] === it.default));
  explore(el, { offer, styles, runs: [first], source: recorded(all) });
}
