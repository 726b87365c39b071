// How the model was learned.

function drawTraining() {
  const { history, best_step: best } = content.training;
  if (!history.length) {
    fill("training", make("h2", {}, "Training"), make("p", {}, "No evaluations were kept."));
    return;
  }
  const panels = [["held_out_elbo", "held-out ELBO (nats per step)"], ["loss", "training loss"]];
  const elements = panels.map(() => make("div", { class: "chart" }));
  fill("training", make("h2", {}, "Training"), make("p", { class: "note" },
    "The weights of the best step (dashed) are used. The two should flatten together; a held-out curve that"
    + " falls while the loss still improves means too little data."), make("div", { class: "pair" }, elements));
  panels.forEach(([key, title], number) => draw(elements[number], [{
    x: history.map((record) => record.step), y: history.map((record) => record[key]), mode: "lines+markers",
    line: { color: regimeColour(number), width: 2 }, marker: { size: 5 }, hovertemplate: "step %{x}: %{y:.4~g}<extra></extra>",
  }], {
    height: 230, margin: { l: 56, r: 10, t: 26, b: 40 }, hovermode: "closest",
    title: { text: title, font: { size: 13 }, x: 0.02, y: 0.97 },
    xaxis: axis({ title: { text: "step" } }), yaxis: axis({}),
    shapes: best === null || best === undefined ? [] : [{ type: "line", x0: best, x1: best, y0: 0, y1: 1, yref: "paper",
      line: { color: colour("soft"), dash: "dash", width: 1 } }],
  }));
}
