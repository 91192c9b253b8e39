// Lines over time, as SVG.
import { fill, h, number, svg } from "./dom.js";

const LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 24, COLOURS = 8;

function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
}

const brief = (value) => (Math.abs(value) >= 1e4 ? Intl.NumberFormat("en", { notation: "compact" }).format(value) : number(value, 3));

/** series: [{name, points: [[seconds, value], ...]}] */
export function chart(series, { height = 190, title = "", steps = false } = {}) {
  const known = series.filter((each) => each.points.length);
  if (!known.length) return h("p", { class: "empty" }, "No values yet.");
  const width = Math.max(280, Math.min(640, innerWidth - 60));
  const all = known.flatMap((each) => each.points);
  const times = all.map(([at]) => at), values = all.map(([, value]) => value ?? 0);
  let [first, last] = [Math.min(...times), Math.max(...times)];
  if (first === last) { first -= 1; last += 1; }
  const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-9) === low + 1e-9 ? low + 1 : Math.max(...values);
  const x = (at) => LEFT + ((at - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - low) / (high - low)) * (height - TOP - BOTTOM);
  const path = (points) => points.map(([at, value], n) => (steps && n ? `H${x(at).toFixed(1)}V${y(value ?? 0).toFixed(1)}` : `${n ? "L" : "M"}${x(at).toFixed(1)} ${y(value ?? 0).toFixed(1)}`)).join("");
  const when = (at) => new Date(at * 1000).toISOString().slice(last - first > 172800 ? 5 : 11, last - first > 172800 ? 16 : 19).replace("T", " ");
  const drawn = svg(
    "svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": title || known.map((each) => each.name).join(", ") },
    ticks(low, high, 4).map((value) => [svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }), svg("text", { class: "muted", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, brief(value))]),
    [0, 0.5, 1].map((part) => svg("text", { class: "muted", x: x(first + part * (last - first)), y: height - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, when(first + part * (last - first)))),
    known.slice(0, COLOURS).map((each, at) => svg("path", { class: `line s${at}`, d: path(each.points) }, svg("title", {}, each.name))),
  );
  const names = known.slice(0, COLOURS).map((each, at) => {
    const swatch = svg("svg", { width: 16, height: 10, "aria-hidden": "true" }, svg("line", { class: `line s${at}`, x1: 0, x2: 16, y1: 5, y2: 5 }));
    return h("span", { class: "key" }, swatch, each.name, ` ${brief(each.points.at(-1)[1] ?? 0)}`);
  });
  return fill(h("div", {}), drawn, h("div", {}, names, known.length > COLOURS ? h("span", { class: "key" }, `and ${known.length - COLOURS} more`) : null));
}

/** An answer as lines: its time, each number, and texts as the names of lines. */
export function ofAnswer(found) {
  const at = found.columns.findIndex((each) => each.name === "_ts");
  const numbers = found.columns.map((each, n) => (/int|double|float|decimal/.test(each.type) && n !== at ? n : -1)).filter((n) => n >= 0);
  const texts = found.columns.map((each, n) => (/string/.test(each.type) && each.name !== "_op" ? n : -1)).filter((n) => n >= 0);
  const op = found.columns.findIndex((each) => each.name === "_op");
  if (at < 0 || !numbers.length) return [];
  const lines = new Map();
  const measure = numbers.at(-1);
  for (const row of found.rows) {
    if (op >= 0 && row[op] !== "+") continue;
    const name = texts.map((n) => row[n] ?? "NULL").join(" ") || found.columns[measure].name;
    if (!lines.has(name)) lines.set(name, []);
    lines.get(name).push([Date.parse(row[at].endsWith("Z") || row[at].includes("+") ? row[at] : `${row[at]}Z`) / 1000, Number(row[measure])]);
  }
  return [...lines].map(([name, points]) => ({ name, points }));
}
