// Elements, and figures as people read them.
const SVG = "http://www.w3.org/2000/svg";

function make(element, given, children) {
  for (const [name, value] of Object.entries(given || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value" || name === "checked" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

export const h = (tag, given, ...children) => make(document.createElement(tag), given, children);
export const svg = (tag, given, ...children) => make(document.createElementNS(SVG, tag), given, children);
export const fill = (element, ...children) => {
  element.replaceChildren(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
};

/** Draw anew; what had the focus has it again, or what has come in its place. */
export function steadily(root, draw) {
  const focused = root.contains(document.activeElement) ? document.activeElement : null;
  draw();
  if (!focused || document.activeElement === focused) return;
  const key = (each) => `${each.tagName} ${each.getAttribute("aria-label") || each.textContent}`;
  const next = root.contains(focused) ? focused : [...root.querySelectorAll("a, button, input, select, [tabindex]")].find((each) => key(each) === key(focused));
  next?.focus({ preventScroll: true });
}

const NONE = "–";
export const number = (value, digits = 0) =>
  value === null || value === undefined ? NONE : value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: 0 });
export const percent = (value) => (value === null || value === undefined ? NONE : `${number(100 * value, 1)} %`);

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (value >= size) return `${number(value / size, 1)} ${unit}`;
  return `${number(value)} B`;
}

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  const size = Math.abs(value);
  if (size >= 86400) return `${number(value / 86400, 1)} d`;
  if (size >= 3600) return `${number(value / 3600, 1)} h`;
  if (size >= 60) return `${number(value / 60, 1)} min`;
  if (size >= 1 || size === 0) return `${number(value, 1)} s`;
  return size >= 1e-3 ? `${number(value * 1e3, 1)} ms` : `${number(value * 1e6, 1)} µs`;
}

export const moment = (micros) =>
  micros === null || micros === undefined ? NONE : new Date(micros / 1000).toISOString().replace("T", " ").replace(/\.000Z$|Z$/, "");
export const clock = (value) => new Date(value * 1000).toLocaleTimeString("en-GB");
export const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
export const badge = (status) => h("span", { class: `badge ${status}` }, status);
export const figure = (value, title) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, title));
export const empty = (...said) => h("p", { class: "empty" }, ...said);

export function table(titles, rows, numeric = []) {
  const kind = (at) => (numeric.includes(at) ? "number" : undefined);
  return h(
    "table", {},
    h("thead", {}, h("tr", {}, titles.map((each, at) => h("th", { class: kind(at), scope: "col" }, each)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((each, at) => h("td", { class: kind(at) }, each))))),
  );
}

const text = (value) => (value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value));

export function answer(found) {
  if (!found.rows.length) return empty("No rows yet.");
  const numeric = found.columns.map((each, at) => (/int|long|double|float|decimal/.test(each.type) ? at : -1));
  const time = found.columns.map((each) => /timestamp/.test(each.type));
  const rows = found.rows.map((row) => row.map((value, at) => (time[at] && value ? value.replace("T", " ").replace("+00:00", "") : text(value))));
  return h("div", { class: "scroll answer", tabindex: "0", role: "region", "aria-label": "Rows" }, table(found.columns.map((each) => each.name), rows, numeric));
}
