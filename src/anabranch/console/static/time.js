// Time: how far each stream is, who holds whom back, and the rows that came too late.
import { get, named } from "./api.js";
import { answer, empty, fill, h, moment, number, seconds, svg, table } from "./dom.js";

export function time(root, app) {
  const bars = h("div", {}), held = h("div", {}), aside = h("div", {});

  const look = (stream, kind) => h("button", { type: "button", class: "quiet", "aria-label": `${kind} rows of ${stream.name}`, disabled: !stream[kind] || app.isSnapshot, onclick: async () => {
    fill(aside, h("section", { class: "panel" }, h("p", { class: "muted" }, "Reading …")));
    const found = await get(named("streams", stream.name, `/${kind}`), { limit: 200 }).catch((error) => { app.fail(error); return null; });
    fill(aside, found ? h("section", { class: "panel" }, h("h2", {}, `${kind === "late" ? "Late" : "Unusable"} rows of ${stream.name}`), h("p", { class: "muted small" }, kind === "late" ? "Their time had been answered before they came." : "They have no time, or one too far ahead of the clock."), answer(found)) : null);
  } }, number(stream[kind]));

  function frontier(streams) {
    const known = streams.filter((each) => each.newest !== null && each.name !== "SysStream");
    if (!known.length) return empty("No stream has shown a row yet.");
    const front = (each) => each.newest - each.skew;
    const last = Math.max(...known.map((each) => each.newest)), first = Math.min(...known.map(front)), slowest = known.length > 1 ? known.reduce((a, b) => (front(a) <= front(b) ? a : b)) : null;
    const span = Math.max(last - first, 1e6) * 1.25, x = (at) => 150 + 620 * (1 - (last - at) / span), height = 30 * known.length + 26;
    return svg("svg", { viewBox: `0 0 900 ${height}`, width: Math.max(640, Math.min(900, innerWidth - 80)), role: "img", "aria-label": "Frontiers of the streams" }, known.map((each, at) => {
      const y = 8 + at * 30, hold = slowest === each && front(each) < last - 1e6;
      return [svg("text", { x: 0, y: y + 15 }, each.name), svg("rect", { class: "bar-back", x: 150, y, width: 620, height: 20, rx: 4 }), svg("rect", { class: `bar-face ${hold ? "hold" : ""}`, x: 150, y, width: Math.max(2, x(front(each)) - 150), height: 20, rx: 4 }),
        svg("line", { class: "gate", x1: x(each.newest), x2: x(each.newest), y1: y - 3, y2: y + 23 }), svg("text", { class: "muted", x: 780, y: y + 15 }, hold ? `${seconds((last - front(each)) / 1e6)} behind` : "")];
    }), svg("text", { class: "muted", x: 150, y: height - 4 }, "bar: rows before are complete; stroke: the newest row"));
  }

  async function update() {
    const [streams, found] = await Promise.all([get("/api/streams"), get("/api/queries", { limit: 1000 })]);
    const own = streams.filter((each) => each.name !== "SysStream" || each.readers.length);
    const by = new Map(own.map((each) => [each.name, each]));
    fill(bars, h("div", { class: "drawing" }, frontier(own)), h("div", { class: "scroll", style: { "margin-top": ".8rem" } }, table(["stream", "newest row", "complete up to", "skew", "idle after", "rows", "late", "unusable", "read by"], own.map((each) => [each.name, moment(each.newest), each.newest === null ? "–" : moment(each.newest - each.skew), seconds(each.skew / 1e6), each.idle === null ? "never" : seconds(each.idle / 1e6), number(each.rows), look(each, "late"), look(each, "unusable"), `${number(each.readers.length)} ${each.readers.length === 1 ? "query" : "queries"}`]), [5, 6, 7])));
    const rows = found.queries.filter((each) => each.streams.length).map((each) => {
      const waits = each.streams.map((name) => by.get(name)).filter(Boolean);
      const silent = waits.find((stream) => stream.newest === null);
      const slowest = silent || waits.reduce((a, b) => (a.newest - a.skew <= b.newest - b.skew ? a : b), waits[0]);
      const why = silent ? `${silent.name} has shown no row yet` : each.status !== "running" ? `it is ${each.status}` : slowest ? `${slowest.name}${slowest.skew ? `, which may be ${seconds(slowest.skew / 1e6)} out of order` : ""}` : "–";
      return { lag: each.lag ?? -1, cells: [each.name, moment(each.position), each.lag === null ? "–" : seconds(each.lag / 1e6), why] };
    }).sort((a, b) => b.lag - a.lag).slice(0, 200);
    fill(held, rows.length ? h("div", { class: "scroll" }, table(["query", "answered up to", "behind its newest stream", "waits for"], rows.map((each) => each.cells), [2])) : empty("No query reads a stream."));
  }

  fill(root, h("h1", {}, "Time"), h("section", { class: "panel" }, h("h2", {}, "Frontier of each stream"), bars), aside, h("section", { class: "panel" }, h("h2", {}, "Who holds queries back"), held));
  return { update };
}
