"use strict";
// What comes to the page, and what is taken from it: modules, tables, pictures. It goes with page.js.
const LARGEST_FILE = 64 * 2 ** 20;
let lastTable = null;  // the file that was shown last, in case somebody says which of its columns is y

// --- taken from it ---

async function take(path, more, name, button) {
  button.disabled = true;
  try {
    const content = await (await ask(path, { ...question(), ...more })).blob(), address = URL.createObjectURL(content);
    tag("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  } catch (error) {
    notice(error.message, true);
  }
  button.disabled = !shown.view || asking !== null;
}
const ofTable = () => `${shown.about.table.label.replace(/(\.[a-z0-9]+)(\.gz)?$/i, "")}-predictions.csv`;
$("download").addEventListener("click", event => take("file", {}, "merged.safetensors", event.target));
$("picture").addEventListener("click", event => take("picture", { kind: $("kind").value }, `figure.${$("kind").value}`, event.target));
$("predictions").addEventListener("click", event => take("predictions", {}, ofTable(), event.target));

// --- brought to it ---

async function bring(files, path, more = "") {  // how many were taken
  let taken = 0;
  const refused = [];
  busy(true);
  for (const file of files) {
    try {
      if (file.size > LARGEST_FILE) throw new Error(`${file.name}: larger than the ${LARGEST_FILE / 2 ** 20} MiB that this page takes`);
      await ask(`${path}?name=${encodeURIComponent(file.name)}${more}`, file);
      taken++;
    } catch (error) {
      refused.push(error.message);
    }
  }
  busy(false);
  if (taken) await start();
  refused.forEach(text => notice(text, true));
  return taken;
}
const isModule = file => file.name.toLowerCase().endsWith(".safetensors");
async function add(files) {
  const modules = files.filter(isModule), tables = files.filter(file => !isModule(file));
  if (modules.length) await bring(modules, "upload");
  if (tables.length && shown.about.tables) await showing(tables[tables.length - 1]);
  else if (tables.length) notice(`${tables[0].name}: this page takes modules, whose files end in .safetensors`, true);
}
async function showing(file, target) {
  if (await bring([file], "table", target === undefined ? "" : `&target=${encodeURIComponent(target)}`)) lastTable = file;
  showTable();
}
function showTable() {  // the table that was shown last, and what can be done with it
  const { table } = shown.about;
  $("predictions").hidden = !table;
  $("of-table").textContent = !table ? "" : [`${table.label}: ${count(table.rows, "row")}`,
    table.scored && table.left_out ? `${table.left_out.toLocaleString("en")} are not scored, because something is missing there` : "",
    table.unscored ? `not scored: ${table.unscored}` : "",
    table.target === null ? "not scored: no column has the name of the target" : ""].filter(Boolean).join("; ");
  const asks = table && table.target === null && lastTable !== null && table.targets.length > 0;
  $("target-of").hidden = !asks;
  if (asks) $("target").replaceChildren(new Option("choose…", ""), ...table.targets.map(name => new Option(name, name)));
}
$("add").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", event => { add([...event.target.files]); event.target.value = ""; });
$("show").addEventListener("click", () => $("table").click());
$("table").addEventListener("change", event => { if (event.target.files.length) showing(event.target.files[0]); event.target.value = ""; });
$("target").addEventListener("change", event => { if (event.target.value) showing(lastTable, event.target.value); });

const mayAdd = () => shown.about !== null && shown.about.may.add;
let inside = 0;  // elements that a dragged file is over
addEventListener("dragenter", event => { event.preventDefault(); inside++; $("drop").hidden = !mayAdd(); });
addEventListener("dragleave", () => { inside = Math.max(0, inside - 1); if (!inside) $("drop").hidden = true; });
addEventListener("dragover", event => event.preventDefault());
addEventListener("drop", event => { event.preventDefault(); inside = 0; $("drop").hidden = true; if (mayAdd()) add([...event.dataTransfer.files]); });
