// Draws a panel as SVG. It only maps numbers to pixels: every number is the library's.

const SPACE = "http://www.w3.org/2000/svg";
const LEFT = 58, RIGHT = 14, TOP = 8, BOTTOM = 44;
const TALL = 0.72; // height of a panel over its width, where a unit is not as long on both axes
let clips = 0;

export function element(name, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function places(axis, from, to) {
  const on = axis.log ? Math.log10 : (value) => value;
  const off = axis.log ? (value) => 10 ** value : (value) => value;
  const low = on(axis.low), high = on(axis.high);
  return {
    at: (value) => from + ((on(value) - low) / (high - low)) * (to - from),
    value: (pixel) => off(low + ((pixel - from) / (to - from)) * (high - low)),
  };
}

export function scales(panel, width) {
  const across = places(panel.x, LEFT, width - RIGHT);
  const unit = (width - LEFT - RIGHT) / (panel.x.high - panel.x.low);
  const inner = panel.square ? unit * (panel.y.high - panel.y.low) : TALL * width - TOP - BOTTOM;
  const height = Math.round(inner + TOP + BOTTOM);
  return { x: across, y: places(panel.y, height - BOTTOM, TOP), width, height };
}

function ticks(axis, most) {
  if (axis.log) {
    const low = Math.ceil(Math.log10(axis.low) - 1e-9), high = Math.floor(Math.log10(axis.high) + 1e-9);
    const every = Math.max(1, Math.ceil((high - low) / most));
    return Array.from({ length: Math.floor((high - low) / every) + 1 }, (_, i) => 10 ** (low + i * every));
  }
  const rough = (axis.high - axis.low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const first = Math.ceil(axis.low / step - 1e-9);
  const count = Math.floor(axis.high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => (first + i) * step);
}

function tick(value, log) {
  if (!log || (value >= 0.01 && value < 1e4)) return String(Number(value.toPrecision(4))).replace("-", "−");
  const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹", power = Math.round(Math.log10(value));
  return "10" + (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((d) => digits[d]).join("");
}

function axes(svg, panel, to) {
  const bottom = to.height - BOTTOM;
  const grid = element("g", { "aria-hidden": "true" }, svg);
  for (const value of ticks(panel.x, Math.max(4, Math.floor(to.width / 80)))) {
    const x = to.x.at(value);
    element("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: bottom }, grid);
    const last = x > to.width - RIGHT - 8;
    element("text", { class: "tick", x: last ? to.width - 2 : x, y: bottom + 16, "text-anchor": last ? "end" : "middle" }, grid, tick(value, panel.x.log));
  }
  for (const value of ticks(panel.y, Math.max(4, Math.floor(to.height / 50)))) {
    const y = to.y.at(value);
    element("line", { class: "grid", x1: LEFT, x2: to.width - RIGHT, y1: y, y2: y }, grid);
    element("text", { class: "tick", x: LEFT - 6, y: y + 4, "text-anchor": "end" }, grid, tick(value, panel.y.log));
  }
  const middle = (TOP + bottom) / 2;
  element("text", { x: (LEFT + to.width - RIGHT) / 2, y: to.height - 8, "text-anchor": "middle" }, grid, panel.x.label);
  element("text", { transform: `translate(13 ${middle}) rotate(-90)`, "text-anchor": "middle" }, grid, panel.y.label);
  element("rect", { class: "frame", x: LEFT, y: TOP, width: to.width - LEFT - RIGHT, height: bottom - TOP }, grid);
}

// Far outside of the panel is as good as anywhere outside, and keeps SVG's numbers small.
const near = (value) => Math.max(-1e4, Math.min(1e4, value));

function points(mark, to) {
  const found = [];
  mark.x.forEach((x, i) => {
    const y = mark.y[i];
    if (x === null || y === null) return;
    const place = [near(to.x.at(x)), near(to.y.at(y))];
    if (place.every(Number.isFinite)) found.push(place);
  });
  return found;
}

function shape(kind, look, x, y, series, parent) {
  const name = `${kind} ${look} s${series}`;
  if (kind === "ring") return element("circle", { class: name, cx: x, cy: y, r: 7 }, parent);
  return element("circle", { class: name, cx: x, cy: y, r: look === "guide" || look === "data" ? 5 : 3.5 }, parent);
}

function draw(mark, to, parent) {
  const where = points(mark, to);
  const group = element("g", { "data-look": mark.look, "data-label": mark.label }, parent);
  if (mark.kind === "line") {
    // A log axis has no zero: what falls below it is drawn far below.
    const path = where.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
    element("polyline", { class: `mark line ${mark.look} s${mark.series}`, points: path }, group);
  } else {
    for (const [x, y] of where) shape(mark.kind, mark.look, x, y, mark.series, group);
  }
}

function handle(mark, to, parent) {
  const x = to.x.at(mark.x[0]), y = to.y.at(mark.y[0]);
  const inside = [Math.max(LEFT, Math.min(to.width - RIGHT, x)), Math.max(TOP, Math.min(to.height - BOTTOM, y))];
  const group = element("g", {
    class: "handle", tabindex: 0, role: "button", "aria-roledescription": "point that can be dragged",
    "aria-label": `${mark.label}: arrow keys move it`, "data-moves": mark.moves.join(" "), "data-scale": mark.scale,
    transform: `translate(${inside[0]} ${inside[1]})`,
  }, parent);
  element("circle", { class: "reach", r: 17 }, group);
  if (mark.label === "start") element("circle", { class: "grip", r: 7 }, group);
  else element("path", { class: "grip", d: "M0 -9 9 0 0 9 -9 0Z" }, group);
  const room = 4 * mark.label.length; // half of what it needs
  const anchor = inside[0] > to.width - RIGHT - room ? "end" : inside[0] < LEFT + room ? "start" : "middle";
  const under = inside[1] < to.height - BOTTOM - 28;
  element("text", { x: 0, y: under ? 22 : -14, "text-anchor": anchor }, group, mark.label);
}

export function drawPanel(svg, panel, marks) {
  const width = Math.max(240, Math.round(svg.parentElement.clientWidth));
  const to = scales(panel, width);
  svg.setAttribute("viewBox", `0 0 ${width} ${to.height}`);
  svg.setAttribute("height", to.height);
  svg.replaceChildren();
  const clip = `clip${++clips}`;
  element("rect", { x: LEFT, y: TOP, width: width - LEFT - RIGHT, height: to.height - TOP - BOTTOM },
    element("clipPath", { id: clip }, element("defs", {}, svg)));
  axes(svg, panel, to);
  const inside = element("g", { "clip-path": `url(#${clip})` }, svg);
  const order = { minima: 0, guide: 1, data: 1, simulated: 2, bound: 3, predicted: 4 };
  const flat = marks.filter((mark) => mark.kind !== "handle");
  for (const mark of [...flat].sort((a, b) => order[a.look] - order[b.look])) draw(mark, to, inside);
  for (const mark of marks) if (mark.kind === "handle") handle(mark, to, svg);
  return to;
}

export function sample(mark) {
  const svg = element("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" });
  if (mark.kind === "line") element("line", { class: `mark line ${mark.look} s${mark.series}`, x1: 1, x2: 25, y1: 7, y2: 7 }, svg);
  else element("circle", { class: `${mark.kind} ${mark.look} s${mark.series}`, cx: 13, cy: 7, r: mark.kind === "ring" ? 5 : 4 }, svg);
  return svg;
}
