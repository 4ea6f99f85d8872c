// Tables that sort, panels that switch, and tooltips of charts. The page is readable without it.
(() => {
  "use strict";
  const make = (tag, text, kind) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };

  // Leaderboards: a click on a column sorts from the best down, a second click the other way.
  for (const table of document.querySelectorAll("table.board")) {
    const heads = [...table.tHead.rows[0].cells];
    const sort = (column) => {
      const head = heads[column];
      const byName = column === 0;
      const down = head.ariaSort ? head.ariaSort === "ascending" : !byName;
      for (const other of heads) other.ariaSort = null;
      head.ariaSort = down ? "descending" : "ascending";
      const value = (row) => byName ? row.cells[0].textContent
        : Number(row.cells[column].dataset.value);
      const compare = (x, y) => byName ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      const rows = [...table.tBodies[0].rows];
      rows.sort((x, y) => compare(value(x), value(y)) * (down ? -1 : 1));
      table.tBodies[0].replaceChildren(...rows);
    };
    heads.forEach((head, column) => {
      if (column > 0 && table.tBodies[0].rows[0]?.cells[column]?.dataset.value === undefined) return;
      const button = make("button", head.textContent);
      button.type = "button";
      button.addEventListener("click", () => sort(column));
      head.replaceChildren(button);
    });
  }

  // Panels of which one is visible at a time.
  for (const tabs of document.querySelectorAll(".tabs")) {
    const panels = [...tabs.querySelectorAll(":scope > .panel")];
    if (panels.length < 2) continue;
    const bar = make("div", undefined, "tab-bar");
    const buttons = panels.map((panel) => {
      const button = make("button", panel.dataset.tab);
      button.type = "button";
      button.addEventListener("click", () => choose(panel));
      bar.append(button);
      return button;
    });
    const choose = (chosen) => panels.forEach((panel, i) => {
      panel.hidden = panel !== chosen;
      buttons[i].ariaPressed = String(panel === chosen);
    });
    tabs.prepend(bar);
    choose(panels.find((panel) => "shown" in panel.dataset) ?? panels[0]);
  }

  // Tooltips.
  const tip = make("div", undefined, "tip");
  tip.hidden = true;
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  const show = (content, x, y) => {
    tip.replaceChildren(...content);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(x + 14, window.innerWidth - width - 8);
    const top = y + height + 20 > window.innerHeight ? y - height - 12 : y + 14;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${Math.max(top, 8)}px`;
  };
  for (const row of document.querySelectorAll("[data-tip]")) {
    const content = () => row.dataset.tip.split("; ").map((text) => make("div", text));
    row.addEventListener("pointermove", (event) => show(content(), event.clientX, event.clientY));
    row.addEventListener("pointerleave", hide);
    row.addEventListener("blur", hide);
    row.addEventListener("focus", () => {
      const box = row.getBoundingClientRect();
      show(content(), box.left + 20, box.bottom);
    });
  }

  // Line charts: the values at the step under the pointer, or moved to with the arrow keys.
  for (const plot of document.querySelectorAll(".plot")) {
    const [left, right] = plot.dataset.x.split(",").map(Number);
    const [low, high] = plot.dataset.y.split(",").map(Number);
    const percent = "percent" in plot.dataset;
    const lines = [...plot.querySelectorAll("polyline")].map((line) => ({
      name: line.dataset.name, label: line.dataset.label, kind: line.getAttribute("class"),
      thin: line.classList.contains("thin"),
      points: line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)),
    }));
    const stops = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))]
      .sort((a, b) => a - b);
    const rule = make("i", undefined, "pointer");
    rule.hidden = true;
    plot.append(rule);
    let at = 0;
    const nearest = (points, x) => points.reduce((best, point) =>
      Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best);
    const value = (point) => high - (high - low) * point[1] / 1000;
    const describe = (x, y) => {
      const reach = stops.length > 1 ? (stops[stops.length - 1] - stops[0]) / (stops.length - 1) : 1;
      const here = lines.map((line) => ({ ...line, point: nearest(line.points, x) }))
        .filter((line) => Math.abs(line.point[0] - x) <= reach);
      const strong = here.filter((line) => !line.thin);
      // Of the thin lines only the one next to the pointer.
      const thin = here.filter((line) => line.thin)
        .sort((a, b) => Math.abs(a.point[1] - y) - Math.abs(b.point[1] - y)).slice(0, 1);
      return [...strong, ...thin].sort((a, b) => a.point[1] - b.point[1]).slice(0, 14);
    };
    const point = (x, y, clientX, clientY) => {
      rule.hidden = false;
      rule.style.left = `${x / 10}%`;
      const number = left + (right - left) * x / 1000;
      const place = percent ? `${(100 * number).toPrecision(3).replace(/\.?0+$/, "")} %`
        : Math.abs(number - Math.round(number)) < 1e-6 * Math.max(1, Math.abs(number)) ||
          right - left > 50 ? Math.round(number).toLocaleString("en")
          : number.toPrecision(4);
      const rows = describe(x, y).map((line) => {
        const row = make("div", undefined, `entry ${line.kind}`);
        row.append(make("span", line.label ? `${line.name}, ${line.label}` : line.name),
          make("b", value(line.point).toFixed(4)));
        return row;
      });
      show([make("div", `${plot.dataset.label}: ${place}`, "head"), ...rows], clientX, clientY);
    };
    const leave = () => { rule.hidden = true; hide(); };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const wanted = 1000 * (event.clientX - box.left) / box.width;
      at = stops.reduce((best, stop, i) =>
        Math.abs(stop - wanted) < Math.abs(stops[best] - wanted) ? i : best, 0);
      point(stops[at], 1000 * (event.clientY - box.top) / box.height, event.clientX, event.clientY);
    });
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("blur", leave);
    plot.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      at = Math.min(Math.max(at + move, 0), stops.length - 1);
      const box = plot.getBoundingClientRect();
      point(stops[at], 500, box.left + box.width * stops[at] / 1000, box.top + box.height / 2);
    });
  }
})();
