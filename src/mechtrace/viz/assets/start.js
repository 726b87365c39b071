// Unpack, draw, and draw again when the colours or the paper change.

let content = null;
const view = {
  series: 0, range: null, moment: 0, lag: 0, differences: false, aligned: 1,
  hiddenRegimes: new Set(), hiddenLayers: new Set(),
};

function drawAll() {
  drawOverview();
  drawRecording();
  drawMechanisms();
  drawTraining();
}

function useTheme(name) {
  setTheme(name);
  if (content) drawAll();
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => useTheme(event.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => {
  useTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});

// Paper is white; the charts are drawn as wide as A4 between its margins, plus what the screen pads.
let onScreen = null;
addEventListener("beforeprint", () => {
  onScreen = document.documentElement.dataset.theme;
  document.querySelector("main").style.width = "750px";
  useTheme("light");
});
addEventListener("afterprint", () => {
  document.querySelector("main").style.width = "";
  useTheme(onScreen);
});

async function start() {
  const [library, data] = await Promise.all([readIsland("library"), readIsland("content")]);
  document.head.append(make("script", {}, library));
  content = JSON.parse(data);
  const kinds = content.series.flatMap((series) => Object.keys(series.evidence));
  kinds.forEach((name) => view.hiddenLayers.add(`evidence ${name}`));
  drawAll();
  byId("waiting").remove();
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  byId("waiting").textContent = `This report could not be drawn (${error.message}). A browser of 2023 or newer can.`;
  throw error;
});
