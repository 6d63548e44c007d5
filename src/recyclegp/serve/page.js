"use strict";
// The page of recyclegp serve. Names, units and messages come from files that strangers wrote: they are only ever set as
// text, never as markup; and the server's policy forbids everything else.
const LARGEST_FILE = 64 * 2 ** 20;
const $ = id => document.getElementById(id);
const off = new Set(), units = new Map();  // what is chosen: positions of modules, and changes of units by position
const shown = { about: null, view: null, owners: null, column: 0, function: 0, rows: [] };
let asking = null;  // the question that is being answered
let oldMap = true;  // have units changed since the map was made?

// --- asking ---

async function ask(path, body, signal) {
  const options = body === undefined ? { signal } : {
    method: "POST", signal, body: body instanceof File ? body : JSON.stringify(body),
    headers: { "Content-Type": body instanceof File ? "application/octet-stream" : "application/json" },
  };
  const answer = await fetch(`api/${path}`, options);
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error || `the program answers ${answer.status}`);
}
const choice = () => ({ off: [...off], units: Object.fromEntries(units) });

async function refresh(withMap) {
  if (asking) asking.abort();
  const mine = asking = new AbortController();
  oldMap ||= withMap;
  busy(true);
  update();
  try {
    const question = { choice: choice(), column: shown.column, function: shown.function };
    const questions = [ask("view", question, mine.signal).then(a => a.json())];
    if (oldMap) questions.push(ask("owners", question, mine.signal).then(a => a.json()));
    const [view, owners] = await Promise.allSettled(questions);
    if (asking !== mine) return;
    notices([]);
    oldMap = false;
    shown.view = view.status === "fulfilled" ? view.value : null;
    if (owners) shown.owners = owners.status === "fulfilled" ? owners.value : { places: [], pairs: [], shown: 1, why: owners.reason.message };
    if (view.status === "rejected") notices([[view.reason.message, true]]);
    else notices(view.value.notes.map(note => [note, false]));
  } finally {
    if (asking === mine) {
      asking = null;
      busy(false);
      update();
    }
  }
}

function busy(is) {
  $("busy").hidden = !is;
  document.body.setAttribute("aria-busy", String(is));
  for (const id of ["curves", "scores", "facts"]) $(id).classList.toggle("stale", is);
}

function notices(said) {
  $("notices").replaceChildren();
  for (const [text, isError] of said) notice(text, isError);
}
function notice(text, isError) {
  const box = tag("div", { className: isError ? "notice error" : "notice" }, $("notices"));
  tag("p", {}, box, text);
  const close = tag("button", { type: "button", className: "small", onclick: () => box.remove() }, box, "Close");
  close.setAttribute("aria-label", "Close this message");
}

// --- words ---

const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const percent = v => v === null ? "–" : v < 0.005 && v > 0 ? "< 1%" : `${Math.round(100 * v)}%`;
const short = v => v === null || v === undefined ? "–" : String(Number(v.toPrecision(3))).replace("-", "−");
const listed = names => names.length > 4 ? `${names.length} inputs` : [...names.slice(0, -2), names.slice(-2).join(" and ")].join(", ");
const moved = (name, scale, shift) => name + (scale === 1 ? "" : ` × ${numberText(scale)}`)
  + (shift === 0 ? "" : ` ${shift < 0 ? "−" : "+"} ${numberText(Math.abs(shift))}`);
const at = (list, j, usual) => (list || [])[j] ?? usual;  // changes are lists, for outputs and for inputs; or nothing
function inWords(change, m) {
  const said = [], say = (names, scales, shifts) => names.forEach((name, j) => {
    const words = moved(name, at(scales, j, 1), at(shifts, j, 0));
    if (words !== name) said.push(words);
  });
  say(m.outputs, change.output_scale, change.output_shift);
  say(m.columns, change.input_scale, change.input_shift);
  m.outputs.forEach((name, j) => { if (at(change.unit, j, null)) said.push(m.outputs.length > 1 ? `${name} in ${change.unit[j]}` : `in ${change.unit[j]}`); });
  return said.join(", ");
}

