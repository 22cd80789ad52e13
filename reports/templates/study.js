// A mouse zooms into a chart of numbers by dragging; a finger must be left to scroll the page.
(() => {
  if (!window.matchMedia("(pointer: fine)").matches) return;
  for (const place of document.querySelectorAll(".chart.js-plotly-plot")) {
    const free = { dragmode: "zoom", "xaxis.fixedrange": false, "yaxis.fixedrange": false };
    Plotly.relayout(place, free);
  }
})();
