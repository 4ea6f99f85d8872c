// Single queries: a table that is sorted, searched and opened. Text only ever goes through
// textContent, so no name in a data set can become part of the page.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 25;
  const state = { sort: "difference", down: true, count: PAGE, open: null };

  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const makeButton = (text, kind, onClick) => {
    const button = make("button", text, kind);
    button.type = "button";
    button.addEventListener("click", onClick);
    return button;
  };
  const columns = () => {
    const [a, b] = [data.systems[byId("system").value], data.systems[byId("against").value]];
    return [
      ["query", "query"], ...(data.several ? [["trial", "trial"]] : []), ["length", "documents"],
      ["value", a], ["other", b], ["difference", "difference"],
    ];
  };
  const selectRows = () => {
    const [i, j] = [Number(byId("system").value), Number(byId("against").value)];
    const wanted = byId("search").value.trim().toLowerCase();
    const kind = byId("kind").value;
    const sign = { won: 1, lost: -1, tied: 0 };
    const rows = data.rows.map(([query, trial, length, values], place) => ({
      query, trial, length, place, value: values[i], other: values[j],
      difference: values[i] - values[j],
    })).filter((row) =>
      row.query.toLowerCase().includes(wanted) &&
      (kind === "all" || Math.sign(row.difference) === sign[kind]));
    const key = state.sort;
    const compare = (x, y) => typeof x[key] === "string"
      ? x[key].localeCompare(y[key], undefined, { numeric: true }) : x[key] - y[key];
    return rows.sort((x, y) => (state.down ? compare(y, x) : compare(x, y)) || x.place - y.place);
  };
  const drawHead = () => {
    const row = make("tr");
    for (const [key, title] of columns()) {
      const cell = make("th", undefined, key);
      if (key === state.sort) cell.ariaSort = state.down ? "descending" : "ascending";
      cell.append(makeButton(title, "", () => {
        state.down = key === state.sort ? !state.down : key !== "query" && key !== "trial";
        state.sort = key;
        draw();
      }));
      row.append(cell);
    }
    byId("queries").tHead.replaceChildren(row);
  };
  const signed = (number) => (number > 0 ? "+" : number < 0 ? "−" : "") +
    Math.abs(number).toFixed(4);
  const drawRow = (row, reach) => {
    const element = make("tr");
    const name = make("td", undefined, "query");
    if (row.place in data.documents) {
      const button = makeButton(row.query, "name", () => {
        state.open = state.open === row.place ? null : row.place;
        draw();
      });
      button.ariaExpanded = String(state.open === row.place);
      name.append(button);
    } else {
      name.append(make("span", row.query));
    }
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
  const drawFeatures = (values) => {
    const list = make("dl", undefined, "features");
    data.features.forEach((name, i) => {
      const pair = make("div");
      pair.append(make("dt", name), make("dd", values[i]));
      list.append(pair);
    });
    return list;
  };
  const drawRanking = (documents, order, other, title) => {
    const box = make("div");
    box.append(make("h4", title));
    const list = make("ol");
    order.forEach((place, rank) => {
      const item = make("li");
      const label = documents.labels[place];
      item.append(make("b", label, `label l${Math.min(Math.round(label), 4)}`));
      if (documents.features) {
        const button = makeButton(documents.names[place], "document", () => {
          const open = item.querySelector("dl");
          if (open) open.remove();
          else item.append(drawFeatures(documents.features[place]));
          button.ariaExpanded = String(!open);
        });
        button.ariaExpanded = "false";
        item.append(button);
      } else {
        item.append(make("span", documents.names[place], "document"));
      }
      const there = other.indexOf(place);
      const moved = there - rank;
      item.append(make("span", there < 0 ? "↑ new" : moved > 0 ? `↑ ${moved}` : moved < 0 ?
        `↓ ${-moved}` : "=", "moved"));
      list.append(item);
    });
    box.append(list);
    return box;
  };
  const drawDocuments = (row) => {
    const element = make("tr", undefined, "documents");
    const cell = make("td");
    cell.colSpan = columns().length;
    const documents = data.documents[row.place];
    const [i, j] = [byId("system").value, byId("against").value];
    const [a, b] = [documents.orders[i], documents.orders[j]];
    const pair = make("div", undefined, "pair");
    pair.append(drawRanking(documents, a, b, data.systems[i]),
      drawRanking(documents, b, a, data.systems[j]));
    cell.append(pair, make("p", `The top ${a.length} of ${documents.total} documents with their ` +
      "labels. Arrows say how many places a document stands above (↑) or below (↓) its place in " +
      "the other order; new: not among the top documents there." +
      (documents.features ? " Select a document to see its most important features." : ""),
    "small"));
    element.append(cell);
    return element;
  };
  const draw = () => {
    const rows = selectRows();
    const reach = Math.max(...data.rows.map((row) => Math.max(...row[3]) - Math.min(...row[3])),
      1e-9);
    drawHead();
    const body = [];
    for (const row of rows.slice(0, state.count)) {
      body.push(drawRow(row, reach));
      if (state.open === row.place && row.place in data.documents) body.push(drawDocuments(row));
    }
    byId("queries").tBodies[0].replaceChildren(...body);
    byId("count").textContent = `${rows.length.toLocaleString("en")} of ` +
      `${data.rows.length.toLocaleString("en")} queries`;
    byId("more").hidden = rows.length <= state.count;
  };
  for (const id of ["system", "against", "kind"]) byId(id).addEventListener("change", draw);
  byId("search").addEventListener("input", () => { state.count = PAGE; draw(); });
  byId("more").addEventListener("click", () => { state.count += 4 * PAGE; draw(); });
  draw();
})();