// --- everything that depends on what is chosen ---

function update() {
  const { about, view } = shown;
  const on = about.modules.length - off.size, rows = view ? view.facts.rows : 0;
  $("summary").textContent = asking ? `Merging ${count(on, "module")}…`
    : view ? [`${view.facts.modules} of ${count(about.modules.length, "module")} count`, `${count(rows, "row")} of data`, ...contradicting(view.rows)].join(" · ")
    : "Nothing is merged.";
  const names = about.functions, target = names.length > 1 ? names[shown.function] : about.modules.map(m => m.parts[0].target).find(t => t) || "f";
  $("title").textContent = `${target} by ${listed(about.columns)}`;
  document.title = `${target} · recyclegp`;
  $("download").disabled = !view || asking !== null;
  $("reset").hidden = off.size === 0 && units.size === 0;
  if (view) [...$("function").options].forEach((option, k) => {
    option.textContent = names[k] + (view.flagged[k] ? ` (${view.flagged[k]} contradict${view.flagged[k] === 1 ? "s" : ""})` : "");
  });
  updateModules();
  drawCurves();
  drawMap();
  drawScores();
}

function contradicting(rows) {
  const flagged = rows.filter(r => r.standing === "flagged").length;
  return flagged ? [`${flagged} contradict${flagged === 1 ? "s" : ""} the others`] : [];
}

// --- curves ---

function drawCurves() {
  const home = $("curves"), legend = $("legend");
  if (asking && shown.view) return;  // the old ones stay, faint, until there are new ones
  home.replaceChildren();
  legend.replaceChildren();
  if (!shown.view) return;
  data = shown.view.curves;
  const width = Math.max(280, Math.min(960, home.clientWidth || 800));
  drawLines(data.panels[0], home, width, Math.round(Math.max(270, Math.min(540, 0.68 * width))));
  const key = (text, draw) => {
    const item = tag("span", {}, legend), swatch = node("svg", { width: 28, height: 12, "aria-hidden": true }, item);
    draw(swatch);
    tag("span", { title: text }, item, text);
  };
  const line = (swatch, colour, width, dashes) => node("path", { d: "M1,6h26", stroke: colour, "stroke-width": width, "stroke-dasharray": DASHES[dashes] || null }, swatch);
  const banded = data.panels[0].curves.some(c => c.banded), noisy = data.panels[0].curves.some(c => c.noisy);
  key("merged" + (banded ? ", with its 95% band" : "") + (noisy ? " and that of a new y" : ""), s => {
    if (banded) node("rect", { width: 28, height: 12, fill: "var(--ink)", "fill-opacity": .16 }, s);
    line(s, "var(--ink)", 2.4, "-");
  });
  data.entries.forEach((entry, i) => {
    if (entry.kind === "ensemble" && i > 0 && entry.dashes === "--") key("merged, all as sent", s => line(s, colourOf(i), 2.4, "--"));
  });
  if (data.entries.length <= 14) data.entries.forEach((entry, i) => {
    if (entry.kind === "module") key(entry.dashes === ":" ? `${entry.name} (does not count)` : entry.name, s => line(s, colourOf(i), 1.8, entry.dashes));
  });
  key(data.entries.length <= 14 ? "points of the merged model" : "thin: modules", s =>
    data.entries.length <= 14 ? node("path", { d: "M10,10h8l-4,-7z", fill: "var(--ink)" }, s) : line(s, "var(--faint)", 1, "-"));
  if (data.fixed) key(`at ${data.fixed}`, () => {});
  if (data.left_out) key(`${data.left_out} more modules are not drawn`, () => {});
}

// --- the map of owners ---

