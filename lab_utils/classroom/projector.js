// The projector of a classroom: asks for the board each second, and draws it. Everything that a
// seat has told goes into the page as text.
"use strict";

const EVERY_MS = 1000;
const GONE = "The classroom does not answer. Start it again with the same command: "
  + "this page goes on by itself.";
const token = location.hash.slice(1) || sessionStorage.getItem("token") || "";
sessionStorage.setItem("token", token);
history.replaceState(null, "", location.pathname); // a wall is no place for it

const $ = (id) => document.getElementById(id);
const nameOf = (vote) => `${vote.lab} ${vote.cell}`;
let chosen = ""; // by hand; else the latest
let drawn = "";

function make(name, { text = "", ...attributes }, ...children) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

async function ask(path, body) {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET",
    headers: { Authorization: `Bearer ${token}` },
    body: body && JSON.stringify(body),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}

function values(answer, question) {
  if (!["log", "visible"].includes(question)) return make("strong", { text: answer });
  const seen = new Set();
  const cells = answer.split(" ").map((value) => {
    const cell = make("span", seen.has(value) ? { text: value, class: "again" } : { text: value });
    seen.add(value);
    return cell;
  });
  return make("span", { class: "values" }, ...cells);
}

const seatsOf = (count) => (count === 1 ? "1 seat" : `${count} seats`);

function bar(given, question, most, happened) {
  const count = given.seats.length;
  const width = `width: ${(60 * count) / most}%`;
  const right = happened.find((each) => each.answer === given.answer);
  return make(
    "div",
    { class: right ? "answer happened" : "answer", title: given.seats.join(", ") },
    values(given.answer, question),
    make("div", { class: "bar" }, make("i", { style: width }),
      make("span", { text: right ? `${count} · this happened, at ${seatsOf(right.seats.length)}` : `${count}` })),
  );
}

function questionOf({ question, answers, others, happened }) {
  const most = Math.max(...answers.map((each) => each.seats.length));
  const unexpected = happened.filter((it) => !answers.some((each) => each.answer === it.answer));
  return make("div", {}, make("h3", { text: question }),
    ...answers.map((each) => bar(each, question, most, happened)),
    others ? make("p", { class: "quiet", text: `and ${others} other answer${others === 1 ? "" : "s"}` }) : "",
    ...unexpected.map((each) => make("div", { class: "answer happened" },
      values(each.answer, question),
      make("span", { text: `nobody's · this happened, at ${seatsOf(each.seats.length)}` }))));
}

function drawVotes(board, vote) {
  $("votes").replaceChildren(...board.votes.map((each) =>
    make("option", { value: nameOf(each), text: `${each.lab} · ${each.where}` })));
  $("votes").value = nameOf(vote);
  $("close").hidden = false;
  $("close").textContent = vote.closed ? "Open the vote" : "Close the vote";
  $("close").onclick = async () => {
    await ask("close", { lab: vote.lab, cell: vote.cell, closed: !vote.closed });
    await look();
  };
  $("voted").textContent = `${vote.voted} of ${board.seats} have predicted` +
    (vote.closed ? "; the vote is closed" : "");
  $("vote").replaceChildren(
    make("h2", { text: vote.where }), ...vote.questions.map(questionOf),
    vote.closed && vote.questions.every(({ happened }) => !happened.length)
      ? make("p", { class: "quiet", text: "No seat has compared it with a run yet." }) : "");
}

function drawItems(items) {
  if (!items.length) return;
  const verdicts = ["PASS", "FAIL", "INCONCLUSIVE"];
  const head = make("tr", {}, make("th", { text: "exercise" }),
    ...verdicts.map((text) => make("th", { text, class: "number" })));
  const rows = items.map((item) => make("tr", {},
    make("td", { text: `${item.item} ${item.title}` }),
    ...verdicts.map((each) => make("td", { text: `${item[each]}`, class: "number" }))));
  $("items").replaceChildren(make("h2", { text: "Checked" }), make("table", {}, head, ...rows));
}

function draw(board) {
  $("code").textContent = board.code;
  $("seats").textContent = seatsOf(board.seats);
  const names = [chosen, board.latest ? nameOf(board.latest) : ""];
  const vote = names.map((name) => board.votes.find((each) => nameOf(each) === name)).find(Boolean);
  $("state").textContent = vote ? "" : "Nobody has predicted anything yet.";
  if (vote) drawVotes(board, vote);
  drawItems(board.items);
}

async function look() {
  try {
    const board = await ask("board");
    const now = JSON.stringify([board, chosen]);
    if (now !== drawn || $("state").textContent) draw(board);
    drawn = now;
  } catch (error) {
    const refused = error.name === "Error"; // with a sentence of the classroom's
    $("state").textContent = refused ? error.message : GONE;
  }
}

$("votes").onchange = () => {
  chosen = $("votes").value;
  look();
};
(async function live() {
  await look();
  setTimeout(live, EVERY_MS);
})();
