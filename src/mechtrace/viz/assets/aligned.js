// Several recordings on top of each other, at a moment of the transition that most of them have.

const MOMENTS = [["onset", "onsetAt", "onset"], ["halfway", "at", "halfway point"], ["end", "endAt", "end"]];
const [AROUND, MOST_KNOWN, GRID, MOST_LINES] = [2, 0.8, 300, 100];
const LENGTHS = [[86400e3, "days"], [3600e3, "h"], [60e3, "min"], [1e3, "s"], [1, "ms"]];

function alignedPanel() {
  const about = content.aligned;
  if (!about) return [];
  const left = about.events.filter((number) => number < 0).length;
  const without = left ? `; left out: ${left} without this transition` : "";
  return [
    make("h3", {}, `All recordings at their change ${about.from} → ${about.to}`),
    make("p", { class: "note" }, `Share of ${about.to} over the time since the`
      + ` ${MOMENTS[view.aligned][2]}; thick: the median${without}.`),
    make("div", { class: "row controls" }, choice(MOMENTS.map(([name]) => name), view.aligned,
      (chosen) => { view.aligned = chosen; drawOverview(); })),
    make("div", { class: "chart", id: "aligned" }),
  ];
}

function drawAligned() {
  const { regime, events } = content.aligned;
  const key = MOMENTS[view.aligned][1];
  const found = content.series.map((series, i) => ({ series, event: series.events[events[i]] }))
    .filter(({ event }) => event)
    .map(({ series, event }) => {
      const { time, alpha } = curvesOf(series);
      return { series, event, x: time.map((t) => t - event[key]), y: alpha[regime] };
    });
  const longest = Math.max(...found.map(({ event }) => event.endAt - event.onsetAt));
  const steps = found.map(({ x }) => (x.at(-1) - x[0]) / Math.max(x.length - 1, 1));
  const reach = Math.max(AROUND * longest, 10 * median(steps));
  const low = Math.max(-reach, Math.min(...found.map(({ x }) => x[0])));
  const high = Math.min(reach, Math.max(...found.map(({ x }) => x.at(-1))));
  const dates = found[0].series.dates;
  const [size, unit] = dates ? LENGTHS.find(([one]) => high - low >= 2 * one) ?? LENGTHS.at(-1) : [1, ""];
  const traces = found.slice(0, MOST_LINES).map(({ series, x, y }) => ({
    x: x.map((t) => t / size), y, mode: "lines", name: plain(short(series.name, 24)),
    hovertemplate: "%{y:.2f}", line: { color: faint(regimeColour(regime), 0.4), width: 1 },
  }));
  const grid = Array.from({ length: GRID }, (_, i) => low + ((high - low) * i) / (GRID - 1));
  const middle = grid.map((t) => {
    const known = found.map(({ x, y }) => valueAt(x, y, t)).filter((value) => !Number.isNaN(value));
    return known.length >= MOST_KNOWN * found.length ? median(known) : NaN;
  });
  traces.push({ x: grid.map((t) => t / size), y: middle, mode: "lines", name: "median", hovertemplate: "%{y:.2f}",
    line: { color: regimeColour(regime), width: 3, dash: regimeDash(regime) } });
  return draw(byId("aligned"), traces, {
    height: 280, margin: margins({ b: 44 }), hovermode: "closest",
    xaxis: axis({ range: [low / size, high / size], title: { text: `time since the ${MOMENTS[view.aligned][2]}${unit ? ` (${unit})` : ""}` } }),
    yaxis: axis({ range: [-0.03, 1.03], fixedrange: true, title: { text: "share" } }),
    shapes: [{ type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: colour("soft"), width: 1, dash: "dot" } }],
  });
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = (sorted.length - 1) / 2;
  return (sorted[Math.floor(half)] + sorted[Math.ceil(half)]) / 2;
}

// Linear interpolation; NaN outside of what is known.
function valueAt(x, y, t) {
  if (t < x[0] || t > x.at(-1)) return NaN;
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const half = (low + high) >> 1;
    if (x[half] <= t) low = half; else high = half;
  }
  const part = high > low ? (t - x[low]) / (x[high] - x[low]) : 0;
  return y[low] + part * (y[high] - y[low]);
}
