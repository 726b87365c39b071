// What each regime does, what changes between them, and their mixture over time.

const matrices = { weight: null };

// Effect of latent i on latent j at a lag, in regime k.
function weight(k, lag, i, j) {
  const d = content.mechanisms.latents;
  return matrices.weight[k][((lag * d) + i) * d + j];
}

function drawMechanisms() {
  const about = content.mechanisms;
  matrices.weight ??= unpack(about.matrices);
  const lags = Array.from({ length: about.lags }, (_, lag) => `lag ${lag + 1}`);
  const pictures = make("div", { class: "chart", id: "matrices" });
  const again = () => { drawMatrices(pictures); drawMixture(); };
  fill("mechanisms",
    make("h2", {}, "Mechanisms"),
    make("p", { class: "note", id: "axes" }, about.axes),
    make("p", { class: "note" }, `Effect of each latent on each other one at this lag: derivatives of each regime's`
      + ` prediction, ${about.measured}. Columns act on rows.`),
    make("div", { class: "row controls" },
      choice(["effects", "what differs from the average regime"], Number(view.differences),
        (chosen) => { view.differences = chosen === 1; drawMatrices(pictures); }),
      about.lags > 1 ? choice(lags, view.lag, (lag) => { view.lag = lag; again(); }) : []),
    pictures,
    make("h3", {}, "What changes most between regimes"),
    about.changes.length ? make("ul", {}, about.changes.map((sentence) => make("li", {}, sentence))) : null,
    changesTable(),
    make("h3", {}, "W(t): the mechanism at one time"), momentControls(),
    make("div", { class: "pair" }, make("div", { class: "chart", id: "mixture" }), make("div", { id: "graph" })),
    make("p", { class: "note" }, "The regimes' matrices, weighted by their shares. Blue, solid: positive effect;"
      + " orange, dashed: negative effect. Or click the curve to pick a time."));
  again();
}

function drawMatrices(element) {
  const { regimes } = content;
  const { names } = content.mechanisms;
  const columns = Math.max(1, Math.min(regimes.length, Math.floor(element.clientWidth / 210)));
  const rows = Math.ceil(regimes.length / columns);
  const average = (i, j) => regimes.reduce((sum, _, k) => sum + weight(k, view.lag, i, j), 0) / regimes.length;
  const [gap, lift] = [0.22 / columns, 0.28 / rows];
  const appearance = {
    height: 205 * rows + 20, margin: { l: 36, r: 66, t: 28, b: 24 }, annotations: [], hovermode: "closest",
    coloraxis: { colorscale: divergingScale(), cmid: 0, colorbar: { thickness: 10, outlinewidth: 0, len: 0.9 } },
  };
  let largest = 1e-9;
  const traces = regimes.map((name, k) => {
    const z = names.map((_, j) => names.map((_, i) => weight(k, view.lag, i, j)
      - (view.differences ? average(i, j) : 0)));
    largest = Math.max(largest, ...z.flat().map(Math.abs));
    const [column, row] = [k % columns, Math.floor(k / columns)];
    const suffix = k ? String(k + 1) : "";
    const right = (column + 1) / columns - gap / 2;
    const top = 1 - row / rows;
    const ticks = { ...nameTicks(names, 8), tickfont: { size: 10 } };
    appearance[`xaxis${suffix}`] = axis({ domain: [column / columns + gap / 2, right], anchor: `y${suffix}`, ...ticks });
    appearance[`yaxis${suffix}`] = axis({ domain: [top - 1 / rows + lift, top], anchor: `x${suffix}`,
      autorange: "reversed", ...ticks });
    appearance.annotations.push({ text: plain(short(name, 20)), x: (column / columns + gap / 2 + right) / 2, y: top,
      xref: "paper", yref: "paper", yanchor: "bottom", showarrow: false, font: { color: regimeColour(k), size: 13 } });
    return { ...matrix(names, z), coloraxis: "coloraxis", xaxis: `x${suffix}`, yaxis: `y${suffix}` };
  });
  Object.assign(appearance.coloraxis, { cmin: -largest, cmax: largest });
  return draw(element, traces, appearance);
}

// Cells have places, not names: two long names may look alike when they are cut short.
function matrix(names, z) {
  const text = z.map((row, j) => row.map((value, i) => plain(`${names[i]} → ${names[j]}: ${value.toFixed(2)}`)));
  return { type: "heatmap", z, text, xgap: 1, ygap: 1, hovertemplate: "%{text}<extra></extra>" };
}

