// The path on the simplex: a segment for two regimes, a triangle for three, a polygon beyond.

const AT_WORK = 0.1; // a regime that never gets this share is left out of the picture

function regimesAtWork(alpha) {
  const peak = alpha.map((share) => share.reduce((a, b) => (b > a ? b : a), 0));
  const order = peak.map((_, k) => k).sort((a, b) => peak[b] - peak[a]);
  return order.filter((k, rank) => rank < 2 || peak[k] >= AT_WORK).sort((a, b) => a - b);
}

function corners(count) {
  if (count === 2) return [[0, 0], [1, 0]];
  return Array.from({ length: count }, (_, i) => {
    const angle = Math.PI / 2 + (count === 3 ? Math.PI * 2 / 3 : 0) - (2 * Math.PI * i) / count;
    return [Math.cos(angle), Math.sin(angle)];
  });
}

function simplexNote(count) {
  const left = content.regimes.length - count;
  const omitted = left ? ` ${left} that never reach ${AT_WORK} are left out.` : "";
  if (count === 2) return `From one pure regime to the other, time running downwards.${omitted}`;
  if (count === 3) return `Each corner is a pure regime; colour is time.${omitted}`;
  return `Each corner is a pure regime, each point the mean of the corners weighted by alpha: a`
    + ` projection, in which different mixtures of ${count} regimes can meet.${omitted}`;
}

function drawSimplex(element, series) {
  const { time, alpha } = curvesOf(series);
  const used = regimesAtWork(alpha);
  const at = corners(used.length);
  const segment = used.length === 2;
  const total = time.map((_, i) => used.reduce((sum, k) => sum + alpha[k][i], 0) || NaN);
  const along = (side) => time.map((_, i) => used.reduce(
    (sum, k, corner) => sum + at[corner][side] * alpha[k][i], 0,
  ) / total[i]);
  const x = along(0);
  const y = segment ? time : along(1);
  const text = time.map((t, i) => [plain(timeText(t, series.dates)),
    ...used.map((k) => `${plain(short(content.regimes[k], 20))} ${alpha[k][i].toFixed(2)}`)].join("<br>"));
  const frame = segment
    ? [0, 1].map((side) => ({ x: [side, side], y: [time[0], time.at(-1)], mode: "lines",
      hoverinfo: "skip", line: { color: regimeColour(used[side]), width: 3 } }))
    : [{ x: [...at, at[0]].map((c) => c[0]), y: [...at, at[0]].map((c) => c[1]), mode: "lines",
      hoverinfo: "skip", line: { color: colour("soft"), width: 1.2 } }];
  const marks = used.map((k, corner) => ({
    x: at[corner][0] * (segment ? 1 : 1.06), y: segment ? 1 : at[corner][1] * 1.06,
    yref: segment ? "paper" : "y", yanchor: segment || at[corner][1] > 0 ? "bottom" : "top",
    xanchor: segment ? ["left", "right"][corner] : "center",
    showarrow: false, text: plain(short(content.regimes[k], 16)), font: { color: regimeColour(k), size: 13 },
  }));
  const path = {
    x, y, text, mode: "lines+markers", hovertemplate: "%{text}<extra></extra>",
    line: { color: faint(colour("soft"), 0.55), width: 1.2 },
    marker: { size: 7, color: time, colorscale: [[0, colour("early")], [1, colour("late")]], showscale: !segment && !series.dates,
      colorbar: { title: { text: "time" }, thickness: 10, outlinewidth: 0, len: 0.8 } },
  };
  const moment = { x: [x[view.moment]], y: [y[view.moment]], mode: "markers", hoverinfo: "skip",
    marker: { size: 15, color: "rgba(0,0,0,0)", line: { color: colour("ink"), width: 2 } } };
  const hiddenAxis = { visible: false, fixedrange: true };
  return draw(element, [...frame, path, moment], {
    height: 380, margin: { l: segment ? 84 : 8, r: 8, t: segment ? 44 : 28, b: segment ? 30 : 8 }, hovermode: "closest", annotations: marks,
    xaxis: segment
      ? axis({ range: [-0.08, 1.08], tickvals: [0, 0.5, 1], ticktext: ["1 : 0", "½ : ½", "0 : 1"], fixedrange: true })
      : { ...hiddenAxis, range: [-1.15, 1.15] },
    yaxis: segment
      ? axis({ autorange: "reversed", type: series.dates ? "date" : "linear", fixedrange: true })
      : { ...hiddenAxis, range: [used.length === 3 ? -0.7 : -1.2, 1.2], scaleanchor: "x" },
  });
}
