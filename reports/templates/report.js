"use strict";
// A name in a legend is a button: it hides and shows what it names.
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    const marks = button.closest(".chart").querySelectorAll(`g[data-series="${button.dataset.series}"]`);
    for (const group of marks) group.classList.toggle("hidden", !shown);
  });
}
