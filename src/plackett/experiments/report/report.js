// The look into single queries: a table that is sorted, searched and opened. Text only ever goes
// through textContent, so nothing that a data set is named can become part of the page.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const PAGE = 25;
  const state = { sort: "difference", down: true, shown: PAGE, open: null };

  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const columns = () => {
    const [a, b] = [data.systems[at("system").value], data.systems[at("against").value]];
    return [
      ["query", "query"], ...(data.several ? [["trial", "trial"]] : []), ["length", "documents"],
      ["value", a], ["other", b], ["difference", "difference"],
    ];
  };
  const rows = () => {
    const [i, j] = [Number(at("system").value), Number(at("against").value)];
    const wanted = at("search").value.trim().toLowerCase();
    const kind = at("kind").value;
    const sign = { won: 1, lost: -1, tied: 0 };
    const found = data.rows.map(([query, trial, length, values], place) => ({
      query, trial, length, place, value: values[i], other: values[j],
      difference: values[i] - values[j],
    })).filter((row) =>
      row.query.toLowerCase().includes(wanted) &&
      (kind === "all" || Math.sign(row.difference) === sign[kind]));
    const key = state.sort;
    const compare = (x, y) => typeof x[key] === "string"
      ? x[key].localeCompare(y[key], undefined, { numeric: true }) : x[key] - y[key];
    found.sort((x, y) => (state.down ? compare(y, x) : compare(x, y)) || x.place - y.place);
    return found;
  };
  const head = () => {
    const row = make("tr");
    for (const [key, title] of columns()) {
      const cell = make("th", undefined, key);
      const button = make("button", title);
      button.type = "button";
      if (key === state.sort) cell.ariaSort = state.down ? "descending" : "ascending";
      button.addEventListener("click", () => {
        state.down = key === state.sort ? !state.down : key !== "query" && key !== "trial";
        state.sort = key;
        draw();
      });
      cell.append(button);
      row.append(cell);
    }
    at("queries").tHead.replaceChildren(row);
  };
  const signed = (number) => (number > 0 ? "+" : number < 0 ? "−" : "") +
    Math.abs(number).toFixed(4);
  const line = (row, reach) => {
    const element = make("tr");
    const has = row.place in data.documents;
    const name = make("td", undefined, "query");
    const button = make("button", row.query, "name");
    button.type = "button";
    button.ariaExpanded = String(state.open === row.place);
    button.addEventListener("click", () => {
      state.open = state.open === row.place ? null : row.place;
      draw();
    });
    name.append(has ? button : make("span", row.query));
    element.append(name);
    if (data.several) element.append(make("td", row.trial, "trial"));
    element.append(make("td", row.length, "length"), make("td", row.value.toFixed(4), "value"),
      make("td", row.other.toFixed(4), "other"));
    const difference = make("td", signed(row.difference), row.difference > 0 ? "better" :
      row.difference < 0 ? "worse" : "");
    const bar = make("i", undefined, "swing");
    const width = 50 * Math.abs(row.difference) / reach;
    bar.style.width = `${width}%`;
    bar.style.left = row.difference > 0 ? "50%" : `${50 - width}%`;
    const track = make("span", undefined, "swings");
    track.append(bar);
    difference.append(track);
    element.append(difference);
    return element;
  };
  const ranking = (found, own, other, title) => {
    const box = make("div");
    box.append(make("h4", title));
    const list = make("ol");
    own.forEach((document_, place) => {
      const item = make("li");
      const label = found.labels[document_];
      item.append(make("b", label, `label l${Math.min(Math.round(label), 4)}`),
        make("span", found.names[document_], "document"));
      const there = other.indexOf(document_);
      const moved = there - place;
      item.append(make("span", there < 0 ? "↑ new" : moved > 0 ? `↑ ${moved}` : moved < 0 ?
        `↓ ${-moved}` : "=", "moved"));
      list.append(item);
    });
    box.append(list);
    return box;
  };
  const look = (row) => {
    const element = make("tr", undefined, "look");
    const cell = make("td");
    cell.colSpan = columns().length;
    const found = data.documents[row.place];
    const [a, b] = [found.orders[at("system").value], found.orders[at("against").value]];
    const pair = make("div", undefined, "pair");
    pair.append(ranking(found, a, b, data.systems[at("system").value]),
      ranking(found, b, a, data.systems[at("against").value]));
    cell.append(pair, make("p", `The top ${a.length} of ${found.total} documents with their ` +
      "labels. Arrows say how far a document stands above (↑) or below (↓) its place in the " +
      "other order; new ones are not among the other's top.", "small"));
    element.append(cell);
    return element;
  };
  const draw = () => {
    const found = rows();
    const reach = Math.max(...data.rows.map((row) => Math.max(...row[3]) - Math.min(...row[3])),
      1e-9);
    head();
    const body = [];
    for (const row of found.slice(0, state.shown)) {
      body.push(line(row, reach));
      if (state.open === row.place && row.place in data.documents) body.push(look(row));
    }
    at("queries").tBodies[0].replaceChildren(...body);
    at("count").textContent = `${found.length.toLocaleString("en")} of ` +
      `${data.rows.length.toLocaleString("en")} queries`;
    at("more").hidden = found.length <= state.shown;
  };
  for (const id of ["system", "against", "kind"]) at(id).addEventListener("change", draw);
  at("search").addEventListener("input", () => { state.shown = PAGE; draw(); });
  at("more").addEventListener("click", () => { state.shown += 4 * PAGE; draw(); });
  draw();
})();
