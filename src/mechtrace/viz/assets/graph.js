// A weighted directed graph: latents in a circle, arrows from cause to effect.

const MOST_NODES = 24;

function drawGraph(names, weightOf, most, largest) {
  const count = names.length;
  const [size, radius, node] = [320, 112, 15];
  const place = names.map((_, i) => {
    const angle = (2 * Math.PI * i) / count - Math.PI / 2;
    return [size / 2 + radius * Math.cos(angle), size / 2 + radius * Math.sin(angle)];
  });
  const edges = names.flatMap((_, i) => names.map((_, j) => ({ i, j, weight: weightOf(i, j) })))
    .filter((edge) => Math.abs(edge.weight) > 0)
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, most);
  const arrow = (kind) => make("marker", {
    id: `arrow-${kind}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
    markerUnits: "userSpaceOnUse", orient: "auto",
  }, make("path", { d: "M0 0 L8 4 L0 8 Z", fill: colour(kind) }));
  const picture = make("svg", {
    class: "graph", viewBox: `0 0 ${size} ${size}`, role: "img",
    "aria-label": `Graph of the ${edges.length} strongest effects`,
  }, arrow("plus"), arrow("minus"));
  for (const { i, j, weight } of edges) {
    const kind = weight > 0 ? "plus" : "minus";
    const strength = Math.min(1, Math.abs(weight) / (largest || 1));
    picture.append(make("path", {
      d: edgePath(place[i], place[j], i === j, size, node), fill: "none", stroke: colour(kind),
      "stroke-width": (0.6 + 3.4 * strength).toFixed(2), "stroke-opacity": (0.3 + 0.7 * strength).toFixed(2),
      "stroke-dasharray": weight > 0 ? null : "6 3", "marker-end": `url(#arrow-${kind})`,
    }, make("title", {}, `${names[i]} → ${names[j]}: ${weight.toFixed(2)}`)));
  }
  names.forEach((name, i) => picture.append(
    make("circle", { cx: place[i][0], cy: place[i][1], r: node }),
    make("text", { x: place[i][0], y: place[i][1] }, short(name, 4), make("title", {}, name)),
  ));
  return picture;
}

// Bent to one side, so that the ways there and back are two; a latent's own effect is a loop.
function edgePath(from, to, loop, size, node) {
  if (loop) {
    const [dx, dy] = [from[0] - size / 2, from[1] - size / 2];
    const far = Math.hypot(dx, dy);
    const [ux, uy] = [dx / far, dy / far];
    const at = (along, aside) => [from[0] + along * ux - aside * uy, from[1] + along * uy + aside * ux];
    const [a, b, c, d] = [at(12, 9), at(46, 24), at(46, -24), at(13, -10)];
    return `M${a} C${b} ${c} ${d}`;
  }
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const far = Math.hypot(dx, dy);
  const bend = [(from[0] + to[0]) / 2 - 0.14 * dy, (from[1] + to[1]) / 2 + 0.14 * dx];
  const towards = (end) => {
    const [ex, ey] = [bend[0] - end[0], bend[1] - end[1]];
    const length = Math.hypot(ex, ey);
    return [end[0] + (node + 2) * ex / length, end[1] + (node + 2) * ey / length];
  };
  return far ? `M${towards(from)} Q${bend} ${towards(to)}` : "";
}
