/* The head explorer.  Plain SVG and no library: one page needs it, and a charting library would weigh more than that page.
   The data lie beside this script, as scripts that call explorer.receive: a page opened from the disk may not fetch. */
(() => {
  "use strict";
  const root = document.getElementById("explorer");
  const folder = document.currentScript.src.replace(/[^/]*$/, "explorer/");
  const start = JSON.parse(root.dataset.start);
  const received = {}, asked = {};
  window.explorer = { receive: (name, data) => { received[name] = data; } };

  function load(name) {
    asked[name] ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = folder + name.split("/").map(encodeURIComponent).join("/") + ".js";
      script.onload = () => done(received[name]);
      script.onerror = () => { delete asked[name]; failed(new Error(`the data file ${name}.js could not be loaded`)); };
      document.head.append(script);
    });
    return asked[name];
  }

  // Small pieces -------------------------------------------------------------------

  const escape = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const percent = (v) => `${(100 * v).toFixed(1)} %`;
  const times = (v) => `${v >= 1e5 ? v.toExponential(1) : v >= 1000 ? Math.round(v) : Number(v.toPrecision(3))}x`;
  const el = (id) => document.getElementById(`explorer-${id}`);
  const svg = (width, height, label, body) =>
    `<svg role="img" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" aria-label="${escape(label)}">${body}</svg>`;
  const text = (x, y, words, anchor = "middle", more = "") =>
    `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" ${more}>${escape(words)}</text>`;
  const line = (x1, y1, x2, y2, cls) => `<line class="${cls}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;

  // The attention of the last query in one sequence: a bar a position -----------------

  const MARKS = [["first_token", "first", "middle"], ["duplicate_token", "A", "end"], ["induction", "B", "start"],
    ["previous_token", "before", "end"], ["self", "self", "start"]];

  function places(sequence) {
    const last = sequence.tokens.length - 1;
    return { first_token: 0, duplicate_token: sequence.a, induction: sequence.a + 1, previous_token: last - 1, self: last };
  }

  function strip(model, i, row, width) {
    const sequence = model.shown[i], at = places(sequence), n = row.length;
    const left = 40, right = 34, top = 6, height = 64, step = (width - left - right) / n;
    const y = (v) => top + height * (1 - v), x = (p) => left + (p + 0.5) * step;
    let body = [0, 0.5, 1].map((v) => line(left, y(v), width - right, y(v), "grid") + text(left - 4, y(v) + 4, `${100 * v}%`, "end")).join("");
    const marked = Object.fromEntries(MARKS.map(([cls, mark]) => [at[cls], [cls, mark]]));
    row.forEach((v, p) => {
      const [cls, mark] = marked[p] ?? [];
      const said = `${mark ? `${mark}: ` : ""}position ${p}, token ${sequence.tokens[p]}: ${percent(v)}`;
      body += `<g class="bar"><rect class="hit" x="${(x(p) - step / 2).toFixed(2)}" y="${top}" width="${step.toFixed(2)}" height="${height}"/>`
        + `<rect x="${(x(p) - step / 2).toFixed(2)}" y="${y(v).toFixed(2)}" width="${Math.max(step - 0.5, 1).toFixed(2)}" height="${(height * v).toFixed(2)}"`
        + `${cls ? ` style="fill:${model.classes[cls].colour}"` : ""}/><title>${said}</title></g>`;
    });
    for (const [cls, mark, anchor] of MARKS) {
      body += `<path d="M${x(at[cls]).toFixed(1)} ${top + height + 1}v4" style="stroke:${model.classes[cls].colour};stroke-width:2"/>`
        + text(x(at[cls]) + (anchor === "end" ? 1 : anchor === "start" ? -1 : 0) * (mark.length > 1 ? -2 : 2), top + height + 17, mark, anchor);
    }
    const label = `Sequence ${i + 1}: ` + MARKS.map(([cls, mark]) => `${mark} ${percent(row[at[cls]])}`).join(", ") + ".";
    return `<h3>Sequence ${i + 1}</h3>` + svg(width, top + height + 22, label, body);
  }

  function valuesOf(model, rows) {
    const body = rows.map((row, i) => {
      const at = places(model.shown[i]);
      const cells = MARKS.map(([cls]) => row[at[cls]]);
      const rest = Math.max(0, row.reduce((a, b) => a + b, 0) - cells.reduce((a, b) => a + b, 0));
      return `<tr><th scope="row">${i + 1}</th>${[...cells, rest].map((v) => `<td>${percent(v)}</td>`).join("")}</tr>`;
    });
    return `<table class="numbers"><thead><tr><th scope="col">sequence</th>${MARKS.map(([, mark]) => `<th scope="col">${mark}</th>`).join("")}`
      + `<th scope="col">elsewhere</th></tr></thead><tbody>${body.join("")}</tbody></table>`;
  }

  // What changes over training ---------------------------------------------------------

  /* series: [{name, colour, values}]; log: a log axis from 0.1 up; lines: [[value, words]]. */
  function overTraining(model, now, series, { title, log, lines = [], say }, width) {
    const left = 46, right = 112, top = 10, height = 190, n = model.revisions.length;
    const scale = log ? (v) => Math.log10(Math.max(v, 0.1)) : (v) => v;
    const all = [...series.flatMap((s) => s.values), ...lines.map(([v]) => v)].map(scale);
    const low = log ? -1 : 0, high = Math.max(...all, low + 1) * 1.04;
    const x = (i) => left + (i * (width - left - right)) / (n - 1);
    const y = (v) => top + height * (1 - (scale(v) - low) / (high - low));
    const step = log ? Math.ceil((high - low) / 6) : 10 ** Math.floor(Math.log10(high)) / (high / 10 ** Math.floor(Math.log10(high)) < 3 ? 2 : 1);
    let body = "";
    for (let t = low; t <= high; t += step) {
      const v = log ? 10 ** t : t;
      body += line(left, y(v), width - right, y(v), "grid") + text(left - 5, y(v) + 4, log ? times(v) : Number(v.toPrecision(3)), "end");
    }
    for (const [v, words] of lines) body += line(left, y(v), width - right, y(v), "threshold") + text(left + 3, y(v) - 3, words, "start");
    body += line(x(now), top, x(now), top + height, "now");
    for (const i of new Set([0, Math.floor((n - 1) / 2), n - 1])) {
      body += text(x(i), top + height + 17, model.revisions[i].tokens.replace(" tokens", ""));
    }
    body += text((left + width - right) / 2, top + height + 34, "training tokens, a dot a revision");
    const ends = series.map((s) => ({ s, y: y(s.values[n - 1]) })).sort((a, b) => a.y - b.y);
    ends.forEach((end, i) => { if (i && end.y < ends[i - 1].y + 14) end.y = ends[i - 1].y + 14; });
    const over = Math.max(0, ends.at(-1).y - (top + height + 4));
    for (const { s, y: where } of ends) {
      body += `<path class="line" d="${s.values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("")}" style="stroke:${s.colour}"/>`;
      s.values.forEach((v, i) => {
        body += `<g class="dot"><circle class="hit" cx="${x(i).toFixed(1)}" cy="${y(v).toFixed(1)}" r="9"/><circle cx="${x(i).toFixed(1)}" cy="${y(v).toFixed(1)}" r="${i === now ? 5 : 2.5}" style="fill:${s.colour}"/>`
          + `<title>${escape(s.name)} at ${model.revisions[i].name}: ${say(v)}</title></g>`;
      });
      body += `<circle cx="${width - right + 12}" cy="${where - over}" r="4" style="fill:${s.colour}"/>` + text(width - right + 20, where + 4 - over, s.name, "start");
    }
    const label = `${title} ` + series.map((s) => `${s.name}: ${say(s.values[0])} at ${model.revisions[0].name}, ${say(s.values[now])} at ${model.revisions[now].name}, ${say(s.values[n - 1])} at ${model.revisions[n - 1].name}`).join("; ") + ".";
    return svg(width, top + height + 40, label, body);
  }

  function classTable(model, numbers, now) {
    const rows = Object.entries(model.classes).map(([cls, { name, target, colour }]) =>
      `<tr${numbers.class[now] === cls ? ' class="its"' : ""}><th scope="row"><span class="swatch" style="background:${colour}"></span>${name}</th><td>${target}</td>`
      + `<td>${percent(numbers.attention[cls][now])}</td><td>${times(numbers.paper[cls][now])}</td><td>${times(numbers.clean[cls][now])}</td></tr>`);
    return `<table class="numbers"><thead><tr><th scope="col">class</th><th scope="col">target</th><th scope="col">mean attention</th>`
      + `<th scope="col">selectivity, paper’s baseline</th><th scope="col">clean baseline</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
  }

  // The page ---------------------------------------------------------------------------

  const state = { model: start.model, revision: null, head: start.head };

  function fromAddress() {
    const asks = new URLSearchParams(location.hash.slice(1));
    for (const key of Object.keys(state)) if (asks.get(key)) state[key] = asks.get(key);
    if (!start.models[state.model]) state.model = start.model;
  }

  function build() {
    const options = Object.entries(start.models).map(([name, label]) => `<option value="${escape(name)}">${escape(label)}</option>`);
    const standing = root.innerHTML;
    root.innerHTML = `
      <form class="controls" aria-label="What is shown">
        <label>Model <select id="explorer-model">${options.join("")}</select></label>
        <label>Layer <select id="explorer-layer"></select></label>
        <label>Head <select id="explorer-head"></select></label>
        <label class="wide">Revision <input type="range" id="explorer-revision" min="0" step="1"><output id="explorer-at"></output></label>
      </form>
      <div id="explorer-said" role="status"></div>
      <div id="explorer-shown">${standing}</div>`;
    root.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
    el("model").addEventListener("change", () => { state.model = el("model").value; show(); });
    for (const id of ["layer", "head"]) {
      el(id).addEventListener("change", () => { state.head = `L${el("layer").value}H${el("head").value}`; show(); });
    }
    el("revision").addEventListener("input", () => { state.revision = received[state.model].revisions[el("revision").value].name; show(); });
  }

  let turn = 0;
  async function show() {
    const mine = ++turn;
    try {
      const model = await load(state.model);
      if (mine !== turn) return;
      let now = model.revisions.findIndex((r) => r.name === state.revision);
      if (now < 0) now = model.revisions.length - 1;
      if (!model.numbers[state.head]) state.head = Object.keys(model.numbers)[0];
      const revision = model.revisions[now];
      state.revision = revision.name;
      const rows = revision.attention ? await load(`${state.model}/${revision.name}`) : null;
      if (mine === turn) draw(model, now, rows);
    } catch (error) {
      el("said").textContent = `Nothing can be shown: ${error.message}.`;
    }
  }

  function draw(model, now, rows) {
    const [layer, head] = state.head.slice(1).split("H").map(Number), numbers = model.numbers[state.head];
    const revision = model.revisions[now], count = (n) => [...Array(n).keys()].map((i) => `<option>${i}</option>`).join("");
    el("model").value = state.model;
    if (el("layer").length !== model.layers) el("layer").innerHTML = count(model.layers);
    if (el("head").length !== model.heads) el("head").innerHTML = count(model.heads);
    Object.assign(el("layer"), { value: layer });
    Object.assign(el("head"), { value: head });
    Object.assign(el("revision"), { max: model.revisions.length - 1, value: now });
    el("revision").setAttribute("aria-valuetext", `${revision.name}, ${revision.tokens}`);
    el("at").textContent = `${revision.name} · ${revision.tokens}`;
    history.replaceState(null, "", `#${new URLSearchParams(state)}`);

    el("said").innerHTML = `<strong>${state.head} of ${escape(model.label)} at ${escape(revision.name)}.</strong> ${escape(numbers.said[now])} `
      + `PR ${numbers.pr[now].toPrecision(3)} (centred ${numbers.pr_centred[now].toPrecision(3)}; noise would have ${model.prCeiling.toPrecision(3)}).`;
    const width = Math.min(760, el("shown").clientWidth), half = width < 640 ? width : Math.floor(width / 2) - 8;
    const mine = rows?.map((sequence) => sequence[layer * model.heads + head].map((v) => v / 1000));
    const training = [
      ["Selectivity", Object.entries(model.classes).map(([cls, c]) => ({ name: c.name, colour: c.colour, values: numbers.paper[cls] })),
        { title: "Selectivity over training, paper’s baseline.", log: true, say: times,
          lines: [[model.thresholds.class, times(model.thresholds.class)]] }],
      ["Participation ratio", [{ name: "PR", colour: "var(--pst-color-text-base)", values: numbers.pr }, { name: "centred", colour: "var(--pst-color-text-muted)", values: numbers.pr_centred }],
        { title: "Participation ratio over training.", say: (v) => v.toPrecision(3) }],
    ];
    const runs = revision.runs.map((id) => `<a href="../runs/${id}/${state.model}/${revision.name}.html">${id}</a>`).join(" · ");
    el("shown").innerHTML =
      `<h2>Where the last query attends</h2>`
      + (mine
        ? `<p>The first ${mine.length} sequences of the batch. The query is the second A, at the end; after the first A stands B.</p>`
          + mine.map((row, i) => strip(model, i, row, width)).join("") + `<div class="table-scroll" tabindex="0" role="region" aria-label="Attention by target">${valuesOf(model, mine)}</div>`
        : "<p>The attention rows of this checkpoint have not been measured.</p>")
      + `<h2>Over ${model.sequences.toLocaleString("en")} sequences</h2>`
      + `<div class="table-scroll" tabindex="0" role="region" aria-label="Selectivities by class">${classTable(model, numbers, now)}</div>`
      + `<p>Attention of all queries to the first token (sink mass): ${percent(numbers.sink_mass[now])}. Prefix-matching score: ${percent(numbers.prefix_matching[now])}.</p>`
      + `<h2>Over training</h2><div class="pair">`
      + training.map(([name, series, options]) => `<div><h3>${name}</h3>${overTraining(model, now, series, options, half)}</div>`).join("") + "</div>"
      + (runs ? `<p>What the findings make of this checkpoint: ${runs}</p>` : "");
  }

  fromAddress();
  build();
  show();
  addEventListener("hashchange", () => { fromAddress(); show(); });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; show(); } });
})();
