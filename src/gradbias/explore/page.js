// Sliders and points in, pictures out. The state is in the address (#scene?name=value&…).

import { drawPanel, sample } from "./drawing.js";

const $ = (id) => document.getElementById(id);
const DIGITS = 4;
let notice = "";
let scenes = [], scene = null, state = {}, told = null, run = null, places = [], dragged = null;

// The newest call alone counts: one is under way, the last one waits, those between are dropped.
function latest(kind, use) {
  let busy = false, waiting = null;
  async function send(query) {
    if (busy) { waiting = query; return; }
    busy = true;
    try {
      const answer = await fetch(`/${kind}/${query}`);
      const content = await answer.json();
      if (query === address() && !waiting) answer.ok ? use(content) : refuse(content.error);
    } catch (error) {
      refuse("The server does not answer: is `gradbias explore` still running?");
    }
    busy = false;
    if (waiting !== null) { const next = waiting; waiting = null; send(next); }
  }
  return send;
}

const askPredicted = latest("predicted", (content) => {
  told = content; run = null;
  refuse(notice); notice = ""; show();
  askSimulated(address()); askTheorems(address());
});
const askSimulated = latest("simulated", (content) => { run = content; $("working").textContent = ""; show(); });
const askTheorems = latest("theorems", (content) => { theorems(content.theorems); $("code").textContent = content.code; });

function refuse(sentence) {
  $("error").hidden = !sentence;
  $("error").textContent = sentence || "";
  if (sentence) $("working").textContent = "";
}

const address = () => `${scene.id}?${new URLSearchParams(state)}`;
const rounded = (value) => Number(value.toPrecision(DIGITS));

function changed() {
  history.replaceState(null, "", `#${address()}`);
  $("working").textContent = "Simulating …";
  $("linked").textContent = $("copied").textContent = "";
  askPredicted(address());
}

// Sliders -------------------------------------------------------------------------------------

const toSlider = (control, value) => (control.log ? Math.log10(value) : value);
const decimals = (control) => Math.max(0, Math.ceil(-Math.log10(control.step) - 1e-9));

function fromSlider(control, position) {
  const value = control.log ? rounded(10 ** position) : Number(position.toFixed(decimals(control)));
  return Math.min(control.high, Math.max(control.low, value));
}

function build() {
  const form = $("controls");
  form.replaceChildren();
  for (const control of scene.controls) {
    const row = document.createElement("div"), label = document.createElement("label");
    const output = document.createElement("output"), input = document.createElement("input");
    row.className = "control";
    input.type = "range"; input.id = `control-${control.name}`; input.name = control.name;
    input.min = toSlider(control, control.low); input.max = toSlider(control, control.high);
    input.step = control.log ? "any" : control.step;
    label.htmlFor = output.htmlFor = input.id;
    label.append(control.label, output);
    input.addEventListener("input", () => { state[control.name] = fromSlider(control, Number(input.value)); move(); });
    if (control.log) input.addEventListener("keydown", (event) => stepped(event, control, input));
    row.append(label, input);
    form.append(row);
  }
}

// A slider of "any" step has none of its own for keys.
function stepped(event, control, input) {
  const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
  if (!by) return;
  event.preventDefault();
  input.value = Number(input.value) + by * control.step;
  input.dispatchEvent(new Event("input"));
}

function move() {
  for (const control of scene.controls) {
    const input = $(`control-${control.name}`), value = state[control.name];
    input.value = toSlider(control, value);
    const words = String(value).replace("-", "−");
    input.setAttribute("aria-valuetext", words);
    input.previousElementSibling.querySelector("output").textContent = words;
  }
  changed();
}

// Pictures ------------------------------------------------------------------------------------

function show() {
  const held = document.activeElement?.dataset?.moves;
  const box = $("panels");
  box.dataset.count = told.panels.length;
  while (box.children.length > told.panels.length) box.lastChild.remove();
  told.panels.forEach((panel, i) => {
    if (!box.children[i]) box.append(frame());
    const figure = box.children[i], svg = figure.querySelector("svg");
    figure.querySelector("figcaption").textContent = panel.title;
    svg.setAttribute("aria-label", `${panel.title}: ${panel.y.label} against ${panel.x.label}`);
    places[i] = drawPanel(svg, panel, [...panel.marks, ...(run ? run.marks[i] : [])]);
  });
  if (held) document.querySelector(`.handle[data-moves="${held}"]`)?.focus();
  legend(); numbers();
}

function frame() {
  const figure = document.createElement("figure"), caption = document.createElement("figcaption");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.classList.add("panel");
  svg.setAttribute("role", "group");
  figure.append(caption, svg);
  svg.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest(".handle");
    if (!handle) return;
    dragged = { svg, moves: handle.dataset.moves.split(" "), scale: Number(handle.dataset.scale) };
    svg.setPointerCapture(event.pointerId);
    handle.focus();
    event.preventDefault();
  });
  svg.addEventListener("pointermove", (event) => { if (dragged?.svg === svg) drag(event); });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { dragged = null; });
  svg.addEventListener("keydown", nudge);
  return figure;
}

function put(name, value) {
  const control = scene.controls.find((one) => one.name === name);
  const kept = Math.min(control.high, Math.max(control.low, value));
  state[name] = fromSlider(control, Math.round(kept / control.step) * control.step);
}

function drag(event) {
  const to = places[[...$("panels").children].indexOf(dragged.svg.parentElement)];
  const box = dragged.svg.getBoundingClientRect(), unit = to.width / box.width;
  put(dragged.moves[0], to.x.value((event.clientX - box.left) * unit) / dragged.scale);
  put(dragged.moves[1], to.y.value((event.clientY - box.top) * unit) / dragged.scale);
  move();
}

