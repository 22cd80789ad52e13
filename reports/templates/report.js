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
  // A name in a legend is a button: Tab reaches it, Enter or Space hides and shows what it names.
  const traceOf = (item) => item.__data__[0].trace;
  const operable = (place) => {
    for (const item of place.querySelectorAll(".legend .traces")) {
      const trace = traceOf(item), name = trace.name.replaceAll("<br>", " ");
      const facts = { tabindex: 0, role: "button", "aria-pressed": trace.visible === true, "aria-label": `Show ${name}` };
      for (const [key, value] of Object.entries(facts)) item.setAttribute(key, value);
    }
  };
  const toggled = (place, event) => {
    const item = event.target.closest(".legend .traces");
    if (!item || !["Enter", " "].includes(event.key)) return;
    event.preventDefault();
    const { index, visible } = traceOf(item);
    Plotly.restyle(place, { visible: visible === true ? "legendonly" : true }, [index]).then(() => {
      const items = [...place.querySelectorAll(".legend .traces")];
      items.find((one) => traceOf(one).index === index)?.focus();
    });
  };
  // Long names take two lines on a phone, in a legend and beside bars.
  const LINE = 34, TICK = 24, ROOM = 1.6;
  const folded = (text, most) => {
    const at = text.length > most ? text.lastIndexOf(" ", most) : 0;
    return at > 0 ? `${text.slice(0, at)}<br>${text.slice(at + 1)}` : text;
  };
  const wrapped = (trace) => (narrow() && trace.name ? { ...trace, name: folded(trace.name, LINE) } : trace);
  const fitted = (place, layout) => {
    const texts = layout.yaxis.ticktext ?? [];
    if (!narrow() || !texts.some((text) => text.length > TICK)) return;
    layout.yaxis.ticktext = texts.map((text) => folded(text, TICK));
    place.style.height = `${ROOM * place.clientHeight}px`;
  };
  for (const chart of charts) {
    const place = document.getElementById(`chart-${chart.key}`);
    if (!place) continue;
    const layout = { ...frame(), ...chart.layout };
    layout.xaxis = { ...axis, ...chart.layout.xaxis };
    layout.yaxis = { ...axis, ...chart.layout.yaxis };
    fitted(place, layout);
    layout.height = place.clientHeight;
    // A mouse zooms in by dragging; a finger must be left to scroll the page.
    if (chart.zoom && window.matchMedia("(pointer: fine)").matches) {
      layout.dragmode = "zoom";
      layout.xaxis.fixedrange = layout.yaxis.fixedrange = false;
    }
    place.textContent = "";
    Plotly.newPlot(place, chart.data.map(wrapped), layout, { responsive: true, displayModeBar: false, doubleClick: "reset" }).then(() => {
      const done = () => { scalable(place); operable(place); };
      done();
      place.on("plotly_afterplot", done);
      place.addEventListener("keydown", (event) => toggled(place, event));
    });
  }
})();
