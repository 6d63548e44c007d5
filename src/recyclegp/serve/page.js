"use strict";
// The page of recyclegp serve. Names, units and messages come from files that strangers wrote: they are only ever set as
// text, never as markup; and the server's policy forbids everything else.
const $ = id => document.getElementById(id);
const off = new Set(), units = new Map();  // what is chosen: positions of modules, and changes of units by position
// a column of null is a map over both inputs, whose is of one module; levels are by column
const shown = { about: null, view: null, owners: null, column: 0, function: 0, levels: new Map(), whose: null, rows: [] };
let asking = null;  // the question that is being answered

// --- asking ---

async function ask(path, body, signal) {
  const options = body === undefined ? { signal } : {
    method: "POST", signal, body: body instanceof File ? body : JSON.stringify(body),
    headers: { "Content-Type": body instanceof File ? "application/octet-stream" : "application/json" },
  };
  const answer = await fetch(`api/${path}`, options);
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 409) setTimeout(begin, 500);  // the modules are others now
  throw new Error(said.error || `the program answers ${answer.status}`);
}
const choice = () => ({ off: [...off], units: Object.fromEntries(units) });
const question = () => ({ choice: choice(), column: shown.column, function: shown.function, levels: Object.fromEntries(shown.levels),
  whose: shown.whose, version: shown.about.version });

