"use strict";
// The map of owners: who agrees with whom. It goes with page.js.

const FLAGGED = "flagged", UNCHECKED = "cannot be checked";  // verdicts that the map shows
const NEAR = 2, LEAST = Math.log1p(8);  // standard deviations; the map is never of less, so that those who agree stand together
function drawOwners() {
  const home = $("map"), { owners, about } = shown;
  if (!owners) return;
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.owner : undefined;
  home.replaceChildren();
  $("remarks").replaceChildren(...owners.remarks.map(text => tag("li", {}, null, text)));
  const able = about.modules.filter(m => m.parts[shown.function]), several = new Set(able.map(m => m.owner)).size;
  if (!owners.places.length) {
    $("map-hint").textContent = owners.why ? `There is no map: ${owners.why}` : several < 2 ? "There is one owner: nobody to compare with."
      : `There is a map of up to ${about.most_owners} owners with ${about.most_modules} modules; here are ${several} with ${able.length}. `
        + "The table says how each agrees with the rest.";
    return;
  }
  $("map-hint").textContent = "The further two owners are apart, the more standard deviations (on a logarithmic scale) lie between what they say, "
    + "where both know something" + (owners.differ ? ", beyond what owners here differ by anyway" : "")
    + (owners.shown < 0.9 ? `; a plane shows ${percent(owners.shown)} of it` : "") + ". Dashed: more than two." + (about.may.choose ? " Choose a dot to switch its owner." : "")
    + (owners.places.some(p => p.standing === FLAGGED) ? " Ringed: contradicts the others together." : "")
    + (owners.places.some(p => p.standing === UNCHECKED) ? " Dotted ring: cannot be checked." : "");
  const W = Math.max(260, Math.min(420, home.clientWidth || 340)), H = Math.round(0.76 * W);
  const longest = Math.max(...owners.places.map(p => Math.min(22, p.owner.length)));
  const room = { x: Math.min(0.3 * W, 24 + 6.5 * longest), y: 30 };  // names stand beside dots
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}` }, home);
  svg.setAttribute("aria-label", "Owners, placed by how they agree");
  const most = Math.max(...owners.places.map(p => p.rows));
  const dots = owners.places.map(p => ({ ...p, r: 5 + 7 * Math.sqrt(p.rows / most) }));
  turn(dots);
  const scale = place(dots, W, H, room), near = scale * Math.log1p(NEAR);
  const bar = node("g", { class: "bar" }, svg), [left, low] = [W - 8 - near, H - 8];
  node("path", { class: "axis", d: `M${left},${low - 4}v4h${near}v-4` }, bar);
  node("text", { x: left - 5, y: low, "text-anchor": "end" }, bar, `${NEAR} standard deviations`);
  const lines = owners.pairs.length;  // many lines between those who agree would hide everything
  for (const pair of owners.pairs) {
    const [a, b] = [dots[pair.a], dots[pair.b]], apart = pair.distance > NEAR;
    if (pair.distance === null || lines > (apart ? 200 : 30)) continue;
    const line = node("line", { class: apart ? "apart" : "together", x1: a.px, y1: a.py, x2: b.px, y2: b.py, "stroke-width": apart ? 1.2 : 1.6 }, svg);
    node("title", {}, line, `${a.owner} and ${b.owner}: ${short(pair.distance)} standard deviations apart`);
  }
  const taken = dots.map(d => [d.px - d.r, d.py - d.r, d.px + d.r, d.py + d.r]);
  dots.forEach((d, k) => {
    const on = d.modules.some(i => !off.has(i));
    const g = about.may.choose ? node("g", { role: "switch", tabindex: 0, "aria-checked": on, "data-owner": k }, svg) : node("g", {}, svg);
    g.setAttribute("aria-label", `${d.owner} counts`);
    const near = owners.pairs.filter(p => (p.a === k || p.b === k)).map(p => {
      const other = dots[p.a === k ? p.b : p.a].owner;
      return p.distance === null ? `${other}: they know too little in common` : `${other}: ${short(p.distance)} standard deviations`;
    });
    node("title", {}, g, [`${d.owner}, ${count(d.rows, "row")}`, ...(d.standing ? [d.reason || d.standing] : []), ...near.slice(0, 20)].join("\n"));
    node("circle", { cx: d.px, cy: d.py, r: d.r, fill: on ? d.colour : "var(--paper)", stroke: on ? "var(--paper)" : d.colour, "stroke-width": on ? 1.5 : 2 }, g);
    if (d.standing === FLAGGED || d.standing === UNCHECKED)
      node("circle", { class: d.standing === FLAGGED ? "ring flagged" : "ring unchecked", cx: d.px, cy: d.py, r: d.r + 3.5 }, g);
    if (d.again && on) node("circle", { cx: d.px, cy: d.py, r: 0.36 * d.r, fill: "var(--paper)" }, g);
    const text = node("text", { class: "label" }, g, d.owner.length > 22 ? `${d.owner.slice(0, 21)}…` : d.owner);
    label(text, d, taken, W, H);
    const change = () => { d.modules.forEach(i => on ? off.add(i) : off.delete(i)); refresh(); };
    if (!about.may.choose) return;
    g.addEventListener("click", change);
    g.addEventListener("keydown", event => { if (event.key === " " || event.key === "Enter") { event.preventDefault(); change(); } });
    if (String(k) === focused) g.focus();
  });
}
const placed = new Map();  // where owners were, by name
// The same picture turned or mirrored says the same: the one is taken that is nearest to what was there before.
function turn(dots) {
  const known = dots.filter(d => placed.has(d.owner)), mean = values => values.reduce((a, b) => a + b, 0) / (values.length || 1);
  const [cx, cy] = [mean(known.map(d => d.x)), mean(known.map(d => d.y))], before = known.map(d => placed.get(d.owner));
  const [bx, by] = [mean(before.map(b => b[0])), mean(before.map(b => b[1]))];
  let best = { gain: -1, cos: 1, sin: 0, mirror: 1 };
  for (const mirror of known.length > 1 ? [1, -1] : []) {
    let along = 0, across = 0;
    known.forEach((d, i) => {
      const [x, y, u, v] = [d.x - cx, mirror * (d.y - cy), before[i][0] - bx, before[i][1] - by];
      along += x * u + y * v;
      across += x * v - y * u;
    });
    const gain = Math.hypot(along, across);
    if (gain > best.gain + 1e-9) best = { gain, cos: gain ? along / gain : 1, sin: gain ? across / gain : 0, mirror };
  }
  placed.clear();
  for (const d of dots) {
    const [x, y] = [d.x - cx, best.mirror * (d.y - cy)];
    [d.x, d.y] = [best.cos * x - best.sin * y, best.sin * x + best.cos * y];
    placed.set(d.owner, [d.x, d.y]);
  }
}
function place(dots, W, H, room) {
  const ends = key => [Math.min(...dots.map(d => d[key])), Math.max(...dots.map(d => d[key]))];
  const [x, y] = [ends("x"), ends("y")];
  const scale = Math.min((W - 2 * room.x) / Math.max(x[1] - x[0], LEAST), (H - 2 * room.y) / Math.max(y[1] - y[0], 0.72 * LEAST));
  for (const d of dots) {
    d.px = W / 2 + scale * (d.x - (x[0] + x[1]) / 2);
    d.py = H / 2 - 8 - scale * (d.y - (y[0] + y[1]) / 2);
  }
  for (let round = 0; round < 60; round++)  // dots that would hide each other are moved apart
    for (let i = 0; i < dots.length; i++) for (let j = 0; j < i; j++) {
      const [a, b] = [dots[i], dots[j]];
      let [dx, dy] = [a.px - b.px, a.py - b.py], gap = Math.hypot(dx, dy);
      const wanted = a.r + b.r + 3;
      if (gap >= wanted) continue;
      if (gap < 1e-6) [dx, dy, gap] = [Math.cos(i), Math.sin(i), 1];
      const push = (wanted - Math.min(gap, wanted)) / 2 / gap;
      a.px += push * dx; a.py += push * dy; b.px -= push * dx; b.py -= push * dy;
    }
  for (const d of dots) {
    d.px = Math.max(d.r + 2, Math.min(W - d.r - 2, d.px));
    d.py = Math.max(d.r + 2, Math.min(H - 24 - d.r, d.py));
  }
  return scale;  // pixels for each unit
}
function label(text, d, taken, W, H) {
  const width = text.getComputedTextLength(), r = d.r + (d.standing === FLAGGED || d.standing === UNCHECKED ? 4 : 0), places = [
    [d.px + r + 5, d.py + 4], [d.px - r - 5 - width, d.py + 4], [d.px - width / 2, d.py - r - 6], [d.px - width / 2, d.py + r + 15],
    [d.px + r, d.py - r - 1], [d.px + r, d.py + r + 9], [d.px - r - width, d.py - r - 1], [d.px - r - width, d.py + r + 9],
  ];
  const box = ([x, y]) => [x, y - 11, x + width, y + 3];
  const cost = at => {
    const [left, top, right, bottom] = box(at);
    let sum = 200 * ((left < 0) + (right > W) + (top < 0) + (bottom > H));
    for (const [l, t, r, b] of taken) sum += Math.max(0, Math.min(right, r) - Math.max(left, l)) * Math.max(0, Math.min(bottom, b) - Math.max(top, t));
    return sum;
  };
  const best = places.reduce((a, b) => cost(b) < cost(a) - 1e-9 ? b : a);
  text.setAttribute("x", Math.max(0, Math.min(W - width, best[0])));
  text.setAttribute("y", best[1]);
  taken.push(box(best));
}