function nudge(event) {
  const handle = event.target.closest(".handle");
  const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 1], ArrowDown: [1, -1] }[event.key];
  if (!handle || !by) return;
  event.preventDefault();
  const name = handle.dataset.moves.split(" ")[by[0]];
  const control = scene.controls.find((one) => one.name === name);
  put(name, state[name] + by[1] * control.step * (event.shiftKey ? 10 : 1));
  move();
}

function legend() {
  const marks = told.panels.flatMap((panel, i) => [...panel.marks, ...(run ? run.marks[i] : [])]);
  const seen = new Set();
  $("legend").replaceChildren(...marks.filter((m) => m.kind !== "handle" && m.label).flatMap((mark) => {
    const name = [mark.kind, mark.look, mark.series, mark.label].join();
    if (seen.has(name)) return [];
    seen.add(name);
    const item = document.createElement("li");
    item.append(sample(mark), mark.label);
    return [item];
  }));
}

// Numbers and words ---------------------------------------------------------------------------

function words(value) {
  if (value === undefined) return "–";
  if (value === null) return "not finite";
  if (Array.isArray(value)) return `(${value.map(words).join(", ")})`;
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(3) : String(rounded(value));
  return text.replaceAll("-", "−");
}

function numbers() {
  const measured = new Map((run ? run.numbers : []).map((one) => [one.key, one.value]));
  $("numbers").tBodies[0].replaceChildren(...told.numbers.map((one) => {
    const row = document.createElement("tr");
    row.dataset.key = one.key;
    for (const text of [one.name, words(one.value), run ? words(measured.get(one.key)) : "…"]) row.insertCell().textContent = text;
    row.cells[1].dataset.value = JSON.stringify(one.value);
    if (measured.has(one.key)) row.cells[2].dataset.value = JSON.stringify(measured.get(one.key));
    return row;
  }));
}

function theorems(list) {
  $("theorems").replaceChildren(...list.map((one) => {
    const card = document.createElement("article");
    card.className = "theorem"; card.dataset.id = one.id;
    // The statement alone is markup, which the library makes from its own text (MathML).
    card.innerHTML = '<h4></h4><p class="statement"></p><p class="state"></p><ul></ul>';
    const head = card.querySelector("h4"), source = document.createElement("span");
    source.className = "source"; source.textContent = ` ${one.id} · ${one.source}`;
    head.append(one.title[0].toUpperCase() + one.title.slice(1), source);
    card.querySelector(".statement").innerHTML = one.statement;
    const verdict = card.querySelector(".state");
    verdict.classList.add(one.applies ? "state-yes" : "state-no");
    const error = one.expected_error ? `; expected error up to ${words(one.expected_error)}` : "";
    verdict.textContent = one.applies ? `Applies here${error}` : `Does not apply here: ${one.state.replace(/^.*?does not apply: /, "")}`;
    card.querySelector("ul").append(...one.hypotheses.map((hypothesis) => {
      const item = document.createElement("li");
      item.className = hypothesis.met ? "met" : "missed";
      const margin = hypothesis.margin === null ? "" : ` (${words(rounded(hypothesis.margin))}${hypothesis.at_most === null ? "" : `, at most ${words(hypothesis.at_most)}`})`;
      item.textContent = hypothesis.name + margin;
      return item;
    }));
    return card;
  }));
  if (!list.length) $("theorems").textContent = scene.note;
}

// The address ---------------------------------------------------------------------------------

function restore() {
  const [id, query] = location.hash.slice(1).split("?");
  const found = scenes.find((one) => one.id === id);
  const other = scene !== (found || scenes[0]);
  scene = found || scenes[0];
  state = Object.fromEntries(scene.controls.map((control) => [control.name, control.value]));
  const bad = [];
  for (const [name, text] of new URLSearchParams(query || "")) {
    const control = scene.controls.find((one) => one.name === name), value = Number(text);
    const fits = control && text.trim() && value >= control.low && value <= control.high && (!control.whole || Number.isInteger(value));
    if (fits) state[name] = value; else bad.push(name);
  }
  if (other) {
    told = run = null;
    $("panels").replaceChildren(); $("theorems").replaceChildren(); $("code").textContent = "";
    build();
  }
  $("title").textContent = scene.title; $("look").textContent = scene.look;
  document.title = `${scene.title} – gradbias explorer`;
  for (const link of $("scenes").querySelectorAll("a")) {
    link.hash === `#${scene.id}` ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  document.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (id && !found) notice = `There is no scene ${JSON.stringify(id)}; this is the first one.`;
  else if (bad.length) notice = `This scene does not take what the link says of ${bad.join(", ")}; the first position is used.`;
  move();
}

async function copy(text, status) {
  try { await navigator.clipboard.writeText(text); $(status).textContent = "Copied."; }
  catch { $(status).textContent = "The browser does not allow copying: mark the text and copy it."; }
}

async function begin() {
  scenes = (await (await fetch("/scenes")).json()).scenes;
  $("scenes").append(...scenes.map((one) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `#${one.id}`; link.textContent = one.title;
    item.append(link);
    return item;
  }));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("skip").addEventListener("click", (event) => { event.preventDefault(); $("controls").querySelector("input").focus(); });
  $("reset").addEventListener("click", () => { location.hash = `#${scene.id}`; restore(); });
  $("link").addEventListener("click", () => copy(location.href, "linked"));
  $("copy").addEventListener("click", () => copy($("code").textContent, "copied"));
  addEventListener("hashchange", restore);
  new ResizeObserver(() => { if (told) show(); }).observe($("panels"));
  restore();
}

begin();
