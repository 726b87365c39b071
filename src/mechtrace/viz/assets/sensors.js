// Which sensors speak for which regime, over time: a strip for each of the strongest.

const STRIP = 22; // pixels of a strip

function sensorsNote({ full, exact, more }) {
  const left = more ? ` ${more} more ${more > 1 ? "sensors say" : "sensor says"} less.` : "";
  const how = exact ? "" : " The evidence is about latents; it is divided among the sensors approximately.";
  return `The colour is the regime that a sensor speaks for, in full strength from ${rounded(full, 2)} nats per row on`
    + ` (contribution to the log likelihood ratio of the best regime and the next).${how}${left}`;
}

// Colours of all regimes one after the other, each from that of the paper to its own.
function strengthScale() {
  const count = content.regimes.length;
  return content.regimes.flatMap((_, k) => [
    [k / count, colour("card")], [(k + 0.999) / count, regimeColour(k)],
  ]).concat([[1, regimeColour(count - 1)]]);
}

function drawSensors(element, series) {
  const { names, edges, full, leader, strength } = series.sensors;
  const nats = unpack(strength);
  const z = nats.map((row, lane) => row.map((value, i) => (Number.isNaN(value) ? null
    : leader[lane][i] + 0.995 * Math.min(1, value / full))));
  const text = nats.map((row, lane) => row.map((value, i) => (
    `${plain(short(names[lane], 24))}: ${plain(short(content.regimes[leader[lane][i]], 20))} by ${rounded(value, 2)} nats`)));
  return draw(element, [{
    type: "heatmap", x: series.dates ? edges.map((edge) => new Date(edge).toISOString()) : edges, y: names.map((_, lane) => -lane), z, text,
    zmin: 0, zmax: content.regimes.length, colorscale: strengthScale(), showscale: false, ygap: 2,
    hovertemplate: "%{text}<extra></extra>",
  }], {
    height: STRIP * names.length + 56, margin: margins(), hovermode: "closest", xaxis: timeAxis(series, { showgrid: false }),
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: -0.5, y1: -0.5, line: { color: colour("soft"), width: 1 } }],
    yaxis: axis({ range: [0.5 - names.length, 0.5], fixedrange: true, showgrid: false, ticklen: 0,
      tickvals: names.map((_, i) => -i), ticktext: names.map((name) => plain(short(name, innerWidth < 640 ? 6 : 9))) }),
  }, "zoom");
}