function nameTicks(names, most) {
  const stride = Math.ceil(names.length / most);
  const shown = names.map((_, i) => i).filter((i) => i % stride === 0);
  return { showgrid: false, fixedrange: true, tickvals: shown,
    ticktext: shown.map((i) => plain(short(names[i], 8))) };
}

function changesTable() {
  const { regimes, mechanisms: { lags, latents, names } } = content;
  const edges = [];
  for (let lag = 0; lag < lags; lag += 1) {
    for (let i = 0; i < latents; i += 1) {
      for (let j = 0; j < latents; j += 1) {
        const weights = regimes.map((_, k) => weight(k, lag, i, j));
        edges.push({ lag, i, j, weights, range: Math.max(...weights) - Math.min(...weights) });
      }
    }
  }
  edges.sort((a, b) => b.range - a.range);
  return table("", ["effect", ...regimes.map((name) => short(name, 16)), "range"], edges.slice(0, 6).map((edge) => make("tr", {},
    cell(`${names[edge.i]} → ${names[edge.j]}, lag ${edge.lag + 1}`),
    edge.weights.map((value) => cell(value.toFixed(2), "number")), cell(edge.range.toFixed(2), "number"))));
}

function momentControls() {
  const slider = make("input", { type: "range", id: "moment", min: 0, step: 1, "aria-label": "time",
    oninput: () => chooseMoment(Number(slider.value)) });
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "▶ Play"; };
  const play = make("button", { type: "button", onclick: () => {
    if (timer) { stop(); return; }
    play.textContent = "❚❚ Pause";
    const stride = Math.max(1, Math.round(Number(slider.max) / 150));
    timer = setInterval(() => {
      if (view.moment >= Number(slider.max)) { chooseMoment(0); stop(); } else chooseMoment(view.moment + stride);
    }, 80);
  } }, "▶ Play");
  return make("div", { class: "slider" }, make("span", { class: "controls" }, play), slider,
    make("output", { id: "moment-text", for: "moment", "aria-live": "polite" }));
}

// One moment for the slider, the graph and the ring on the simplex.
function chooseMoment(row) {
  const { time } = curvesOf(chosen());
  view.moment = Math.max(0, Math.min(time.length - 1, row));
  drawMixture();
  const ring = byId("simplex");
  const path = ring?.data?.at(-2);
  if (path) Plotly.restyle(ring, { x: [[path.x[view.moment]]], y: [[path.y[view.moment]]] }, [ring.data.length - 1]);
}

function drawMixture() {
  const series = chosen();
  const { time, alpha } = curvesOf(series);
  const slider = byId("moment");
  slider.max = time.length - 1;
  slider.value = view.moment;
  const shares = alpha.map((share) => share[view.moment]);
  byId("moment-text").textContent = [`t = ${timeText(time[view.moment], series.dates)}`,
    ...shares.map((share, k) => [share, content.regimes[k]]).filter(([share]) => share >= 0.005)
      .map(([share, name]) => `${name} ${share.toFixed(2)}`)].join("  ·  ");
  slider.setAttribute("aria-valuetext", byId("moment-text").textContent);
  const { names } = content.mechanisms;
  const mixed = (i, j) => shares.reduce((sum, share, k) => sum + (share || 0) * weight(k, view.lag, i, j), 0);
  const largest = content.regimes.reduce((most, _, k) => names.reduce((m, _, i) => names.reduce(
    (n, _, j) => Math.max(n, Math.abs(weight(k, view.lag, i, j))), m), most), 1e-9);
  const ticks = nameTicks(names, 16);
  draw(byId("mixture"), [{
    ...matrix(names, names.map((_, j) => names.map((_, i) => mixed(i, j)))),
    zmin: -largest, zmax: largest, colorscale: divergingScale(), colorbar: { thickness: 10, outlinewidth: 0 },
  }], {
    height: 345, margin: { l: 64, r: 10, t: 26, b: 40 }, xaxis: axis({ ...ticks, title: { text: "acts" } }),
    yaxis: axis({ autorange: "reversed", ...ticks, title: { text: "is acted on" } }),
  });
  byId("graph").replaceChildren(names.length > MOST_NODES ? make("p", { class: "note" },
    `No graph of ${names.length} latents: the matrix is clearer.`)
    : drawGraph(names, mixed, Math.max(12, 2 * names.length), largest));
}
