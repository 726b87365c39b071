// Everything over time: shares, residual, latents, channels. One axis, one zoom, one cursor.

const PATTERNS = ["", ".", "/", "\\"]; // of flagged stretches, for eyes and printers without colour
const LANE = 24; // pixels of a latent or channel
// The nearest step answers, however far apart the steps are.
const TIME_HOVER = { hovermode: "x unified", hoverdistance: -1 };

// Letters of a name beside a lane; the charts below each other share their left margin.
const laneLetters = () => (innerWidth < 640 ? 6
  : Math.min(20, Math.max(9, ...[...content.channels, ...content.latents].map((name) => name.length))));
const margins = (more) => ({ l: 16 + (innerWidth < 640 ? 6 : 7.5) * laneLetters(), r: 14, t: 26, b: 26, ...more });

function timeAxis(series, more) {
  return axis({
    type: series.dates ? "date" : "linear", range: [...(view.range ?? fullRange(series))],
    hoverformat: series.dates ? undefined : ".6~g", showspikes: false, ...more,
  });
}

function fullRange(series) {
  const { time } = curvesOf(series);
  const pad = time.length > 1 ? 0.004 * (time.at(-1) - time[0]) : 0.5;
  return [time[0] - pad, time.at(-1) + pad];
}

// Filled shapes; several of them are one trace, with breaks in between.
function area(x, y, more) {
  return { x, y, mode: "lines", fill: "toself", line: { width: 0 }, hoverinfo: "skip", ...more };
}

function band(time, lower, upper, k) {
  const x = [];
  const y = [];
  for (let start = 0; start < time.length; start += 1) {
    let stop = start;
    while (stop < time.length && !Number.isNaN(lower[stop] + upper[stop])) stop += 1;
    for (let i = start; i < stop; i += 1) { x.push(time[i]); y.push(upper[i]); }
    for (let i = stop - 1; i >= start; i -= 1) { x.push(time[i]); y.push(lower[i]); }
    if (stop > start) { x.push(null); y.push(null); }
    start = stop;
  }
  return area(x, y, {
    fillcolor: faint(regimeColour(k), 0.18), meta: { regime: k, layer: "bands" },
  });
}

function flagged(series, low, high, opacity, more) {
  return content.flags.map((flag, number) => {
    const mine = series.stretches.filter(([kind]) => kind === number);
    const shade = faint(colour(`flag${number}`), opacity);
    return area(
      mine.flatMap(([, a, b]) => [a, b, b, a, a, null]),
      mine.flatMap(() => [low, low, high, high, low, null]),
      {
        fillcolor: shade, meta: { layer: "flags" },
        fillpattern: PATTERNS[number] && {
          shape: PATTERNS[number], fgcolor: faint(colour(`flag${number}`), Math.min(1, 2.5 * opacity)),
          bgcolor: shade, size: 6, solidity: 0.25,
        },
        ...more,
      },
    );
  }).filter((trace) => trace.x.length);
}

function flagsAt(series, time) {
  return time.map((t) => {
    const found = series.stretches.find(([, a, b]) => a <= t && t <= b);
    return found ? content.flags[found[0]].meaning : "explained";
  });
}

