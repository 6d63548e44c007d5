"use strict";
// Curves with bands, drawn as SVG: for the page that plot.save writes, and for the one that serve shows.
// Every name comes from a file somebody else wrote: it is only ever set as text, never as markup.
const DASHES = { "-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3" };
const SHAPES = { "-": "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0z", "--": "M-3,-3h6v6h-6z", "-.": "M0,-4l4,4l-4,4l-4,-4z", ":": "M0,-4l4,7h-8z" };
const MOST_MARKS = 60, many = marks => marks.Z.length > MOST_MARKS;  // points below curves; more are a rug of thin strokes
let data = null;  // what is drawn; the page sets it
const hidden = new Set();  // entries that are switched off

function node(name, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
function tag(name, attributes, parent, text) {
  const made = Object.assign(document.createElement(name), attributes);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
const colourOf = entry => data.entries[entry].colour || "var(--ink)";
const numberText = v => v === null ? "–" : String(Number(v.toPrecision(4))).replace("-", "−");

// --- scales: a number to a place and back ---

function scaleOf(low, high, from, to, log) {
  const f = log ? Math.log : v => v, g = log ? Math.exp : v => v;
  const a = f(low), b = f(high);
  return {
    low, high, log,
    at: v => from + (f(v) - a) / (b - a) * (to - from),
    back: place => g(a + (place - from) / (to - from) * (b - a)),
  };
}
function ticks(low, high, count, log) {
  if (log) {
    const all = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++)
      for (const m of [1, 2, 5]) all.push(m * 10 ** k);
    const inside = all.filter(v => v >= low && v <= high);
    return inside.length <= 2 * count ? inside : inside.filter(v => String(v.toExponential())[0] === "1");
  }
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
function axes(svg, box, x, y, xLabel, yLabel, floor) {
  const marks = node("g", {}, svg);
  for (const v of ticks(x.low, x.high, Math.max(3, box.w / 52), false)) {
    node("line", { class: "axis", x1: x.at(v), x2: x.at(v), y1: floor, y2: floor + 4 }, marks);
    node("text", { x: x.at(v), y: floor + 17, "text-anchor": "middle" }, marks, numberText(v));
  }
  for (const v of ticks(y.low, y.high, Math.max(3, box.h / 45), y.log)) {
    node("line", { class: "axis", x1: box.x - 4, x2: box.x, y1: y.at(v), y2: y.at(v) }, marks);
    node("text", { x: box.x - 7, y: y.at(v) + 4, "text-anchor": "end" }, marks, numberText(v));
  }
  node("path", { class: "axis", d: `M${box.x},${box.y}V${floor}H${box.x + box.w}` }, marks);
  node("text", { x: box.x + box.w / 2, y: floor + 34, "text-anchor": "middle" }, marks, xLabel);
  node("text", { transform: `translate(${box.x - 42},${box.y + box.h / 2}) rotate(-90)`, "text-anchor": "middle" }, marks, yLabel);
}

// --- reading: a place on a panel becomes a table beside the pointer ---

function readable(figure, svg, describe, step) {
  const tip = tag("div", { className: "tip", hidden: true }, figure);
  tip.setAttribute("role", "status");
  let last = null;
  const hide = () => { tip.hidden = true; describe(null); last = null; };
  function show(px, py) {
    const told = describe([px, py]);
    if (!told) return hide();
    last = [px, py];
    tip.replaceChildren();
    tag("div", {}, tip, told.title);
    const table = tag("table", {}, tip), head = tag("tr", {}, tag("thead", {}, table)), body = tag("tbody", {}, table);
    told.head.forEach(text => tag("th", {}, head, text));
    for (const row of told.rows) {
      const line = tag("tr", {}, body), name = tag("th", {}, line, data.entries[row.entry].name);
      const swatch = tag("span", {}, null, "■ ");
      swatch.style.color = colourOf(row.entry);
      name.prepend(swatch);
      row.cells.forEach(text => tag("td", {}, line, text));
    }
    tip.hidden = false;
    // beside the place and a little below it, on whichever side there is room
    const seen = svg.getBoundingClientRect(), ratio = seen.width / svg.viewBox.baseVal.width;
    const [left, top] = [seen.left + px * ratio, seen.top + py * ratio], [width, height] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(4, left + 16 + width > innerWidth ? left - 16 - width : left + 16)}px`;
    tip.style.top = `${Math.max(4, top + 14 + height > innerHeight ? top - 14 - height : top + 14)}px`;
  }
  svg.addEventListener("pointermove", event => {
    const seen = svg.getBoundingClientRect(), ratio = svg.viewBox.baseVal.width / seen.width;
    show((event.clientX - seen.left) * ratio, (event.clientY - seen.top) * ratio);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", event => {
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const view = svg.viewBox.baseVal, start = last || [view.width / 2, view.height / 2];
    show(start[0] + moves[event.key][0], start[1] + moves[event.key][1]);
  });
}

// --- curves with bands ---

function between(values, share) {
  const place = share * (values.length - 1), i = Math.min(values.length - 2, Math.floor(place));
  if (values[i] === null || values[i + 1] === null) return null;
  return values[i] + (place - i) * (values[i + 1] - values[i]);
}
function drawLines(panel, home, W, H) {
  const lane = 11;
  const box = { x: 62, y: panel.title ? 28 : 12, w: W - 76 };
  const floor = H - 44, depth = panel.lanes.length ? lane * panel.lanes.length + 8 : 0;
  box.h = floor - depth - box.y;
  const figure = tag("figure", { className: "panel" }, home);
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img",
    "aria-label": `${data.label} against ${panel.label}; arrow keys read values` }, figure);
  const x = scaleOf(...panel.limits, box.x, box.x + box.w, false);
  const y = scaleOf(data.span.low, data.span.high, box.y + box.h, box.y, data.span.log);
  const clip = `clip${document.querySelectorAll("svg").length}`;
  node("rect", { x: box.x, y: box.y, width: box.w, height: box.h }, node("clipPath", { id: clip }, node("defs", {}, svg)));
  for (const v of ticks(y.low, y.high, Math.max(3, box.h / 45), y.log))
    node("line", { class: "grid", x1: box.x, x2: box.x + box.w, y1: y.at(v), y2: y.at(v) }, svg);
  axes(svg, box, x, y, panel.label, data.label, floor);
  if (panel.title) node("text", { class: "strong", x: box.x, y: 18 }, svg, panel.title);
  if (panel.fixed !== null)
    node("line", { class: "axis", x1: x.at(panel.fixed), x2: x.at(panel.fixed), y1: box.y, y2: floor, "stroke-dasharray": "1 4" }, svg);
  const inner = node("g", { "clip-path": `url(#${clip})` }, svg), dots = node("g", { "clip-path": `url(#${clip})` }, svg);
  const floored = v => y.at(y.log ? Math.max(v, y.low * 1e-3) : v);
  const curves = [...panel.curves].sort((a, b) => (data.entries[a.entry].kind === "ensemble") - (data.entries[b.entry].kind === "ensemble"));
  for (const c of curves) {
    const merged = data.entries[c.entry].kind === "ensemble", colour = colourOf(c.entry);
    const g = node("g", { "data-entry": c.entry }, inner), n = c.mean.length;
    const along = i => x.at(c.from + i / (n - 1) * (c.to - c.from)).toFixed(1);
    const path = values => values.map((v, i) => `${along(i)},${floored(v).toFixed(1)}`).join("L");
    const band = (low, high, opacity) => node("path", { fill: colour, "fill-opacity": opacity,
      d: `M${path(high)}L${low.map((v, i) => `${along(i)},${floored(v).toFixed(1)}`).reverse().join("L")}Z` }, g);
    if (c.banded) {
      if (c.noisy) band(...c.noisy, 0.08);
      band(c.low, c.high, merged ? 0.16 : 0.22);
      if (merged) for (const limit of [c.low, c.high])
        node("path", { d: `M${path(limit)}`, fill: "none", stroke: colour, "stroke-width": .8, "stroke-opacity": .6 }, g);
    }
    for (const own of c.owners) node("path", { d: `M${path(own.mean)}`, fill: "none", stroke: colourOf(own.entry), "stroke-width": 1.2,
      "stroke-dasharray": DASHES[data.entries[own.entry].dashes] || null }, node("g", { "data-entry": own.entry }, inner));
    node("path", { d: `M${path(c.mean)}`, fill: "none", stroke: colour, "stroke-width": merged ? 2.4 : 1.8,
      "stroke-dasharray": DASHES[data.entries[c.entry].dashes] || null }, g);
    const own = node("g", { "data-entry": c.entry }, dots);
    (c.Z || []).forEach((z, i) => node("circle", { cx: x.at(z), cy: floored(c.at[i]), r: data.crowded ? 2.5 : 4, fill: colour,
      stroke: "var(--paper)" }, own));
  }
  panel.lanes.forEach((marks, k) => {
    const g = node("g", { "data-entry": marks.entry }, svg), base = floor - 4 - k * lane, colour = colourOf(marks.entry);
    for (const z of marks.Z) {
      if (z < x.low || z > x.high) continue;
      const at = x.at(z);
      if (marks.chosen && !many(marks)) node("path", { d: `M${at - 4},${base}h8l-4,-7z`, fill: colour }, g);
      else node("line", { x1: at, x2: at, y1: base, y2: base - 7, stroke: colour, "stroke-width": many(marks) ? 0.8 : 1.6 }, g);
    }
  });
  const guide = node("g", { class: "off" }, svg);
  readable(figure, svg, place => {
    guide.replaceChildren();
    guide.classList.toggle("off", !place);
    if (!place || place[0] < box.x || place[0] > box.x + box.w) return null;
    const value = x.back(place[0]), rows = [];
    node("line", { class: "axis", x1: place[0], x2: place[0], y1: box.y, y2: floor }, guide);
    for (const c of curves) {
      const share = (value - c.from) / (c.to - c.from);
      if (hidden.has(c.entry) || share < -1e-9 || share > 1 + 1e-9) continue;
      const read = values => between(values, Math.min(1, Math.max(0, share)));
      const range = (low, high) => `${numberText(read(low))} to ${numberText(read(high))}`;
      const told = c.owners.filter((own, i) => c.owners.findIndex(o => o.entry === own.entry) === i);  // a crowd shares one entry
      if (told.length === c.owners.length) for (const own of [...told].reverse()) if (!hidden.has(own.entry))
        rows.push({ entry: own.entry, cells: [numberText(read(own.mean))] });
      rows.push({ entry: c.entry, cells: [numberText(read(c.mean)), ...(c.low ? [range(c.low, c.high)] : []), ...(c.noisy ? [range(...c.noisy)] : [])] });
      node("circle", { cx: place[0], cy: floored(read(c.mean)), r: 4, fill: colourOf(c.entry), stroke: "var(--paper)" }, guide);
    }
    rows.reverse();  // ensembles, which are drawn last, are read first
    const any = part => curves.some(c => c[part] && !hidden.has(c.entry));
    const head = ["", data.label, ...(any("low") ? ["95% band"] : []), ...(any("noisy") ? ["95% of y"] : [])];
    return { title: `${panel.label} = ${numberText(value)}`, head, rows: rows.slice(0, 20) };
  }, W / 100);
}
