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
  // docutils calls a list what holds entries of a bibliography, which ARIA does not allow in a list.
  for (const list of document.querySelectorAll("div.citation-list[role=list]")) list.removeAttribute("role");
});
