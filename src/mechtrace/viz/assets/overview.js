// Many recordings: a table to sort and search, with the shares of each as a small picture.

const PAGE_ROWS = 100;
const LEVELS = ["bad", "caution", "good"];
const COLUMNS = [
  { title: "recording", of: (series) => series.name },
  { title: "shares over time" },
  { title: "what happened", of: (series) => series.sequence },
  { title: "changes", of: (series) => series.changes, text: (value) => String(value) },
  { title: "interval width", of: (series) => series.width ?? Infinity, text: (value) => (value < Infinity ? rounded(value) : "–") },
  { title: "unexplained", of: (series) => series.unexplained, text: (value) => `${rounded(100 * value)} %` },
  { title: "verdict", of: (series) => LEVELS.indexOf(series.verdict.level) },
];

const listed = { by: null, down: false, words: "", rows: PAGE_ROWS };

function drawOverview() {
  if (content.series.length < 2) return;
  byId("overview").hidden = false;
  byId("to-overview").hidden = false;
  const left = content.left_out ? `${content.left_out.toLocaleString("en")} more recordings are not in this file.` : "";
  const search = make("input", { type: "search", placeholder: "Find a recording or regime",
    "aria-label": "Find a recording or regime", value: listed.words,
    oninput: () => { listed.words = search.value; listed.rows = PAGE_ROWS; drawRows(); } });
  fill("overview",
    make("div", { class: "row spread" }, make("h2", {}, "Overview"), make("div", { class: "controls" }, search)),
    make("p", { class: "note" }, "Choose a recording to see it below. ", left),
    make("div", { class: "row keys" }, content.regimes.map((name, k) => make("span", { class: "key" }, swatch(k), name))),
    table("overview", COLUMNS.map(headerOf), []),
    make("p", { class: "row controls", id: "more" }),
    ...alignedPanel());
  drawRows();
  if (content.aligned) drawAligned();
}

function headerOf(column, number) {
  if (!column.of) return column.title;
  return make("button", { type: "button", onclick: () => {
    listed.down = listed.by === number && !listed.down;
    listed.by = number;
    drawRows();
  } }, column.title);
}

function sortedSeries() {
  const words = listed.words.toLowerCase();
  const found = content.series.map((series, index) => ({ series, index })).filter(({ series }) => (
    `${series.name} ${series.sequence} verdict ${series.verdict.trust}`.toLowerCase().includes(words)));
  if (listed.by === null) return found;
  const { of } = COLUMNS[listed.by];
  const order = new Intl.Collator("en", { numeric: true }).compare;
  const compare = (a, b) => (typeof a === "string" ? order(a, b) : a - b);
  return found.sort((a, b) => (listed.down ? -1 : 1) * compare(of(a.series), of(b.series)));
}

function drawRows() {
  const found = sortedSeries();
  const shown = found.slice(0, listed.rows);
  byId("overview").querySelectorAll("th").forEach((head, number) => {
    head.className = COLUMNS[number].text ? "number" : "";
    head.setAttribute("aria-sort", number !== listed.by ? "none" : listed.down ? "descending" : "ascending");
  });
  byId("overview").querySelector("tbody").replaceChildren(...shown.map(({ series, index }) => rowOf(series, index)));
  const rest = found.length - shown.length;
  const all = found.length === content.series.length && rest === 0;
  byId("more").replaceChildren(all ? "" : `${shown.length} of ${found.length} shown`, rest > 0 ? make("button", {
    type: "button", onclick: () => { listed.rows += PAGE_ROWS; drawRows(); } }, `Show ${Math.min(rest, PAGE_ROWS)} more`) : "");
}

function rowOf(series, index) {
  const cells = COLUMNS.map((column, number) => {
    if (number === 0) {
      return make("td", { class: "name" }, make("button", { type: "button", class: "link",
        onclick: () => chooseSeries(index) }, series.name));
    }
    if (!column.of) return make("td", {}, sparkline(series));
    if (column.title === "verdict") return make("td", {}, badge(series.verdict.level, series.verdict.trust));
    return cell(column.text ? column.text(column.of(series)) : column.of(series), column.text ? "number" : "name");
  });
  return make("tr", { "aria-current": String(index === view.series), "data-series": index }, cells);
}

// The shares stacked to one, as a picture of 60 columns.
function sparkline(series) {
  const { alpha } = curvesOf(series);
  const count = Math.min(alpha[0].length, 60);
  const row = (i) => Math.round((i * (alpha[0].length - 1)) / Math.max(count - 1, 1));
  const below = new Array(count).fill(0);
  const x = (i) => ((100 * i) / Math.max(count - 1, 1)).toFixed(1);
  const layers = alpha.map((share, k) => {
    const low = [...below];
    below.forEach((_, i) => { below[i] += Math.max(0, share[row(i)] || 0); });
    if (below.every((value, i) => value - low[i] < 0.01)) return null;
    const points = [...below.map((v, i) => `${x(i)},${(26 - 26 * v).toFixed(1)}`),
      ...low.map((v, i) => `${x(i)},${(26 - 26 * v).toFixed(1)}`).reverse()];
    return make("polygon", { points: points.join(" "), fill: regimeColour(k) });
  });
  return make("svg", { class: "spark", viewBox: "0 0 100 26", preserveAspectRatio: "none", role: "img",
    "aria-label": series.answer }, layers);
}

function chooseSeries(index) {
  view.series = index;
  view.range = null;
  view.moment = 0;
  drawRecording();
  drawMixture();
  document.querySelectorAll("#overview tr[data-series]").forEach((row) => row.setAttribute("aria-current",
    String(Number(row.dataset.series) === index)));
  byId("recording-name").focus();
  byId("recording").scrollIntoView();
}
