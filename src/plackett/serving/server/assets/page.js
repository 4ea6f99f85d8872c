"use strict";
const SHOWN = 5; // features of a document before all are asked for
const at = (id) => document.getElementById(id);
const state = { model: null, chosen: null };

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

async function ask(path, body) {
  const headers = {};
  if (at("token").value) headers.authorization = "Bearer " + at("token").value;
  if (body !== undefined) headers["content-type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    throw new Error("The server does not answer.");
  }
  const content = await response.json();
  if (response.ok) return content;
  if (response.status === 401) {
    at("token-field").hidden = false;
    at("token").focus();
  }
  throw new Error(content.detail || response.statusText);
}

const path = (rest) => "models/" + encodeURIComponent(at("model").value) + rest;

function complain(problem) {
  at("error").textContent = problem ? problem.message : "";
}

/* ---- what was pasted: JSON, LETOR lines, or a table ---- */

function parse(text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("Paste some documents first, or pick an example.");
  if (/^[[{]/.test(trimmed)) return fromJson(trimmed);
  const lines = trimmed.split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#"));
  return /(^|\s)\d+:\S/.test(lines[0]) ? fromLetor(lines) : fromTable(lines);
}

function fromJson(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (problem) {
    throw new Error("This looks like JSON but is not: " + problem.message);
  }
  if (Array.isArray(value)) return { documents: value };
  return value.documents ? { documents: value.documents, ids: value.ids, absent: value.absent } : { documents: [value] };
}

function fromLetor(lines) {
  const count = state.model.features.length;
  const ids = [];
  const documents = lines.map((line, i) => {
    const [pairs, ...note] = line.split("#");
    ids.push(note.join("#").trim() || `line ${i + 1}`);
    const row = new Array(count).fill(0);
    for (const word of pairs.trim().split(/\s+/)) {
      const [index, value] = word.split(":");
      if (value === undefined || index === "qid") continue;
      if (!(index >= 1 && index <= count)) throw new Error(`Line ${i + 1} has feature ${index}; the model has ${count}.`);
      row[index - 1] = number(value, i);
    }
    return row;
  });
  return { documents, ids };
}

function fromTable(lines) {
  const cut = lines[0].includes("\t") ? /\t/ : lines[0].includes(",") ? /\s*,\s*/ : lines[0].includes(";") ? /\s*;\s*/ : /\s+/;
  const rows = lines.map((line) => line.trim().split(cut));
  const names = state.model.features;
  const headed = rows[0].some((word) => word && !isNumber(word));
  if (!headed) return { documents: rows.map((row, i) => row.map((word) => number(word, i))) };
  const head = rows.shift();
  const known = head.map((name) => names.includes(name));
  if (!known.some(Boolean)) throw new Error("None of the names in the first line is a feature of this model.");
  const title = known.indexOf(false); // a column that is no feature names the documents
  const ids = title < 0 ? undefined : rows.map((row) => row[title]);
  const documents = rows.map((row, i) =>
    Object.fromEntries(head.map((name, j) => [name, j]).filter(([, j]) => known[j]).map(([name, j]) => [name, number(row[j] ?? "", i)])));
  return { documents, ids };
}

const missing = (word) => word === "" || /^(na|nan|null)$/i.test(word);
const isNumber = (word) => missing(word) || Number.isFinite(Number(word));

function number(word, i) {
  if (missing(word)) return null;
  const value = Number(word);
  if (!Number.isFinite(value)) throw new Error(`Line ${i + 1}: ${JSON.stringify(word.slice(0, 30))} is not a number.`);
  return value;
}

/* ---- the ranking ---- */

const short = (value) => (value === null || value === undefined ? "missing" : Number(value.toPrecision(4)).toString().replace("-", "−"));
// As many decimals for all as the largest number needs to have three digits.
const decimals = (largest) => Math.min(Math.max(2 - Math.floor(Math.log10(largest)), 0), 12);
const signed = (value, places) => (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(places);

function show(question, found) {
  const { scores, order } = found;
  const low = Math.min(...scores), high = Math.max(...scores);
  const largest = Math.max(...found.contributions.flat().map(Math.abs), 1e-300);
  const base = found.method === "shap" ? ` Base: ${short(found.base)}.` : "";
  at("method").textContent = `What each feature adds to the score. ${found.note}${base}`;
  at("list").replaceChildren(...order.map((i, place) => {
    const row = make("li");
    row.append(make("span", "place", place + 1));
    const what = make("div");
    what.append(make("div", "name", question.ids ? question.ids[i] : `document ${i + 1}`));
    const score = make("div", "score", short(scores[i]) + " ");
    const moved = i - place;
    const arrow = moved > 0 ? `↑ ${moved}` : moved < 0 ? `↓ ${-moved}` : "as given";
    score.append(make("span", "moved " + (moved > 0 ? "up" : moved < 0 ? "down" : ""), arrow));
    const meter = make("div", "meter"), fill = make("i");
    fill.style.width = (high > low ? (100 * (scores[i] - low)) / (high - low) : 100) + "%";
    meter.append(fill);
    what.append(score, meter);
    row.append(what, why(found, question.documents[i], i, largest));
    return row;
  }));
  at("result").hidden = false;
}

function why(found, given, i, largest) {
  const box = make("div", "why"), bars = make("div", "bars");
  const values = found.contributions[i];
  const order = values.map((_, j) => j).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).filter((j) => values[j] !== 0);
  const draw = (count) => bars.replaceChildren(...order.slice(0, count).flatMap((j) => bar(found.features[j], given, j, values[j], largest)));
  draw(SHOWN);
  box.append(bars);
  if (!order.length) bars.append(make("span", "soft", "no feature matters"));
  if (order.length > SHOWN) {
    const all = make("button", "all", `all ${order.length} features that matter`);
    all.type = "button";
    all.addEventListener("click", () => { draw(order.length); all.remove(); });
    box.append(all);
  }
  return box;
}

function bar(name, given, j, value, largest) {
  const feature = make("div", "feature", (/^\d+$/.test(name) ? "feature " : "") + name + " ");
  feature.append(make("span", "", "= " + short(Array.isArray(given) ? given[j] : given[name])));
  const track = make("div", "track"), fill = make("i", value > 0 ? "more" : "less");
  const width = (50 * Math.abs(value)) / largest;
  fill.style.width = width + "%";
  fill.style.left = (value > 0 ? 50 : 50 - width) + "%";
  track.append(fill);
  return [feature, track, make("div", "number", signed(value, decimals(largest)))];
}

/* ---- what people do ---- */

async function rank() {
  complain();
  at("rank").disabled = true;
  try {
    const question = parse(at("documents").value);
    const body = { documents: question.documents, absent: question.absent || (state.model.takes_missing ? "missing" : "refuse") };
    show(question, await ask(path("/explain"), body));
  } catch (problem) {
    at("result").hidden = true;
    complain(problem);
  } finally {
    at("rank").disabled = false;
  }
}

function pick(example, button) {
  for (const other of at("examples").children) other.setAttribute("aria-pressed", other === button);
  const quoted = (name) => name.replace(/[,\n]/g, " ");
  const head = ["document", ...state.model.features].map(quoted).join(",");
  const lines = example.documents.map((row, i) => [quoted(example.ids[i]), ...row.map((v) => v ?? "")].join(","));
  at("documents").value = [head, ...lines].join("\n");
  return rank();
}

async function choose() {
  complain();
  at("result").hidden = true;
  try {
    state.model = await ask(path(""));
    at("about").textContent = `${state.model.summary}, version ${state.model.version}`;
    const found = await ask(path("/examples"));
    at("examples").replaceChildren(...found.examples.map((example) => {
      const button = make("button", "", example.name);
      button.type = "button";
      button.addEventListener("click", () => pick(example, button));
      return button;
    }));
    const first = at("examples").firstElementChild;
    if (first && !at("documents").value) await pick(found.examples[0], first);
  } catch (problem) {
    complain(problem);
  }
}

async function begin() {
  try {
    const { models } = await ask("models");
    at("model").replaceChildren(...models.map(({ name }) => make("option", "", name)));
    at("model").parentElement.hidden = models.length < 2;
    await choose();
  } catch (problem) {
    complain(problem);
  }
}

at("rank").addEventListener("click", rank);
at("model").addEventListener("change", () => { at("documents").value = ""; choose(); });
at("token-field").addEventListener("submit", (event) => { event.preventDefault(); begin(); });
document.documentElement.dataset.ready = "started";
begin().finally(() => { document.documentElement.dataset.ready = "done"; });