function drawMap() {
  const home = $("map"), { owners, about } = shown;
  if (!owners) return;
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.owner : undefined;
  home.replaceChildren();
  const able = about.modules.filter(m => m.parts[shown.function]), several = new Set(able.map(m => m.owner)).size;
  if (!owners.places.length) {
    $("map-hint").textContent = owners.why ? `There is no map: ${owners.why}` : several < 2 ? "There is one owner: nobody to compare with."
      : `There is a map of up to ${about.most_owners} owners with ${about.most_modules} modules; here are ${several} with ${able.length}. `
        + "The table says how each agrees with the rest.";
    return;
  }
  $("map-hint").textContent = "The further two owners are apart, the more standard deviations (on a logarithmic scale) lie between what they say, "
    + "where both know something"
    + (owners.shown < 0.9 ? `; a plane shows ${percent(owners.shown)} of it` : "") + ". Dashed: more than two. Choose a dot to switch its owner.";
  const W = Math.max(260, Math.min(420, home.clientWidth || 340)), H = Math.round(0.72 * W), room = { x: 46, y: 26 };
  const svg = node("svg", { viewBox: `0 0 ${W} ${H}` }, home);
  svg.setAttribute("aria-label", "Owners, placed by how they agree");
  const most = Math.max(...owners.places.map(p => p.rows));
  const dots = owners.places.map(p => ({ ...p, r: 5 + 7 * Math.sqrt(p.rows / most) }));
  place(dots, W, H, room);
  const lines = owners.pairs.length;  // many lines between those who agree would hide everything
  for (const pair of owners.pairs) {
    const [a, b] = [dots[pair.a], dots[pair.b]], apart = pair.distance > 2;
    if (pair.distance === null || lines > (apart ? 200 : 30)) continue;
    const line = node("line", { class: apart ? "apart" : "together", x1: a.px, y1: a.py, x2: b.px, y2: b.py, "stroke-width": apart ? 1.2 : 1.6 }, svg);
    node("title", {}, line, `${a.owner} and ${b.owner}: ${short(pair.distance)} standard deviations apart`);
  }
  const taken = dots.map(d => [d.px - d.r, d.py - d.r, d.px + d.r, d.py + d.r]);
  dots.forEach((d, k) => {
    const on = d.modules.some(i => !off.has(i));
    const g = node("g", { role: "switch", tabindex: 0, "aria-checked": on, "data-owner": k }, svg);
    g.setAttribute("aria-label", `${d.owner} counts`);
    const near = owners.pairs.filter(p => (p.a === k || p.b === k)).map(p => {
      const other = dots[p.a === k ? p.b : p.a].owner;
      return p.distance === null ? `${other}: they know too little in common` : `${other}: ${short(p.distance)} standard deviations`;
    });
    node("title", {}, g, [`${d.owner}, ${count(d.rows, "row")}`, ...near.slice(0, 20)].join("\n"));
    node("circle", { cx: d.px, cy: d.py, r: d.r, fill: on ? d.colour : "var(--paper)", stroke: on ? "var(--paper)" : d.colour, "stroke-width": on ? 1.5 : 2 }, g);
    if (d.again && on) node("circle", { cx: d.px, cy: d.py, r: 0.36 * d.r, fill: "var(--paper)" }, g);
    const text = node("text", { class: "label" }, g, d.owner.length > 22 ? `${d.owner.slice(0, 21)}…` : d.owner);
    label(text, d, taken, W, H);
    const turn = () => { d.modules.forEach(i => on ? off.add(i) : off.delete(i)); refresh(false); };
    g.addEventListener("click", turn);
    g.addEventListener("keydown", event => { if (event.key === " " || event.key === "Enter") { event.preventDefault(); turn(); } });
    if (String(k) === focused) g.focus();
  });
}
function place(dots, W, H, room) {
  const ends = key => [Math.min(...dots.map(d => d[key])), Math.max(...dots.map(d => d[key]))];
  const [x, y] = [ends("x"), ends("y")];
  const scale = Math.min((W - 2 * room.x) / (x[1] - x[0] || 1e-9), (H - 2 * room.y) / (y[1] - y[0] || 1e-9));
  for (const d of dots) {
    d.px = W / 2 + scale * (d.x - (x[0] + x[1]) / 2);
    d.py = H / 2 - scale * (d.y - (y[0] + y[1]) / 2);
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
    d.py = Math.max(d.r + 2, Math.min(H - d.r - 2, d.py));
  }
}
function label(text, d, taken, W, H) {
  const width = text.getComputedTextLength(), places = [
    [d.px + d.r + 5, d.py + 4], [d.px - d.r - 5 - width, d.py + 4], [d.px - width / 2, d.py - d.r - 6], [d.px - width / 2, d.py + d.r + 15],
    [d.px + d.r, d.py - d.r - 1], [d.px + d.r, d.py + d.r + 9], [d.px - d.r - width, d.py - d.r - 1], [d.px - d.r - width, d.py + d.r + 9],
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

// --- scores ---

const TESTED = [["rmse", "RMSE", -1], ["nlpd", "NLPD", -1], ["coverage", "coverage of 95% bands", 0], ["error", "error rate", -1]];
const UNTESTED = [["evidence", "log evidence", 0], ["slack", "slack, nats", 0]];
function drawScores() {
  const table = $("scores"), facts = $("facts"), { view, about } = shown;
  if (asking && view) return;
  table.replaceChildren();
  facts.replaceChildren();
  $("scores-hint").textContent = "";
  if (!view) return;
  const { kind, now, all } = view.scores, tested = kind === "test";
  if (now && now.error && typeof now.error === "string") $("scores-hint").textContent = now.error;
  else {
    const head = tag("tr", {}, tag("thead", {}, table)), body = tag("tbody", {}, table);
    for (const text of ["", "now", "all, as sent"]) tag("th", { scope: "col" }, head, text);
    for (const [name, title, sign] of tested ? TESTED : UNTESTED) {
      if (now[name] === null || now[name] === undefined) continue;
      const line = tag("tr", {}, body), before = all && typeof all[name] === "number" ? all[name] : null;
      tag("th", { scope: "row" }, line, title);
      const text = v => v === null ? "–" : name === "coverage" || name === "error" ? `${(100 * v).toFixed(1)}%` : v.toPrecision(4).replace("-", "−");
      const cell = tag("td", { className: "now" }, line, text(now[name]));
      cell.dataset.score = name;
      if (sign && before !== null && Math.abs(now[name] - before) > 5e-4 * Math.abs(before)) cell.classList.add(sign * (now[name] - before) > 0 ? "better" : "worse");
      tag("td", {}, line, text(before));
    }
    $("scores-hint").textContent = tested
      ? `On ${count(about.test.rows, "row")} of ${about.test.label}${view.facts.offset_sd || view.facts.smooth_sd ? ", taken to be somebody new's" : ""}. `
        + "RMSE and NLPD, the mean of −log p(y): lower is better."
      : `Evidence is of the rows that count${about.functions.length > 1 ? ", of all functions together" : ""}: it compares units, not sets of owners. With --test TABLE there are scores.`;
  }
  const f = view.facts, difference = [];
  if (f.offset_sd) difference.push(`a constant, sd ${short(f.offset_sd)}`);
  if (f.smooth_sd) difference.push(`a smooth function, ${short(f.smooth_sd)} times the shared one`);
  const lines = [["form", f.form === "exact" ? `exact, ${count(f.points, "point")}` : count(f.points, "point")], ["kernel", f.kernel], ...(f.noise_sd === null ? [] : [["noise sd", short(f.noise_sd)]]),
    ["owners differ by", difference.join(" and ") || "nothing that shows"]];
  if (!f.converged) lines.push(["search", "has not converged"]);
  for (const [term, text] of lines) {
    const fact = tag("div", {}, facts);
    tag("dt", {}, fact, term);
    tag("dd", {}, fact, text);
  }
}

// --- the table of modules ---

const ORIGIN = { placed: ["", "placed by recyclegp, and none is a data row"], unknown: [" ?", "chosen by somebody else, or rounded: data rows may be among them"], rows: [" !", "data rows are among them"] };
const HEAD = [["", "switch-cell"], ["module", ""], ["rows", "number"], ["points", "number"], ["kernel", "kernel"], ["likelihood", "likelihood"], ["kept", "number"],
  ["noise sd", "number"], ["agreement", "number"], ["others add", "number"], ["verdict", "verdict"], ["", "units-cell"]];
function buildModules() {
  const table = $("modules"), head = tag("tr", {}), body = table.tBodies[0];
  table.tHead.replaceChildren(head);
  for (const [text, kind] of HEAD) tag("th", { scope: "col", className: kind }, head, text);
  body.replaceChildren();
  shown.rows = shown.about.modules.map((m, i) => moduleRow(m, i, body));
}
function moduleRow(m, i, body) {
  const row = tag("tr", {}, body), cell = (kind, label) => {
    const made = tag("td", { className: kind }, row);
    if (label) made.dataset.label = label;
    return made;
  };
  const turn = tag("input", { type: "checkbox", className: "switch", onchange: () => { turn.checked ? off.delete(i) : off.add(i); refresh(false); } }, cell("switch-cell"));
  turn.setAttribute("role", "switch");
  turn.setAttribute("aria-label", `${m.name} counts`);
  const name = tag("div", { className: "name" }, tag("th", { scope: "row" }, row)), dot = tag("span", { className: "dot" }, name);
  dot.style.backgroundColor = m.colour;
  dot.classList.toggle("again", m.again);
  const words = tag("span", {}, name, m.name);
  tag("span", { className: "sub" }, words, [m.owner === m.name ? "" : `of ${m.owner}`, m.source, m.signed].filter(Boolean).join(" · "));
  const changed = tag("span", { className: "sub changed", hidden: true }, words);
  const part = m.parts[shown.function], text = value => part ? value(part) : "–";
  cell("number", "rows").append(text(p => p.rows.toLocaleString("en")));
  const points = cell("number", "points");
  points.append(text(p => p.points.toLocaleString("en") + ORIGIN[p.origin][0]));
  points.title = text(p => ORIGIN[p.origin][1]);
  const kernel = cell("kernel", "kernel");
  kernel.append(text(p => p.kernel));
  kernel.title = text(p => p.kernel_in_full);
  cell("likelihood", "likelihood").append(text(p => p.likelihood) + (m.converged ? "" : ", not converged"));
  cell("number", "kept").append(text(p => percent(p.kept)));
  const noise = cell("number", "noise sd"), agreement = cell("number", "agreement"), added = cell("number", "others add"), verdict = cell("verdict");
  const units = tag("button", { type: "button", className: "small", onclick: () => edit(i) }, cell("units-cell"), "Units…");
  units.setAttribute("aria-expanded", "false");
  units.setAttribute("aria-label", `Units of ${m.name}`);
  added.title = "nats for each row: by how much what the others say makes its rows more probable; below zero they mislead";
  return { row, turn, noise, agreement, added, verdict, changed, units, editor: null };
}
function updateModules() {
  const known = new Map((shown.view ? shown.view.rows : []).map(r => [r.position, r]));
  shown.rows.forEach((line, i) => {
    const m = shown.about.modules[i], part = m.parts[shown.function], away = off.has(i), told = away ? undefined : known.get(i);
    line.turn.checked = !away;
    line.row.classList.toggle("away", away);
    line.changed.hidden = !units.has(i);
    line.changed.textContent = units.has(i) ? `units: ${inWords(units.get(i), m)}` : "";
    if (asking && !away) return;  // verdicts stay until there are new ones
    line.noise.replaceChildren(short(told ? told.noise_sd : part && part.noise_sd));
    line.added.replaceChildren(!told || told.others_add === null ? "–" : told.others_add.toFixed(2));
    line.agreement.replaceChildren();
    line.verdict.replaceChildren();
    if (!told || told.agreement === null) line.agreement.append("–");
    else {
      const meter = tag("span", { className: told.agreement < 0.01 ? "meter low" : "meter" }, line.agreement);
      tag("i", {}, meter).style.width = `${Math.max(4, 100 * told.agreement)}%`;
      tag("span", { className: "percent" }, line.agreement, percent(told.agreement));
      line.agreement.title = `squared distance from what the others say: ${short(told.surprise)} per number, about 1 where they agree`;
    }
    const pill = (kind, text) => tag("span", { className: `pill ${kind}` }, line.verdict, text);
    if (away) pill("", "switched off");
    else if (!part) pill("", `has no ${shown.about.functions[shown.function]}`);
    else if (!told) pill("", "not merged");
    else if (told.standing === "flagged") pill("flagged", told.reason || "contradicts the others");
    else if (told.standing === "cannot be checked") pill("unchecked", "cannot be checked");
    else if (told.standing === "trusted") pill("trusted", told.offset === null ? "trusted" : `trusted, offset ${short(told.offset)}`);
    else pill("", "nobody looked");
    if (told && told.standing === "flagged" && !told.counts) tag("span", { className: "sub" }, line.verdict, "does not count");
    if (told && told.remedy) {
      const sure = combined(units.get(i) || {}, told.remedy);
      tag("button", { type: "button", className: "small try", onclick: () => setUnits(i, sure) }, line.verdict, `Try ${inWords(told.remedy, m)}`);
    }
  });
}

// --- units ---

function combined(first, then) {  // what `then` makes of a module that `first` has changed already
  const scaled = of => then[`${of}_scale`].map((s, j) => s * at(first[`${of}_scale`], j, 1));
  const shifted = of => then[`${of}_shift`].map((b, j) => b + then[`${of}_scale`][j] * at(first[`${of}_shift`], j, 0));
  return {
    output_scale: scaled("output"), output_shift: shifted("output"), input_scale: scaled("input"), input_shift: shifted("input"),
    unit: then.output_scale.map((s, j) => s !== 1 || then.output_shift[j] !== 0 ? null : at(first.unit, j, null)),
  };
}
function setUnits(i, change) {
  const usual = (list, value) => (list || []).every(v => v === value);
  const nothing = usual(change.output_scale, 1) && usual(change.output_shift, 0) && usual(change.unit, null)
    && usual(change.input_scale, 1) && usual(change.input_shift, 0);
  if (nothing) units.delete(i); else units.set(i, change);
  close(i);
  refresh(true);
}
function close(i) {
  const line = shown.rows[i];
  if (!line.editor) return;
  line.editor.remove();
  line.editor = null;
  line.units.setAttribute("aria-expanded", "false");
}
function edit(i) {
  const line = shown.rows[i], m = shown.about.modules[i], part = m.parts[shown.function];
  if (line.editor) return close(i);
  const now = units.get(i) || {}, editor = line.editor = tag("tr", { className: "editor" });
  line.row.after(editor);
  line.units.setAttribute("aria-expanded", "true");
  const cell = tag("td", { colSpan: HEAD.length }, editor), form = tag("form", { className: "fields" }, cell);
  const field = (text, value) => {
    const input = tag("input", { type: "text", value: String(value), autocomplete: "off" });
    tag("label", {}, form, text).append(input);
    return input;
  };
  const number = (text, value) => {
    const input = field(text, value);
    input.inputMode = "decimal";
    return input;
  };
  const changes = part !== null && part.has_units, k = changes ? part.output : 0, y = m.outputs[k];
  const scale = changes ? number(`${y} × (scale)`, at(now.output_scale, k, 1)) : null, shift = changes ? number(`${y} + (shift)`, at(now.output_shift, k, 0)) : null;
  const rescaled = at(now.output_scale, k, 1) !== 1 || at(now.output_shift, k, 0) !== 0;  // then nobody knows the unit, unless it is said
  const unit = changes ? field("unit afterwards", at(now.unit, k, null) || (rescaled ? "" : part.unit || "")) : null;
  // categories have no place that could be moved
  const inputs = m.columns.map((c, j) => m.categories.includes(j) ? null
    : [number(`${c} × (scale)`, (now.input_scale || [])[j] ?? 1), number(`${c} + (shift)`, (now.input_shift || [])[j] ?? 0)]);
  const scales = new Set([scale, ...inputs.map(pair => pair && pair[0])]);  // none of which may be zero
  const read = input => {
    const value = input === null ? 0 : Number(input.value.trim().replace("−", "-").replace(",", "."));
    const fine = input === null || (input.value.trim() !== "" && Number.isFinite(value) && !(scales.has(input) && value === 0));
    if (input) input.setCustomValidity(fine ? "" : scales.has(input) ? "a number that is not zero" : "a number");
    return value;
  };
  tag("button", { type: "submit", className: "primary small" }, form, "Apply");
  tag("button", { type: "button", className: "small", onclick: () => setUnits(i, {}) }, form, "As sent");
  form.addEventListener("submit", event => {
    event.preventDefault();
    const set = (list, usual, value) => m.outputs.map((_, j) => j === k && changes ? value : at(list, j, usual));  // of this output alone
    const change = { output_scale: set(now.output_scale, 1, scale && read(scale)), output_shift: set(now.output_shift, 0, shift && read(shift)),
      input_scale: inputs.map(pair => pair ? read(pair[0]) : 1), input_shift: inputs.map(pair => pair ? read(pair[1]) : 0) };
    if (!form.reportValidity()) return;
    const said = unit ? unit.value.trim() : "", other = change.output_scale[k] !== 1 || change.output_shift[k] !== 0;
    setUnits(i, { ...change, unit: set(now.unit, null, other || said !== (part && part.unit || "") ? said || null : null) });
  });
  form.addEventListener("input", event => event.target.setCustomValidity(""));
  (scale || inputs.find(pair => pair)[0]).focus();
}

// --- files ---

async function download() {
  try {
    const content = await (await ask("file", { choice: choice() })).blob();
    const address = URL.createObjectURL(content);
    tag("a", { href: address, download: "merged.safetensors" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) {
    notice(error.message, true);
  }
}
async function add(files) {
  let added = 0;
  busy(true);
  const refused = [];
  for (const file of files) {
    try {
      if (file.size > LARGEST_FILE) throw new Error(`${file.name}: larger than the ${LARGEST_FILE / 2 ** 20} MiB that this page takes`);
      added += (await (await ask(`upload?name=${encodeURIComponent(file.name)}`, file)).json()).added;
    } catch (error) {
      refused.push(error.message);
    }
  }
  busy(false);
  if (added) await start();
  refused.forEach(text => notice(text, true));
}

// --- the beginning ---

async function start() {
  const known = shown.about ? shown.about.functions[shown.function] : null;
  shown.about = await (await ask("about")).json();
  shown.function = Math.max(0, shown.about.functions.indexOf(known));  // more modules may have more functions
  const choose = (name, label, names, chosen) => {
    $(name).replaceChildren(...names.map((text, j) => new Option(text, String(j), false, j === chosen)));
    $(label).hidden = names.length < 2;
  };
  choose("column", "along", shown.about.columns, shown.column);
  choose("function", "which", shown.about.functions, shown.function);
  buildModules();
  await refresh(true);
}
$("column").addEventListener("change", event => { shown.column = Number(event.target.value); refresh(false); });
$("function").addEventListener("change", event => { shown.function = Number(event.target.value); buildModules(); refresh(true); });
$("all").addEventListener("click", () => { off.clear(); refresh(false); });
$("none").addEventListener("click", () => { shown.about.modules.forEach((_, i) => off.add(i)); refresh(false); });
$("reset").addEventListener("click", () => { off.clear(); units.clear(); shown.rows.forEach((_, i) => close(i)); refresh(true); });
$("download").addEventListener("click", download);
$("add").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", event => { add([...event.target.files]); event.target.value = ""; });
let inside = 0;  // elements that a dragged file is over
addEventListener("dragenter", event => { event.preventDefault(); inside++; $("drop").hidden = false; });
addEventListener("dragleave", () => { inside = Math.max(0, inside - 1); if (!inside) $("drop").hidden = true; });
addEventListener("dragover", event => event.preventDefault());
addEventListener("drop", event => { event.preventDefault(); inside = 0; $("drop").hidden = true; add([...event.dataTransfer.files]); });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width && shown.about) { width = innerWidth; drawCurves(); drawMap(); } });
start().catch(error => notice(error.message, true));
