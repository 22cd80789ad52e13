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
