"use strict";
// The table of modules, and changes of their units. It goes with page.js.

// --- the table of modules ---

const ORIGIN = { placed: ["", "placed by recyclegp, and none is a data row"], unknown: [" ?", "chosen by somebody else, or rounded: data rows may be among them"], rows: [" !", "data rows are among them"] };
const HEAD = [["", "switch-cell"], ["module", ""], ["rows", "number"], ["points", "number"], ["kernel", "kernel"], ["likelihood", "likelihood"], ["kept", "number"],
  ["noise sd", "number"], ["agreement", "number"], ["others add", "number"], ["verdict", "verdict"], ["", "units-cell"]];
const few = v => v >= 0.01 ? String(Number(v.toPrecision(2))) : "< 0.01";
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
  const turn = tag("input", { type: "checkbox", className: "switch", disabled: !shown.about.may.choose, onchange: () => { turn.checked ? off.delete(i) : off.add(i); refresh(); } }, cell("switch-cell"));
  turn.setAttribute("role", "switch");
  turn.setAttribute("aria-label", `${m.name} counts`);
  const name = tag("div", { className: "name" }, tag("th", { scope: "row" }, row)), dot = tag("span", { className: "dot" }, name);
  dot.style.backgroundColor = m.colour;
  dot.classList.toggle("again", m.again);
  const words = tag("span", {}, name, m.name);
  tag("span", { className: "sub" }, words, [m.owner === m.name ? "" : `of ${m.owner}`, [m.name, `${m.name}.safetensors`].includes(m.source) ? "" : m.source, m.signed].filter(Boolean).join(" · "));
  const changed = tag("span", { className: "sub changed", hidden: true }, words);
  const part = m.parts[shown.function], text = value => part ? value(part) : "–";
  cell("number", "rows").append(text(p => p.rows.toLocaleString("en")));
  const points = cell("number", "points");
  points.append(text(p => p.points.toLocaleString("en") + ORIGIN[p.origin][0]));
  points.title = text(p => ORIGIN[p.origin][1]);
  if (part && part.rows) tag("span", { className: "sub", title: "the fewer, the less can be told about single rows" }, points, `${few(part.points / part.rows)} per row`);
  const kernel = cell("kernel", "kernel");
  kernel.append(text(p => p.kernel));
  kernel.title = text(p => p.kernel_in_full);
  cell("likelihood", "likelihood").append(text(p => p.likelihood) + (m.converged ? "" : ", not converged"));
  cell("number", "kept").append(text(p => percent(p.kept)));
  const noise = cell("number", "noise sd"), agreement = cell("number", "agreement"), added = cell("number", "others add"), verdict = cell("verdict");
  const units = tag("button", { type: "button", className: "small", hidden: !shown.about.may.choose, onclick: () => edit(i) }, cell("units-cell"), "Units…");
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
    if (away && m.left_out) pill("flagged", m.left_out);
    else if (away) pill("", "switched off");
    else if (!part) pill("", `has no ${shown.about.functions[shown.function]}`);
    else if (!told) pill("", "not merged");
    else if (told.standing === "flagged") pill("flagged", told.reason || "contradicts the others");
    else if (told.standing === "cannot be checked") pill("unchecked", "cannot be checked");
    else if (told.standing === "trusted") pill("trusted", told.offset === null ? "trusted" : `trusted, offset ${short(told.offset)}`);
    else pill("", "nobody looked");
    if (told && told.standing === "flagged" && !told.counts) tag("span", { className: "sub" }, line.verdict, "does not count");
    if (told && told.remedy && shown.about.may.choose) {
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
  refresh();
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