async function refresh() {
  if (asking) asking.abort();
  const mine = asking = new AbortController();
  sessionStorage.setItem(location.pathname, JSON.stringify(chosen()));
  busy(true);
  update();
  try {
    const asked = question(), answers = ["view", "owners"].map(path => ask(path, asked, mine.signal).then(a => a.json()));
    const [view, owners] = await Promise.allSettled(answers);
    if (asking !== mine) return;
    notices([]);
    shown.view = view.status === "fulfilled" ? view.value : null;
    shown.owners = owners.status === "fulfilled" ? owners.value : { places: [], pairs: [], remarks: [], shown: 1, why: owners.reason.message };
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
  for (const id of ["download", "picture", "predictions"]) $(id).disabled = !view || asking !== null;
  $("reset").hidden = asSent();
  if (view) [...$("function").options].forEach((option, k) => {
    option.textContent = names[k] + (view.flagged[k] ? ` (${view.flagged[k]} contradict${view.flagged[k] === 1 ? "s" : ""})` : "");
  });
  offerWhose();
  updateModules();
  drawCurves();
  drawOwners();
  drawScores();
}

function contradicting(rows) {
  const flagged = rows.filter(r => r.standing === "flagged").length;
  return flagged ? [`${flagged} contradict${flagged === 1 ? "s" : ""} the others`] : [];
}

// --- curves along one input, or a map over two ---

function drawCurves() {
  const home = $("curves"), legend = $("legend");
  $("curves-title").textContent = shown.column === null ? "Map" : "Curves";
  if (asking && shown.view) return;  // the old ones stay, faint, until there are new ones
  home.replaceChildren();
  legend.replaceChildren();
  if (!shown.view) return;
  data = shown.view.curves;
  const width = Math.max(280, Math.min(960, home.clientWidth || 800));
  const key = (text, draw) => {
    const item = tag("span", {}, legend), swatch = node("svg", { width: 28, height: 12, "aria-hidden": true }, item);
    draw(swatch);
    tag("span", { title: text }, item, text);
  };
  home.classList.toggle("maps", data.kind === "maps");
  if (data.kind === "maps") drawPlane(home, width, key);
  else drawAlong(home, width, key);
  if (data.left_out) key(`${data.left_out} more modules are not drawn`, () => {});
}
function drawPlane(home, width, key) {
  const [model] = data.models, wide = width >= 620 && data.layers.length > 1 ? Math.floor((width - 16) / 2) : Math.min(width, 560), guides = [];
  data.layers.forEach(layer => drawMap(model, 0, layer, home, guides, wide, Math.round(0.8 * wide)));
  for (const marks of model.points.length <= 14 ? model.points : []) {
    const name = data.entries[marks.entry].name;
    key(marks.chosen ? "points of the merged model" : `points of ${name}`, s => node("path", marks.chosen
      ? { d: "M9,6a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", fill: "none", stroke: "var(--ink)", "stroke-width": 1.3 }
      : { d: SHAPES[data.entries[marks.entry].dashes], transform: "translate(14,6)", fill: colourOf(marks.entry) }, s));
  }
}
function drawAlong(home, width, key) {
  drawLines(data.panels[0], home, width, Math.round(Math.max(270, Math.min(540, 0.68 * width))));
  const line = (swatch, colour, width, dashes) => node("path", { d: "M1,6h26", stroke: colour, "stroke-width": width, "stroke-dasharray": DASHES[dashes] || null }, swatch);
  const banded = data.panels[0].curves.some(c => c.banded), noisy = data.panels[0].curves.some(c => c.noisy);
  key("merged" + (banded ? ", with its 95% band" : "") + (noisy ? " and that of a new y" : ""), s => {
    if (banded) node("rect", { width: 28, height: 12, fill: "var(--ink)", "fill-opacity": .16 }, s);
    line(s, "var(--ink)", 2.4, "-");
  });
  data.entries.forEach((entry, i) => {
    if (entry.kind === "ensemble" && i > 0 && entry.dashes === "--") key(entry.name, s => line(s, colourOf(i), 2.4, "--"));
  });
  if (data.entries.length <= 14) data.entries.forEach((entry, i) => {
    if (entry.kind === "module") key(entry.dashes === ":" ? `${entry.name} (does not count)` : entry.name, s => line(s, colourOf(i), 1.8, entry.dashes));
  });
  const rug = data.panels[0].lanes.some(marks => marks.chosen && many(marks));
  key(data.entries.length <= 14 ? "points of the merged model" : "thin: modules", s =>
    data.entries.length > 14 ? line(s, "var(--faint)", 1, "-")
      : node("path", rug ? { d: "M8,2v8M13,2v8M18,2v8", stroke: "var(--ink)" } : { d: "M10,10h8l-4,-7z", fill: "var(--ink)" }, s));
}
function offerWhose() {  // a map is of one model: the merged one, or one of those that are switched on
  const { about } = shown, able = about.modules.flatMap((m, i) => !off.has(i) && m.parts[shown.function] ? [i] : []);
  $("of-whom").hidden = shown.column !== null || able.length < 2;
  $("whose").replaceChildren(new Option("merged", ""), ...able.map(i => new Option(about.modules[i].name, String(i))));
  $("whose").value = able.includes(shown.whose) ? String(shown.whose) : "";
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
  showTable();
  if (!view) return;
  const { kind, now, all } = view.scores, tested = kind === "test";
  if (now && now.error && typeof now.error === "string") $("scores-hint").textContent = now.error;
  else {
    const head = tag("tr", {}, tag("thead", {}, table)), body = tag("tbody", {}, table);
    for (const text of ["", "now", about.home ? "as the hub has it" : "all, as sent"]) tag("th", { scope: "col" }, head, text);
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
      : `Evidence is of the rows that count${about.functions.length > 1 ? ", of all functions together" : ""}: it compares units, not sets of owners.${about.tables ? " A table whose target is known can be scored." : ""}`;
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

// --- the beginning ---

const leftOut = () => shown.about.modules.flatMap((m, i) => m.left_out ? [i] : []);  // unless somebody switches them on
const asSent = () => units.size === 0 && off.size === leftOut().length && leftOut().every(i => off.has(i));
function usual() {
  off.clear();
  leftOut().forEach(i => off.add(i));
}

// What is chosen, by names: positions may be others after a reload, or when modules have come.
function chosen() {
  const { modules, functions, columns } = shown.about, names = some => [...some].map(i => modules[i].name);
  return { off: names(off), on: names(leftOut().filter(i => !off.has(i))), units: [...units].map(([i, change]) => [modules[i].name, change]),
    column: shown.column === null ? null : columns[shown.column], function: functions[shown.function], levels: [...shown.levels],
    whose: shown.whose === null ? null : modules[shown.whose].name };
}
function choose(before) {
  const { modules, functions, columns, levels } = shown.about, place = new Map(modules.map((m, i) => [m.name, i]));
  usual();
  units.clear();
  for (const name of before.off || []) if (place.has(name)) off.add(place.get(name));
  for (const name of before.on || []) off.delete(place.get(name));
  for (const [name, change] of before.units || []) if (place.has(name)) units.set(place.get(name), change);
  shown.column = before.column === null && columns.length === 2 ? null : Math.max(0, columns.indexOf(before.column));
  shown.function = Math.max(0, functions.indexOf(before.function));
  shown.whose = place.get(before.whose) ?? null;
  const known = new Map(before.levels || []);
  shown.levels = new Map(levels.map(l => [l.column, l.names.includes(known.get(l.column)) ? known.get(l.column) : l.usual]));
}
function remembered() {  // of this tab, before it was loaded again
  try {
    return JSON.parse(sessionStorage.getItem(location.pathname)) || {};
  } catch {
    return {};
  }
}

async function start() {
  const before = shown.about ? chosen() : remembered();
  shown.about = await (await ask("about")).json();
  choose(before);
  const { may, home } = shown.about;
  $("add").hidden = !may.add;
  $("download").hidden = !may.download;
  $("tables").hidden = !(may.add && shown.about.tables);
  for (const id of ["all", "none"]) $(id).hidden = !may.choose;
  if (home) $("home").replaceChildren(tag("a", { href: "../" }, null, home), ` has merged these modules. ${may.choose ? "What you try here changes nothing there." : "You can look at them; who counts is not chosen here."}`);
  const offer = (name, label, names, chosen) => {
    $(name).replaceChildren(...names.map((text, j) => new Option(text, String(j), false, j === chosen)));
    $(label).hidden = names.length < 2;
  };
  offer("column", "along", shown.about.columns, shown.column);
  if (shown.about.columns.length === 2) $("column").append(new Option("both, as a map", "", false, shown.column === null));
  offer("function", "which", shown.about.functions, shown.function);
  offerLevels();
  buildModules();
  await refresh();
}
function offerLevels() {  // of each column of categories, one at a time
  $("levels").replaceChildren(...shown.about.levels.map(({ column, names }) => {
    const label = tag("label", {}, null, `${column} `), list = tag("select", {}, label);
    list.append(...names.map(name => new Option(name, name, false, name === shown.levels.get(column))));
    list.addEventListener("change", () => { shown.levels.set(column, list.value); refresh(); });
    return label;
  }));
}
$("column").addEventListener("change", event => { shown.column = event.target.value === "" ? null : Number(event.target.value); refresh(); });
$("whose").addEventListener("change", event => { shown.whose = event.target.value === "" ? null : Number(event.target.value); refresh(); });
$("function").addEventListener("change", event => { shown.function = Number(event.target.value); buildModules(); refresh(); });
$("all").addEventListener("click", () => { off.clear(); refresh(); });
$("none").addEventListener("click", () => { shown.about.modules.forEach((_, i) => off.add(i)); refresh(); });
$("reset").addEventListener("click", () => { usual(); units.clear(); shown.rows.forEach((_, i) => close(i)); refresh(); });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width && shown.about) { width = innerWidth; drawCurves(); drawOwners(); } });
function begin() { start().catch(error => notice(error.message, true)); }
addEventListener("DOMContentLoaded", begin);  // when the other scripts are there
