// Elements of the page. Text always goes in as text nodes, so that names stay names.

function make(tag, attributes, ...children) {
  // pictures are of another kind of element: that of the empty one in the template
  const element = make.svg.has(tag)
    ? document.createElementNS(byId("picture").namespaceURI, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
make.svg = new Set(["svg", "path", "line", "circle", "text", "title", "marker", "polygon"]);

const byId = (id) => document.getElementById(id);

function fill(id, ...children) {
  byId(id).replaceChildren(...children.flat().filter(Boolean));
}

// A button that is on or off; both the mouse and the keyboard can press it.
function chip(label, on, onchange, swatch) {
  const button = make("button", {
    type: "button", class: "chip", "aria-pressed": String(on), title: label,
    onclick: () => {
      const now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(now));
      onchange(now);
    },
  }, swatch ?? [], make("span", {}, label));
  return button;
}

// One of several views.
function choice(labels, chosen, onchange) {
  const buttons = labels.map((label, number) => make("button", {
    type: "button", "aria-pressed": String(number === chosen),
    onclick: () => {
      buttons.forEach((b, n) => b.setAttribute("aria-pressed", String(n === number)));
      onchange(number);
    },
  }, label));
  return make("div", { class: "choice", role: "group" }, buttons);
}

const badge = (level, text) => make("span", { class: `badge ${level}` }, text);

function table(kind, head, rows) {
  return make("div", { class: "scroll" }, make("table", { class: kind },
    make("thead", {}, make("tr", {}, head.map((h, column) => make("th", {
      scope: "col", class: rows[0]?.children[column]?.className === "number" ? "number" : null,
    }, h)))),
    make("tbody", {}, rows)));
}

const cell = (text, kind) => make("td", { class: kind }, text);
const short = (text, most = 12) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
