"use strict";
// What a model, a status or a server says is set as text only. The page's policy lets no string become a script or a tag.
const at = id => document.getElementById(id);
const turns = [];
let asking = null;

function add(kind) {
  const line = document.createElement("p");
  line.className = kind;
  at("said").append(line);
  return line;
}

function scroll() {
  if (innerHeight + scrollY > document.body.scrollHeight - 300) window.scrollTo(0, document.body.scrollHeight);
}

async function look() {
  try {
    const state = await (await fetch("state")).json();
    at("model").textContent = document.title = state.model;
    const engines = `${state.engines} ${state.engines === 1 ? "engine" : "engines"} ready`;
    at("state").textContent = `${state.name}: ${engines}. ${state.message}`;
  } catch {
    at("state").textContent = "infd ui has ended. Start it again, and open the address that it prints.";
  }
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines.map(line => JSON.parse(line));
  }
}

async function ask(question) {
  add("question").textContent = question;
  const note = add("note"), begin = performance.now();
  let first = null, reasoning = null, answer = null, news = "", text = "", ended = false;
  const tick = setInterval(() => {
    note.textContent = `${((performance.now() - begin) / 1000).toFixed(1)} s ${news}`;
  }, 100);
  asking = new AbortController();
  at("send").hidden = !(at("stop").hidden = false);
  try {
    const body = JSON.stringify({turns, question});
    const response = await fetch("answers", {method: "POST", body, signal: asking.signal});
    if (!response.ok) throw new Error(await response.text());
    for await (const event of events(response)) {
      if (event.say !== undefined) news = event.say;
      if ((event.text || event.reasoning) && first === null) {
        first = performance.now() - begin;
        clearInterval(tick);
        note.textContent = `first token after ${(first / 1000).toFixed(1)} s`;
      }
      if (event.reasoning) (reasoning ??= add("reasoning")).append(event.reasoning);
      if (event.text) {
        (answer ??= add("answer")).append(event.text);
        text += event.text;
      }
      ended = ended || event.end !== undefined;
      scroll();
    }
    if (!ended) news = "The answer broke off.";
  } catch (error) {
    news = error.name === "AbortError" ? "Stopped." : String(error.message || error);
  }
  clearInterval(tick);
  at("said").append(note);
  note.textContent = news;
  if (text) turns.push([question, text]);
  asking = null;
  at("stop").hidden = !(at("send").hidden = false);
  scroll();
  look();
}

at("form").addEventListener("submit", event => {
  event.preventDefault();
  const question = at("question").value.trim();
  if (!question || asking) return;
  at("question").value = "";
  ask(question);
});
at("question").addEventListener("keydown", event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("form").requestSubmit();
  }
});
at("stop").addEventListener("click", () => asking?.abort());
setInterval(() => document.hidden || look(), 3000);
look();
