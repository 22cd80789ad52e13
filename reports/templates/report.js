"use strict";
// Draws the charts from the data in the page. Colours of text and lines come from the style sheet.
(() => {
  const charts = JSON.parse(document.getElementById("chart-data").textContent);
  const narrow = () => window.innerWidth < 600;
  const axis = { automargin: true, fixedrange: true, zeroline: false, ticks: "" };
  const frame = () => ({
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: narrow() ? 11 : 13 },
    margin: { l: 8, r: 16, t: 8, b: 48 },
    bargap: 0.38,
    hovermode: "closest",
    dragmode: false,
    legend: { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" },
  });
  // A view box lets the style sheet scale a drawn chart, on paper above all.
  const scalable = (place) => {
    for (const drawn of place.querySelectorAll("svg.main-svg")) {
      drawn.setAttribute("viewBox", `0 0 ${drawn.width.baseVal.value} ${drawn.height.baseVal.value}`);
    }
  };
  for (const chart of charts) {
    const place = document.getElementById(`chart-${chart.key}`);
    if (!place) continue;
    const layout = { ...frame(), ...chart.layout };
    layout.xaxis = { ...axis, ...chart.layout.xaxis };
    layout.yaxis = { ...axis, ...chart.layout.yaxis };
    layout.height = place.clientHeight;
    // A mouse zooms in by dragging; a finger must be left to scroll the page.
    if (chart.zoom && window.matchMedia("(pointer: fine)").matches) {
      layout.dragmode = "zoom";
      layout.xaxis.fixedrange = layout.yaxis.fixedrange = false;
    }
    place.textContent = "";
    Plotly.newPlot(place, chart.data, layout, { responsive: true, displayModeBar: false }).then(() => {
      scalable(place);
      place.on("plotly_afterplot", () => scalable(place));
    });
  }
})();

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
  for (const table of document.querySelectorAll("main > section:not([id]) table.stacked")) {
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
    heads.forEach((head, at) => {
      const button = made("button", { type: "button", textContent: titles[at] });
      button.addEventListener("click", () => {
        const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
        const keyed = rows.map((row) => [row, cell(row, at), number(cell(row, at))]);
        // Rows without a number stand last, either way.
        keyed.sort(([, a, x], [, b, y]) => {
          if (x !== null && y !== null) return turn * (x - y);
          if (x !== null || y !== null) return x === null ? 1 : -1;
          return turn * a.localeCompare(b);
        });
        body.append(...keyed.map(([row]) => row));
      });
      head.replaceChildren(button);
    });
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
    tools.append(label, keep, count);
    counted();
    table.closest(".scroll").before(tools);
  }
})();
