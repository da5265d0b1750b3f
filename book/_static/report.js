/* Every figure can be kept as the SVG that it is; the link is made here so that a page need not hold the figure twice. */
document.addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll("figure.drawn")) {
    const csv = figure.querySelector("figcaption a[download]");
    const svg = csv.cloneNode();
    svg.textContent = "Figure (SVG)";
    svg.download = csv.download.replace(/csv$/, "svg");
    svg.href = figure.querySelector("img").src;
    csv.after(" · ", svg);
  }
});
