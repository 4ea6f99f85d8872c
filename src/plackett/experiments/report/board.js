// Leaderboards that are sorted by a click on a column: first from the best down, then up.
(() => {
  "use strict";
  for (const table of document.querySelectorAll("table.board")) {
    const cells = [...table.tHead.rows[0].cells];
    const order = (at) => {
      const cell = cells[at];
      const names = at === 0;
      const down = cell.ariaSort ? cell.ariaSort === "ascending" : !names;
      for (const other of cells) other.ariaSort = null;
      cell.ariaSort = down ? "descending" : "ascending";
      const value = (row) => names ? row.cells[0].textContent : Number(row.cells[at].dataset.value);
      const compare = (x, y) => names ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      const rows = [...table.tBodies[0].rows];
      rows.sort((x, y) => compare(value(x), value(y)) * (down ? -1 : 1));
      table.tBodies[0].replaceChildren(...rows);
    };
    cells.forEach((cell, at) => {
      if (at > 0 && table.tBodies[0].rows[0]?.cells[at]?.dataset.value === undefined) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.addEventListener("click", () => order(at));
      cell.replaceChildren(button);
    });
  }
})();
