// State: who holds how much, why, and when it goes.
import { get } from "./api.js";
import { chart } from "./chart.js";
import { bytes, empty, figure, fill, h, number, percent, seconds, table } from "./dom.js";

export function state(root) {
  const figures = h("div", { class: "figures" }), operators = h("div", {}), streams = h("div", {}), joins = h("div", {}), memory = h("div", {});

  const meter = (part) => h("div", { class: "meter", "aria-hidden": "true" }, h("i", { style: { width: `${100 * part}%` } }));

  function why(stream) {
    const reasons = [];
    if (stream.readers.length) reasons.push(`${stream.readers.slice(0, 3).join(", ")}${stream.readers.length > 3 ? ` and ${stream.readers.length - 3} more` : ""} may need them`);
    if (stream.retain) reasons.push(`the stream retains ${seconds(stream.retain / 1e6)}`);
    return stream.buffered ? reasons.join("; ") || "–" : "nothing is kept";
  }

  async function update() {
    const [found, history] = await Promise.all([get("/api/state"), get("/api/history", { property: "memory", minutes: 60 })]);
    const all = found.operators, total = found.held_bytes;
    fill(figures, figure(bytes(total), "state of operators"), figure(number(found.held_rows), "rows in operators"), figure(number(found.streams.reduce((sum, each) => sum + each.buffered, 0)), "rows in buffers of streams"), figure(found.state_bytes === null ? "default" : bytes(found.state_bytes), "held in memory per worker"));
    fill(operators, all.length ? h("div", { class: "scroll" }, table(["operator", "rows", "bytes", "", "segments", "kept for", "goes"], all.map((each) => [each.title, number(each.held_rows), bytes(each.held_bytes), meter(total ? each.held_bytes / total : 0), number(each.segments), `${each.queries.slice(0, 4).join(", ")}${each.queries.length > 4 ? ` and ${each.queries.length - 4} more` : ""}`, each.held_rows ? "when rows leave the window, or the last of these queries is dropped" : "–"]), [1, 2, 4])) : empty("No query has state."), found.total > all.length ? h("p", { class: "muted small" }, `The ${number(all.length)} of ${number(found.total)} operators that hold most.`) : null);
    fill(streams, found.streams.length ? h("div", { class: "scroll" }, table(["stream", "rows kept", "why", "goes"], found.streams.map((each) => [each.name, number(each.buffered), why(each), each.retain ? `${seconds(each.retain / 1e6)} after its time` : "once every reader has answered its time"]), [1])) : empty("No streams."));
    const caches = found.joins.flatMap((each) => each.caches.map((cache) => [each.query, cache.input, cache.windows.join(" with "), `${number(cache.hits)} of ${number(cache.probes)}`, number(cache.entries), bytes(cache.nbytes), percent(cache.saved)]));
    const constraints = found.joins.flatMap((each) => each.constraints.map((line) => [each.query, line]));
    fill(joins, caches.length ? h("div", { class: "scroll" }, table(["query", "for rows of", "kept", "look-ups that hit", "keys", "bytes", "steps saved"], caches, [3, 4, 5, 6])) : h("p", { class: "muted" }, "No join keeps partial results: that pays where the same keys come again and their partners cost much."),
      constraints.length ? h("div", { class: "scroll", style: { "margin-top": ".8rem" } }, table(["query", "constraint, and what it saves"], constraints)) : null);
    const seen = new Set();
    const lines = history.series.filter((each) => { const key = `${each.entity} ${JSON.stringify(each.points)}`; const fresh = !seen.has(key); seen.add(key); return fresh; });
    fill(memory, chart(lines.map((each) => ({ name: `${each.query}: ${each.entity}`, points: each.points })), { title: "Bytes of state over time" }));
  }

  fill(root, h("h1", {}, "State"), figures, h("section", { class: "panel" }, h("h2", {}, "Operators"), operators), h("div", { class: "two" }, h("section", { class: "panel" }, h("h2", {}, "Buffers of streams"), streams), h("section", { class: "panel" }, h("h2", {}, "Bytes of state, the last hour"), memory)), h("section", { class: "panel" }, h("h2", {}, "Caches of joins, and constraints"), joins));
  return { update };
}
