"use strict";
// What the hub knows, drawn anew every few seconds. Everything that people have chosen is set as text, never as markup.

const EVERY = 3000; // milliseconds
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const whole = (n) => (n === null || n === undefined ? "" : Math.round(n).toLocaleString("en"));
const nats = (x) => (x === null || x === undefined ? "" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3));
const short = (x) => String(Number(x.toPrecision(4)));
const plain = (x) => (x === null || x === undefined ? "" : x.toFixed(3).replace("-", "−"));

function ago(then, now) {
  if (!then) return "";
  const s = Math.max(0, now - then);
  if (s < 60) return "just now";
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} d ago`;
}

function cell(label, content, className) {
  const made = element("td", null, className || "");
  made.dataset.label = label;
  if (content instanceof Node) made.append(content);
  else made.textContent = content;
  if (content === "") made.classList.add("empty");
  return made;
}

function standing(person) {
  const box = element("div");
  const kinds = { counts: "good", "does not count": "bad", "no module yet": "unsure", "waits to be approved": "unsure" };
  box.append(element("span", person.what, `pill ${kinds[person.what] || ""}`));
  if (person.late) box.append(" ", element("span", "late", "pill bad"));
  else if (person.waited_for) box.append(" ", element("span", "asked", "pill unsure"));
  if (person.epsilon !== null)
    box.append(element("div", `private answers: ε = ${short(person.epsilon)}, δ = ${short(person.delta)} in all`, "why"));
  if (person.flagged) box.append(element("div", person.flagged, "why"));
  return box;
}

function owners(state) {
  const rows = state.people.filter((p) => p.role !== "coordinator").map((p) => {
    const row = element("tr");
    row.append(
      cell("name", p.name, "name"),
      cell("module", standing(p)),
      cell("rows", whole(p.rows), "number"),
      cell("points", whole(p.points), "number"),
      cell("gain", nats(p.gain), "number"),
      cell("seen", ago(p.seen, state.now)),
    );
    return row;
  });
  if (!rows.length) {
    const row = element("tr");
    const only = cell("", "Nobody has joined yet.");
    only.colSpan = 6;
    row.append(only);
    rows.push(row);
  }
  $("owners").tBodies[0].replaceChildren(...rows);
}

function tiles(state) {
  const people = state.people.filter((p) => p.role === "owner" && p.standing === "in");
  const sent = people.filter((p) => p.what !== "no module yet").length;
  const late = people.filter((p) => p.late || p.what === "no module yet").length;
  const shown = [
    ["state", state.state],
    [`of ${state.expect} expected have sent a module`, whole(sent)],
    ["late, or without a module", whole(late)],
    ["rows behind the model", state.model ? whole(state.model.rows) : "0"],
  ];
  $("tiles").replaceChildren(...shown.map(([label, value]) => {
    const tile = element("div", null, "tile");
    tile.append(element("div", value, "value"), element("div", label, "label"));
    return tile;
  }));
}

function curve(state) {
  const rounds = state.rounds;
  $("rounds-card").hidden = !rounds;
  if (!rounds) return;
  const waits = rounds.waits_for.length ? `; waiting for ${rounds.waits_for.join(", ")}` : "";
  const done = `${rounds.history.length} exchange${rounds.history.length === 1 ? "" : "s"} with ${rounds.owners} owners`;
  $("rounds-words").textContent = rounds.running ? `${done} so far${waits}` : `${done}; done`;
  const svg = $("curve");
  const scored = rounds.history.map((h) => h.score).filter((s) => s !== null && s !== undefined);
  const values = scored.length ? scored : rounds.history.map((h) => h.bound).filter((b) => b !== null);
  const best = values.map((v, i) => Math.max(...values.slice(0, i + 1))); // a search tries some that are worse
  const what = scored.length ? "score of rows held back, nats per row" : "common bound in nats";
  $("rounds-hint").textContent = `Dots: ${what}, exchange by exchange; higher is better. Line: the best so far. `
    + "Hollow: worse than before, which a search must try now and then; on the axis where it is off the scale.";
  svg.replaceChildren();
  svg.toggleAttribute("hidden", !values.length);
  if (!values.length) return;
  const width = Math.max(240, svg.clientWidth || 600), height = 200, left = 64, right = 14, top = 14, bottom = 32;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const low = best[0], high = best.at(-1), range = high - low || 1;
  const x = (i) => (values.length === 1 ? (left + width - right) / 2 : left + (i * (width - left - right)) / (values.length - 1));
  const scaled = (v) => top + Math.min(1, (high - v) / range) * (height - top - bottom); // what is far worse is at the axis
  const y = (v) => (high === low && v === high ? (top + height - bottom) / 2 : scaled(v));
  svg.append(shape("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, class: "axis" }));
  for (const v of high === low ? [low] : [low, high])
    svg.append(shape("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, v.toPrecision(5).replace("-", "−")));
  svg.append(shape("polyline", { points: best.map((v, i) => `${x(i)},${y(v)}`).join(" "), class: "line" }));
  const every = Math.ceil(values.length / 10);
  values.forEach((v, i) => {
    svg.append(shape("circle", { cx: x(i), cy: y(v), r: 4, class: v === best[i] ? "dot" : "dot worse" }));
    if (i % every === 0) svg.append(shape("text", { x: x(i), y: height - bottom + 16, "text-anchor": "middle" }, `${i + 1}`));
  });
  svg.append(shape("text", { x: width - right, y: height - 4, "text-anchor": "end" }, "exchange"));
}

function scores(state) {
  $("scores-card").hidden = !state.evaluations.length;
  const rows = [...state.evaluations].reverse().map((e) => {
    const row = element("tr");
    row.append(
      cell("asked", ago(e.asked, state.now)),
      cell("owners", `${e.answered} of ${e.owners}`, "number"),
      cell("rows", whole(e.rows), "number"),
      cell("merged", plain(e.merged), "number"),
      cell("alone", plain(e.alone), "number"),
    );
    return row;
  });
  $("scores").tBodies[0].replaceChildren(...rows);
  $("scores-hint").textContent = "Mean log density for each row; higher is better. Sums are shown when all have answered, "
    + `or time has run out, and at least ${state.fewest} owners are behind them.`;
}

function show(state) {
  document.title = `${state.title} · recyclegp`;
  $("title").textContent = state.title;
  const model = state.model;
  const made = model ? `${model.kind === "rounds" ? `model of exchange ${model.round}` : "one-shot merge"}, ${ago(model.made, state.now)}` : "no model yet";
  $("summary").textContent = `${state.counted} ${state.counted === 1 ? "owner counts" : "owners count"} · ${made}`;
  $("look").hidden = !model;
  $("model").hidden = !model || !state.downloads;
  $("audit").hidden = !state.downloads;
  const notices = [
    state.failed && `The last merge has failed: ${state.failed}.`,
    state.rounds_failed && `The last rounds have come to nothing: ${state.rounds_failed}.`,
  ].filter(Boolean);
  $("notice").hidden = !notices.length;
  $("notice").textContent = notices.join(" ");
  tiles(state);
  owners(state);
  curve(state);
  scores(state);
  $("footer").textContent = `Audit log: ${state.audit.entries} entries, head ${state.audit.head.slice(0, 16)} · `
    + `${whole(state.turned_away)} requests turned away since the start`;
}

let last = null; // what was shown

async function look() {
  try {
    const answer = await fetch("state.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    last = await answer.json();
    show(last);
  } catch (failed) {
    $("notice").hidden = false;
    $("notice").textContent = `The hub does not answer (${failed.message}); trying again.`;
  }
  document.body.setAttribute("aria-busy", "false");
  setTimeout(look, document.hidden ? 10 * EVERY : EVERY);
}

addEventListener("resize", () => last && curve(last)); // it is drawn as wide as the screen is
look();
