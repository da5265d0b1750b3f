document.addEventListener("DOMContentLoaded", () => {
  // Every figure can be kept as the SVG that it is; the link is made here so that a page need not hold the figure twice.
  for (const figure of document.querySelectorAll("figure.drawn")) {
    const csv = figure.querySelector("figcaption a[download]");
    const svg = csv.cloneNode();
    svg.textContent = "Figure (SVG)";
    svg.download = csv.download.replace(/csv$/, "svg");
    svg.href = figure.querySelector("img").src;
    csv.after(" · ", svg);
  }
  // In the sidebar, what opens the pages below another shows an arrow only.
  for (const summary of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    summary.ariaLabel = `Pages below ${summary.closest("li").querySelector("a").textContent.trim()}`;
  }
});
