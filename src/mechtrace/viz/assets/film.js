// Pictures along the time axis: they stay below the steps that they show, also in a zoom.

function pictures({ grey, width, height, time }) {
  const bytes = bytesOf(grey);
  const canvas = make("canvas", { width, height });
  const pen = canvas.getContext("2d");
  return time.map((_, number) => {
    const picture = pen.createImageData(width, height);
    for (let pixel = 0; pixel < width * height; pixel += 1) {
      picture.data.fill(bytes[number * width * height + pixel], 4 * pixel, 4 * pixel + 3);
      picture.data[4 * pixel + 3] = 255;
    }
    pen.putImageData(picture, 0, 0);
    return canvas.toDataURL("image/png");
  });
}

function drawFilm(element, series) {
  const { film } = series;
  const inside = element.clientWidth - margins().l - margins().r;
  const wide = (0.9 * inside) / film.time.length;
  const high = Math.min(120, Math.max(28, (wide * film.height) / film.width));
  return draw(element, [{
    x: film.time, y: film.time.map(() => 0), mode: "markers", hovertemplate: "%{x}<extra></extra>",
    marker: { size: 1, opacity: 0 },
  }], {
    height: high + 52, margin: margins(), hovermode: "closest", xaxis: timeAxis(series),
    yaxis: axis({ range: [-0.5, 0.5], fixedrange: true, tickvals: [], showgrid: false }),
    images: pictures(film).map((source, number) => ({
      source, xref: "x", yref: "y", x: film.time[number], y: 0, sizex: 0.9 * film.every, sizey: 1,
      xanchor: "center", yanchor: "middle", sizing: "contain", layer: "above",
    })),
  }, "zoom");
}
