"use strict";
// Long tables of points: sorted by a click on a title, filtered by words, kept as CSV as shown.
(() => {
  const FEWEST_ROWS = 8;
  const POWERS = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  const made = (tag, facts) => Object.assign(document.createElement(tag), facts);
  const cell = (row, at) => row.cells[at].textContent.trim();
  // The number of a text such as 1.5 TB/s or 250,609 USD; none of any other text.
  const number = (text) => {
    const found = /^([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)(?: (\S+))?/.exec(text);
    if (!found) return null;
    const scaled = /^([nµmkMGTPE])(?:B|s|W|FLOP)/.exec(found[2] || "");
    const millions = found[2] === "M" ? 1e6 : 1;
    return Number(found[1].replaceAll(",", "")) * (scaled ? POWERS[scaled[1]] : millions);
  };
  // Text stays text in a spreadsheet: only a number may start with a sign.
  const written = (text) => {
    const safe = /^[=+@\t-]/.test(text) && !/^[-+]?[\d.]+$/.test(text) && text !== "-" ? `'${text}` : text;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  for (const table of document.querySelectorAll("main > section.part > .scroll > table.sortable")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length < FEWEST_ROWS) continue;
    const heads = [...table.tHead.rows[0].cells];
    const titles = heads.map((head) => head.textContent.trim());
    const count = made("span", { className: "quiet", role: "status" });
    const counted = () => {
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = `${shown} of ${rows.length} rows`;
    };
    const by = made("select", {});
    const turned = made("button", { type: "button" });
    const sorted = (at, turn) => {
      for (const other of heads) other.removeAttribute("aria-sort");
      heads[at].setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
      by.value = at;
      turned.textContent = turn > 0 ? "Ascending" : "Descending";
      const keyed = rows.map((row) => [row, cell(row, at), number(cell(row, at))]);
      // Rows without a number stand last, either way.
      keyed.sort(([, a, x], [, b, y]) => {
        if (x !== null && y !== null) return turn * (x - y);
        if (x !== null || y !== null) return x === null ? 1 : -1;
        return turn * a.localeCompare(b);
      });
      body.append(...keyed.map(([row]) => row));
    };
    const other = (at) => (heads[at].getAttribute("aria-sort") === "ascending" ? -1 : 1);
    heads.forEach((head, at) => {
      const button = made("button", { type: "button", textContent: titles[at] });
      button.addEventListener("click", () => sorted(at, other(at)));
      head.replaceChildren(button);
      by.append(made("option", { value: at, textContent: titles[at] }));
    });
    // Cards of a phone have no titles to click on.
    const small = made("span", { className: "small" });
    const named = made("label", { textContent: "Sort by " });
    named.append(by);
    by.addEventListener("change", () => sorted(Number(by.value), 1));
    turned.textContent = "Ascending";
    turned.addEventListener("click", () => sorted(Number(by.value), other(Number(by.value))));
    small.append(named, turned);
    const field = made("input", { type: "search" });
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = [...row.cells].map((one) => one.textContent.toLowerCase()).join(" ");
        row.hidden = !words.every((word) => text.includes(word));
      }
      counted();
    });
    const label = made("label", { textContent: "Filter rows " });
    label.append(field);
    const keep = made("button", { type: "button", textContent: "Download rows as CSV" });
    keep.addEventListener("click", () => {
      const kept = [...body.rows].filter((row) => !row.hidden);
      const lines = [titles, ...kept.map((row) => titles.map((_, at) => cell(row, at)))];
      const text = lines.map((line) => `${line.map(written).join(",")}\n`).join("");
      const link = made("a", { download: "points.csv" });
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
    const tools = made("div", { className: "tools" });
    tools.append(label, small, keep, count);
    counted();
    table.closest(".scroll").before(tools);
  }
})();
