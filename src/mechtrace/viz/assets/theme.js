// Colours come from the style sheet, so that light, dark and paper are decided in one place.

const REGIME_COLOURS = 8;
const DASHES = ["solid", "dash", "dashdot", "longdash"];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const regimeColour = (k) => colour(`c${k % REGIME_COLOURS}`);
const regimeDash = (k) => DASHES[Math.floor(k / REGIME_COLOURS) % DASHES.length];

function faint(hex, opacity) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${opacity})`;
}

// The charts understand a few tags in text: names are told to be text.
const plain = (text) => String(text)
  .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function swatch(k) {
  return make("svg", { width: 18, height: 8, "aria-hidden": "true" }, make("line", {
    x1: 0, y1: 4, x2: 18, y2: 4, stroke: regimeColour(k), "stroke-width": 3,
    "stroke-dasharray": regimeDash(k) === "solid" ? null : "5 2",
  }));
}

function axis(more) {
  return {
    gridcolor: colour("grid"), linecolor: colour("line"), tickcolor: colour("line"),
    zeroline: false, automargin: false, ...more,
  };
}

function layout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { family: "system-ui, Segoe UI, Roboto, Arial, sans-serif", size: 12, color: colour("ink") },
    hoverlabel: {
      bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") },
      namelength: 24,
    },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: faint(colour("soft"), 0.55), activecolor: colour("accent") },
    ...more,
  };
}

// Only buttons that keep to this page are named.
const BUTTONS = { zoom: ["zoom2d", "pan2d", "resetScale2d", "toImage"], fixed: ["toImage"] };

function draw(element, traces, appearance, buttons = "fixed") {
  return Plotly.react(element, traces, layout(appearance), {
    displaylogo: false, responsive: true, showTips: false, modeBarButtons: [BUTTONS[buttons]],
  });
}

function divergingScale() {
  return [[0, colour("minus")], [0.5, colour("card")], [1, colour("plus")]];
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
}
