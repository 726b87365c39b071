// One recording: what happened, the charts over time, the path, the events, the diagnosis.

const chosen = () => content.series[view.series];

function drawRecording() {
  const series = chosen();
  view.moment = Math.min(view.moment, series.time.rows - 1);
  const many = content.series.length > 1;
  const charts = [];
  const stack = make("div", {
    class: "stack", tabindex: 0, role: "group", "aria-label": "Charts over time. Left and right arrows walk"
      + " through the steps, plus and minus zoom, 0 shows everything.",
  });
  const add = (id, title, note, paint) => {
    const element = make("div", { class: "chart", id });
    stack.append(make("h3", {}, title), note ? make("p", { class: "note" }, note) : "", element);
    charts.push([element, paint]);
  };
  add("shares", "Share of each mechanism", series.off ? "A sensor is off, so these curves are no answer." : null,
    drawShares);
  stack.append(flagKey(series));
  if (series.sensors) add("sensors", "Which sensors carry it", sensorsNote(series.sensors), drawSensors);
  if (series.film) {
    add("film", series.trials > 1 ? "Pictures of the first trial" : "Pictures", null, drawFilm);
  }
  add("residual", "Residual, and where none of the known mechanisms explains the recording",
    "Pure regimes have a residual of 1 (dashed). The strip below is green where the mixture explains the step.",
    drawResidual);
  addLanes(add, series, "channels", "Observed channels");
  addLanes(add, series, "latents", "Latents that can be interpreted");
  fill("recording",
    make("div", { class: "row spread" }, make("h2", { tabindex: -1, id: "recording-name" }, series.name),
      many ? make("div", { class: "row controls" }, step(-1, "← Previous"), step(1, "Next →")) : ""),
    many ? make("p", { class: "answer" }, `${series.answer}; verdict: `,
      badge(series.verdict.level, series.verdict.trust)) : "",
    make("p", { class: "note" }, series.how, thinned(series)),
    make("div", { class: "row", id: "toggles" }, toggles(series)),
    stack,
    make("div", { class: "pair" },
      make("div", {}, make("h3", {}, "Path on the simplex"), make("div", { class: "chart", id: "simplex" }),
        make("p", { class: "note" }, simplexNote(regimesAtWork(curvesOf(series).alpha).length))),
      make("div", {}, make("h3", {}, "Events"), eventTable(series))));
  charts.forEach(([element, paint]) => paint(element, series));
  linkCharts(stack, charts.map(([element]) => element), series);
  drawSimplex(byId("simplex"), series);
  drawDiagnosis(series);
}

function step(by, label) {
  const next = view.series + by;
  return make("button", { type: "button", disabled: next < 0 || next >= content.series.length,
    onclick: () => chooseSeries(next) }, label);
}

function thinned(series) {
  return series.time.rows < series.steps
    ? ` ${series.time.rows.toLocaleString("en")} of them are drawn, with all minima and maxima.` : "";
}

function addLanes(add, series, kind, title) {
  const packed = series.signals?.[kind];
  if (!packed) return;
  const more = content.hidden[kind] ? ` (${content.hidden[kind]} more are not drawn)` : "";
  const mean = series.trials > 1 ? `, mean of ${series.trials} trials` : "";
  add(kind, title + mean + more, null, (element) => drawLanes(element, series, content[kind], packed));
}

function toggles(series) {
  const repaint = () => {
    const chart = byId("shares");
    Plotly.restyle(chart, { visible: chart.data.map((trace) => isShown(trace.meta)) });
  };
  const toggle = (set, key, label, mark) => chip(label, !set.has(key), (on) => {
    if (on) set.delete(key); else set.add(key);
    repaint();
  }, mark);
  const layers = [["bands", `${Math.round(100 * series.level)} % bands`]];
  if (content.truth?.steps === series.steps) layers.push(["truth", "truth (dashed)"]);
  for (const name of Object.keys(series.evidence)) layers.push([`evidence ${name}`, `${name} alone (dotted)`]);
  return [
    ...content.regimes.map((name, k) => toggle(view.hiddenRegimes, k, name, swatch(k))),
    ...layers.map(([key, label]) => toggle(view.hiddenLayers, key, label)),
    make("button", { type: "button", class: "controls", onclick: () => { view.range = null; drawRecording(); } }, "Show all time"),
  ];
}

function flagKey(series) {
  const present = new Set(series.stretches.map(([number]) => number));
  return make("div", { class: "row keys" }, content.flags.map((flag, number) => (present.has(number)
    ? make("span", { class: "key" }, make("i", { style: `background:${faint(colour(`flag${number}`), 0.45)}` }),
      `${flag.name}: ${flag.meaning}`) : null)));
}

function eventTable(series) {
  if (series.off) return make("p", {}, "Nothing can be told.");
  if (!series.events.length) return make("p", {}, "No change.");
  const rows = series.events.map((event) => make("tr", {},
    cell(`${event.from} → ${event.to}`, "name"), cell(event.onset, "number"), cell(event.midpoint, "number"),
    cell(event.end, "number"), cell(event.duration, "number")));
  const left = series.changes - series.events.length;
  return make("div", {}, table("", ["change", "onset", "halfway", "end", "duration"], rows),
    left > 0 ? make("p", { class: "note" }, `${left} more are not listed.`) : "");
}

function drawDiagnosis(series) {
  const { verdict, findings } = series;
  const pressing = findings.filter((finding) => finding.pressing);
  const others = findings.filter((finding) => !finding.pressing);
  fill("diagnosis",
    make("h2", {}, "Can it be trusted? ", badge(verdict.level, verdict.trust)),
    make("p", {}, verdict.advice, verdict.within ? ` Its ${verdict.within}.` : ""),
    pressing.length ? findingTable(pressing) : make("p", {}, "No finding needs attention."),
    make("details", { id: "passed" },
      make("summary", {}, `${others.length} findings that need no attention`),
      findingTable(others)));
}

function findingTable(findings) {
  return table("findings", ["", "finding", "value", "limit", "what it means, and what to do"],
    findings.map((finding) => make("tr", { "data-level": finding.level },
      make("td", {}, badge(finding.level, finding.level)), cell(finding.code),
      cell(finding.value, "number"), cell(finding.limit),
      make("td", {}, finding.meaning, finding.next ? make("em", {}, ` ${finding.next}`) : ""))));
}