function shareTraces(series) {
  const { time, alpha, lower, upper } = curvesOf(series);
  const traces = flagged(series, -0.02, 1.02, 0.16);
  alpha.forEach((_, k) => traces.push(band(time, lower[k], upper[k], k)));
  if (content.truth && content.truth.steps === series.steps) {
    const x = unpackTime(content.truth.time);
    unpack(content.truth.alpha).forEach((y, k) => traces.push({
      x, y, mode: "lines", hoverinfo: "skip", meta: { regime: k, layer: "truth" },
      line: { color: regimeColour(k), width: 1.2, dash: "dash" },
    }));
  }
  for (const [name, packed] of Object.entries(series.evidence)) {
    unpack(packed).forEach((y, k) => traces.push({
      x: time, y, mode: "lines", meta: { regime: k, layer: `evidence ${name}` },
      name: plain(`${short(content.regimes[k], 20)} by ${name}`), hovertemplate: "%{y:.2f}",
      line: { color: regimeColour(k), width: 1.2, dash: "dot" },
    }));
  }
  alpha.forEach((y, k) => traces.push({
    x: time, y, mode: time.length > 1 ? "lines" : "markers", name: plain(short(content.regimes[k], 24)),
    meta: { regime: k, layer: "shares" }, customdata: y.map((_, i) => [lower[k][i], upper[k][i]]),
    hovertemplate: "%{y:.2f}  (%{customdata[0]:.2f} to %{customdata[1]:.2f})",
    line: { color: regimeColour(k), width: 2.2, dash: regimeDash(k) },
  }));
  traces.forEach((trace) => { trace.visible = isShown(trace.meta); });
  return traces;
}

function isShown(meta) {
  return !view.hiddenRegimes.has(meta.regime) && !view.hiddenLayers.has(meta.layer);
}

function eventMarks(series, width) {
  const shapes = series.events.map((event) => ({
    type: "line", x0: event.at, x1: event.at, y0: 0, y1: 1, yref: "paper",
    line: { color: colour("soft"), width: 1, dash: "dot" },
  }));
  const [first, last] = view.range?.map((edge) => +new Date(edge)) ?? fullRange(series);
  const ends = [-Infinity, -Infinity]; // of the labels in two rows, in pixels
  const annotations = series.events.flatMap((event) => {
    const text = `${short(event.from)} → ${short(event.to)}`;
    const centre = ((event.at - first) / (last - first)) * width;
    const row = ends.findIndex((end) => centre - 3.2 * text.length > end + 4);
    if (row < 0) return []; // no room: the line stays, and the table has it
    ends[row] = centre + 3.2 * text.length;
    return [{ x: event.at, y: 1, yref: "paper", yanchor: "bottom", yshift: 14 * row, showarrow: false,
      text: plain(text), font: { size: 11, color: colour("soft") } }];
  });
  return { shapes, annotations };
}

function drawShares(element, series) {
  return draw(element, shareTraces(series), {
    height: 360, margin: margins({ t: 44 }), ...TIME_HOVER, ...eventMarks(series, element.clientWidth - margins().l - margins().r),
    xaxis: timeAxis(series),
    yaxis: axis({ range: [-0.03, 1.03], fixedrange: true, title: { text: "share" } }),
  }, "zoom");
}

function drawResidual(element, series) {
  const { time, residual } = curvesOf(series);
  const [first, last] = [time[0], time.at(-1)];
  const known = residual.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const most = known.at(-1) ?? 1;
  // a few huge residuals must not flatten all others
  const top = 1.08 * Math.max(1.85, Math.min(most, 3 * (known[Math.floor(0.98 * known.length)] ?? 1)));
  const base = area([first, last, last, first], [0, 0, 1, 1], {
    fillcolor: faint(colour("c2"), 0.18), yaxis: "y2",
  });
  // an outline, so that a single step of a hundred thousand can be seen
  const strip = flagged(series, 0, 1, 0.85, { yaxis: "y2" })
    .map((trace) => ({ ...trace, line: { width: 1, color: trace.fillcolor } }));
  const line = {
    x: time, y: residual, mode: time.length > 1 ? "lines" : "markers", name: "residual",
    line: { color: colour("ink"), width: 1.3 }, customdata: flagsAt(series, time),
    hovertemplate: "%{y:.2f}, %{customdata}",
  };
  return draw(element, [...flagged(series, 0, top, 0.12), base,
    ...strip, line], {
    height: 205, margin: margins(), ...TIME_HOVER, xaxis: timeAxis(series, { anchor: "y2" }),
    yaxis: axis({ domain: [0.24, 1], range: [0, top], fixedrange: true, title: { text: most > top ? `residual (to ${rounded(most)})` : "residual" } }),
    yaxis2: axis({ domain: [0, 0.13], range: [0, 1], fixedrange: true, tickvals: [] }),
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1,
      line: { color: colour("soft"), width: 1, dash: "dash" } }],
  }, "zoom");
}

