"use strict";
// Maps over two inputs, drawn as pixels under SVG: for the page that plot.save writes, and for the one that serve shows.
// It goes with drawing.js. Pixels are a canvas, because a strict policy of a server forbids pictures made of text.

function pixels(values, side, span, colours, svg, place) {  // under a drawing, at a place that is given in its units
  const canvas = tag("canvas", { width: side, height: values.length / side }), ink = canvas.getContext("2d");
  const image = ink.createImageData(canvas.width, canvas.height), scale = scaleOf(span.low, span.high, 0, colours.length - 1, span.log);
  values.forEach((v, i) => {
    const row = canvas.height - 1 - Math.floor(i / side), k = 4 * (row * side + i % side);
    if (v === null) return;
    const at = Math.min(colours.length - 1, Math.max(0, Math.round(scale.at(v))));
    image.data.set([...colours[at], 255], k);
  });
  ink.putImageData(image, 0, 0);
  // pixels are centred on the places that were asked, so the outer ones reach half a pixel too far, and are cut
  const more = [1 / (canvas.width - 1), 1 / (canvas.height - 1)], view = svg.viewBox.baseVal;
  const share = (from, size, whole, extra) => [100 * (from - size * extra / 2) / whole, 100 * size * (1 + extra) / whole];
  const [left, wide] = share(place.x, place.w, view.width, more[0]), [top, high] = share(place.y, place.h, view.height, more[1]);
  const cut = more.map(m => 100 * m / 2 / (1 + m));
  Object.assign(canvas.style, { left: `${left}%`, width: `${wide}%`, top: `${top}%`, height: `${high}%`, clipPath: `inset(${cut[1]}% ${cut[0]}%)` });
  svg.before(canvas);
}
function drawMap(model, which, layer, home, guides, W = 480, H = 380) {
  const box = { x: 62, y: 28, w: W - 150, h: H - 72 }, side = data.side, floor = box.y + box.h;
  const figure = tag("figure", { className: "panel" }, home);
  if (model.entry !== undefined) figure.dataset.entry = model.entry;
  const name = model.name ?? data.entries[model.entry].name, sdMap = layer === data.layers[1];
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: 0, role: "img",
    "aria-label": `${name}: ${layer.label} over ${data.columns.join(" and ")}; arrow keys read values` }, figure);
  const [x, y] = [scaleOf(...data.region[0], box.x, box.x + box.w, false), scaleOf(...data.region[1], floor, box.y, false)];
  const clip = `clip${document.querySelectorAll("svg").length}`;
  node("rect", { x: box.x, y: box.y, width: box.w, height: box.h }, node("clipPath", { id: clip }, node("defs", {}, svg)));
  const inner = node("g", { "clip-path": `url(#${clip})` }, svg);
  pixels(layer.values[which], side, layer.span, layer.colours, svg, box);
  const labels = [];  // of contours, where there is room
  layer.contours[which].forEach(contour => {
    for (const line of contour.lines) {
      let d = "";
      for (let i = 0; i < line.length; i += 2) d += `${i ? "L" : "M"}${x.at(line[i]).toFixed(1)},${y.at(line[i + 1]).toFixed(1)}`;
      const dashes = layer.dashed ? { 0.2: "1.5 3", 0.8: "6 4" }[contour.level] : null;
      if (!sdMap) node("path", { d, fill: "none", stroke: "#000", "stroke-opacity": .4, "stroke-width": 2, "stroke-dasharray": dashes || null }, inner);
      node("path", { d, fill: "none", stroke: sdMap ? "#000" : "#fff", "stroke-width": 1.1, "stroke-dasharray": dashes || null }, inner);
    }
    const longest = contour.lines.reduce((a, b) => b.length > a.length ? b : a, []);
    if (longest.length <= 24 || contour.level === null) return;
    const places = [0.5, 0.25, 0.75, 0.12, 0.88].map(share => 2 * Math.floor(longest.length / 2 * share)).map(i => [x.at(longest[i]), y.at(longest[i + 1])]);
    const free = places.find(([px, py]) => px > box.x + 14 && px < box.x + box.w - 14 && py > box.y + 9 && py < floor - 5
      && labels.every(([qx, qy]) => Math.abs(px - qx) > 30 || Math.abs(py - qy) > 13));
    if (!free) return;  // without a number rather than over another one
    labels.push(free);
    node("text", { class: "level", x: free[0], y: free[1] + 3, "text-anchor": "middle", fill: sdMap ? "#000" : "#fff", stroke: sdMap ? "#fff" : "#0009" },
      inner, numberText(contour.level));
  });
  for (const marks of model.points) {
    const g = node("g", { "data-entry": marks.entry }, inner);
    const style = marks.chosen ? { fill: "none", stroke: sdMap ? "#000" : "#fff", "stroke-width": 1.3 }
      : { fill: colourOf(marks.entry), stroke: "#fff", "stroke-width": .8 };
    const shape = marks.chosen ? "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z" : SHAPES[data.entries[marks.entry].dashes];
    marks.x.forEach((v, i) => node("path", { d: shape, transform: `translate(${x.at(v)},${y.at(marks.y[i])})`, ...style }, g));
  }
  axes(svg, box, x, y, ...data.columns, floor);
  node("text", { class: "strong", x: box.x, y: 18 }, svg, data.models.length > 1 ? `${name}: ${layer.label}` : layer.label);
  const bar = { x: box.x + box.w + 14, w: 14 };
  if (data.read) classKey(svg, bar, box);
  else colourBar(svg, bar, box, layer);
  const guide = node("g", {}, svg);
  guides.push(place => {
    guide.replaceChildren();
    if (!place) return;
    const [px, py] = [x.at(place[0]), y.at(place[1])];
    for (const [stroke, width] of [["#000", 3], ["#fff", 1.2]])
      node("path", { d: `M${px - 9},${py}h18M${px},${py - 9}v18`, stroke, "stroke-width": width }, guide);
  });
  readable(figure, svg, place => {
    const inside = place && place[0] >= box.x && place[0] <= box.x + box.w && place[1] >= box.y && place[1] <= floor;
    const at = inside ? [x.back(place[0]), y.back(place[1])] : null;
    guides.forEach(draw => draw(at));
    if (!inside) return null;
    const share = [(place[0] - box.x) / box.w, (floor - place[1]) / box.h];
    const read = values => numberText(overPlane(values, share));
    const rows = data.read ? data.read.map(c => ({ entry: c.entry, cells: c.values.map(read) }))
      : data.models.map((m, k) => ({ entry: m.entry, cells: data.layers.map(l => read(l.values[k])) }));
    const head = data.read ? data.models.map(m => data.models.length > 1 ? m.name : "probability") : data.layers.map(l => l.label);
    return { title: data.columns.map((c, i) => `${c} = ${numberText(at[i])}`).join(", "), head: ["", ...head], rows: rows.filter(r => !hidden.has(r.entry)) };
  }, W / 100);
}
function colourBar(svg, bar, box, layer) {
  const { low, high, log } = layer.span, place = scaleOf(low, high, box.y + box.h, box.y, log), last = layer.colours.length - 1;
  const id = `bar${document.querySelectorAll("linearGradient").length}`;
  const gradient = node("linearGradient", { id, x1: 0, x2: 0, y1: 1, y2: 0 }, node("defs", {}, svg));
  layer.colours.forEach((c, k) => node("stop", { offset: k / last, "stop-color": `rgb(${c.join(",")})` }, gradient));
  node("rect", { x: bar.x, y: box.y, width: bar.w, height: box.h, fill: `url(#${id})` }, svg);
  for (const v of ticks(low, high, 6, log)) node("text", { x: bar.x + bar.w + 6, y: place.at(v) + 4 }, svg, numberText(v));
}
function classKey(svg, bar, box) {
  const classes = data.entries.filter(e => e.kind === "class"), most = Math.floor(box.h / 17) - 2;
  const line = (k, text) => node("text", { x: bar.x + bar.w + 4, y: box.y + 17 * k + 10 }, svg, text.length > 9 ? `${text.slice(0, 8)}…` : text);
  classes.slice(0, most).forEach((entry, k) => {
    node("rect", { x: bar.x, y: box.y + 17 * k, width: 11, height: 11, fill: colourOf(k) }, svg);
    node("title", {}, line(k, entry.name), entry.name);
  });
  if (classes.length > most) line(most, `+ ${classes.length - most}`);
  node("text", { x: bar.x, y: box.y + box.h - 14 }, svg, "paler:");
  node("text", { x: bar.x, y: box.y + box.h }, svg, "less certain");
}
function overPlane(values, share) {
  const side = data.side, row = Math.min(side - 2, Math.floor(share[1] * (side - 1)));
  const [below, above] = [row, row + 1].map(r => between(values.slice(r * side, (r + 1) * side), share[0]));
  if (below === null || above === null) return null;
  return below + (share[1] * (side - 1) - row) * (above - below);
}
