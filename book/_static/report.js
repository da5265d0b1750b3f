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
  for (const figure of document.querySelectorAll("figure.drawn[data-points]")) sayValues(figure);
  // In the sidebar, what opens the pages below another shows an arrow only.
  for (const summary of document.querySelectorAll(".bd-sidebar-primary details > summary")) {
    summary.ariaLabel = `Pages below ${summary.closest("li").querySelector("a").textContent.trim()}`;
  }
  // docutils calls a list what holds entries of a bibliography, which ARIA does not allow in a list.
  for (const list of document.querySelectorAll("div.citation-list[role=list]")) list.removeAttribute("role");
});

/* The value of the point that is nearest to the pointer.  The points come with the figure (lib/figures/display.py), which stays an image. */
function sayValues(figure) {
  const canvas = figure.querySelector(".canvas"), image = canvas.querySelector("img"), near = 28;
  const points = JSON.parse(figure.dataset.points).flatMap(([line, of]) => of.map(([x, y, words]) => [x / 100, y / 100, `${line}: ${words}`]));
  const ring = canvas.appendChild(document.createElement("div")), value = canvas.appendChild(document.createElement("div"));
  Object.assign(ring, { className: "ring", hidden: true });
  Object.assign(value, { className: "value", hidden: true });
  const show = (event) => {
    const style = getComputedStyle(image), edge = parseFloat(style.paddingLeft) + image.clientLeft;
    const box = image.getBoundingClientRect(), width = box.width - 2 * edge, height = box.height - 2 * edge;
    const x = event.clientX - box.left - edge, y = event.clientY - box.top - edge;
    const far = ([px, py]) => Math.hypot(px * width - x, py * height - y);
    const nearest = points.reduce((best, point) => (far(point) < far(best) ? point : best));
    ring.hidden = value.hidden = far(nearest) > near;
    const left = image.offsetLeft + edge + nearest[0] * width, top = image.offsetTop + edge + nearest[1] * height;
    for (const mark of [ring, value]) Object.assign(mark.style, { left: `${left}px`, top: `${top}px` });
    value.classList.toggle("before", nearest[0] > 0.5);
    value.textContent = nearest[2];
  };
  image.addEventListener("pointermove", show);
  image.addEventListener("pointerdown", show);
  image.addEventListener("pointerleave", () => { ring.hidden = value.hidden = true; });
}