// Each latent or channel in a lane of its own, in its own units.
function drawLanes(element, series, names, packed) {
  const time = unpackTime(series.signals.time);
  const traces = unpack(packed).map((values, lane) => {
    const [low, high] = packed.ranges[lane];
    const span = high > low ? high - low : 1;
    return {
      x: time, y: values.map((v) => -lane - 0.45 + 0.9 * ((v - low) / span)), mode: "lines",
      name: plain(short(names[lane], 24)), customdata: values, hovertemplate: "%{customdata:.4~g}",
      line: { color: colour("c0"), width: 1.1 },
    };
  });
  return draw(element, traces, {
    height: LANE * names.length + 56, margin: margins(), ...TIME_HOVER,
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { size: 11, color: colour("ink") } },
    xaxis: timeAxis(series),
    shapes: names.slice(1).map((_, i) => ({ type: "line", layer: "below", xref: "paper", x0: 0, x1: 1,
      y0: -i - 0.5, y1: -i - 0.5, line: { color: colour("grid"), width: 1 } })),
    yaxis: axis({ range: [0.5 - names.length, 0.5], fixedrange: true, showgrid: false, ticklen: 0,
      tickvals: names.map((_, i) => -i), ticktext: names.map((name) => plain(short(name, laneLetters()))) }),
  }, "zoom");
}

function linkCharts(stack, charts, series) {
  let busy = false;
  const zoom = (range, except) => {
    view.range = range;
    busy = true;
    const others = charts.filter((chart) => chart !== except);
    return Promise.all(others.map((chart) => Plotly.relayout(
      chart, { "xaxis.range": [...(range ?? fullRange(series))] },
    ))).finally(() => { busy = false; });
  };
  for (const chart of charts) {
    chart.on("plotly_relayout", (change) => {
      const range = change["xaxis.range"]
        ?? (change["xaxis.range[0]"] === undefined ? null
          : [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
      if (!busy && range) zoom(range, chart);
    });
    chart.on("plotly_doubleclick", () => zoom(null, null));
  }
  charts[0].on("plotly_click", ({ points }) => chooseMoment(points[0].pointIndex));
  const cursor = make("div", { class: "cursor" });
  stack.append(cursor);
  stack.addEventListener("mousemove", (event) => {
    const box = stack.getBoundingClientRect();
    const x = event.clientX - box.left;
    const inside = x > margins().l && x < box.width - margins().r;
    cursor.style.display = inside ? "block" : "none";
    cursor.style.left = `${x}px`;
  });
  stack.addEventListener("mouseleave", () => { cursor.style.display = "none"; });
  stack.addEventListener("keydown", (event) => keyInTimeline(event, series, charts, zoom));
}

// Left and right walk through the steps, plus and minus zoom, 0 shows all.
function keyInTimeline(event, series, charts, zoom) {
  if (event.target !== event.currentTarget) return;
  const { time } = curvesOf(series);
  const stride = event.shiftKey ? Math.max(1, Math.round(time.length / 20)) : 1;
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    chooseMoment(view.moment + (event.key === "ArrowLeft" ? -stride : stride));
    const lines = charts[0].data
      .map((trace, curveNumber) => ({ trace, curveNumber, pointNumber: view.moment }))
      .filter(({ trace }) => trace.meta?.layer === "shares" && trace.visible);
    if (lines.length) Plotly.Fx.hover(charts[0], lines);
  } else if ("+=-".includes(event.key)) {
    const [a, b] = (view.range ?? fullRange(series)).map((edge) => +new Date(edge));
    const half = ((b - a) / 2) * (event.key === "-" ? 2 : 0.5);
    zoom([time[view.moment] - half, time[view.moment] + half], null);
  } else if (event.key === "0" || event.key === "Escape") {
    zoom(null, null);
  } else return;
  event.preventDefault();
}
