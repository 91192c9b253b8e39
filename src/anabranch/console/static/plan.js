// Plan: the network of all queries with its sharing. The cause of a delay has one colour, what waits for it is grey.
import { get } from "./api.js";
import { bytes, empty, fill, h, moment, number, percent, seconds, short, svg } from "./dom.js";
import { layout } from "./graph.js";

const LATE_SECONDS = 2;

function cause(nodes, edges) {
  const next = new Map(nodes.map((each) => [each.id, []]));
  for (const [one, other] of edges) next.get(one).push(other);
  const behind = (id, found = new Set()) => { for (const each of next.get(id)) if (!found.has(each)) { found.add(each); behind(each, found); } return found; };
  const late = new Set(nodes.filter((each) => each.kind === "query" && each.lag > LATE_SECONDS).map((each) => each.id));
  const busy = nodes.filter((each) => each.kind === "operator" && each.seconds > 0).sort((a, b) => b.seconds - a.seconds);
  for (const each of busy.slice(0, 1)) { const after = behind(each.id); if ([...after].some((id) => late.has(id))) return { id: each.id, blocked: after }; }
  return { id: null, blocked: new Set() };
}

function lines(each) {
  if (each.kind === "stream") return [each.rate === null || each.rate === undefined ? `${number(each.rows)} rows` : `${number(each.rate, 1)} rows/s in ticks`, `${number(each.buffered)} rows kept`];
  if (each.kind === "operator") return [`${number(each.rows_in)} in, ${number(each.rows_out)} out`, `${seconds(each.seconds)} · ${bytes(each.held_bytes)}`];
  if (each.kind === "query") return [`${number(each.rows)} rows, ${each.status || ""}`, each.lag === null || each.lag === undefined ? "" : `${seconds(each.lag)} behind`];
  return [each.kind, ""];
}

function facts(each, minutes) {
  const over = `over ${minutes} min`;
  const all = { stream: [["rate", each.rate === null || each.rate === undefined ? "–" : `${number(each.rate, 1)} rows/s of tick time, ${over}`], ["rows", number(each.rows)], ["late", number(each.late)], ["unusable", number(each.unusable)], ["kept", `${number(each.buffered)} rows`], ["newest row", moment(each.newest)], ["skew", seconds((each.skew || 0) / 1e6)]],
    operator: [["rows in", `${number(each.rows_in)} ${over}`], ["rows out", `${number(each.rows_out)} ${over}`], ["selectivity", percent(each.selectivity)], ["time", `${seconds(each.seconds)} ${over}, all cells`], ["share of ticks", percent(each.share)], ["state", `${number(each.held_rows)} rows, ${bytes(each.held_bytes)}`], ["segments", number(each.segments)]],
    query: [["status", each.status], ["rows", number(each.rows)], ["behind", `${seconds(each.lag)}, mean ${over}`], ["up to", moment(each.position)], ["failed", each.error]] }[each.kind] || [];
  return [["kind", each.kind], ...all, ["serves", each.queries ? each.queries.join(", ") : ""]].filter(([, value]) => value !== null && value !== undefined && value !== "");
}

export function plan(root, app, [chosen]) {
  const minutes = h("select", { "aria-label": "Averages over", onchange: () => update() }, [1, 5, 15, 60].map((each) => h("option", { value: each, selected: each === 5 }, `${each} min`)));
  const only = h("input", { list: "plan-queries", placeholder: "all queries", "aria-label": "Only the query", value: chosen || "", onchange: () => update() });
  const names = h("datalist", { id: "plan-queries" });
  const picture = h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "The network" }), side = h("div", {}), note = h("p", { class: "muted small" });
  let picked = null, drawn = "";

  function draw(found) {
    const { id, blocked } = cause(found.nodes, found.edges);
    const { at, width, height, box } = layout(found.nodes, found.edges);
    const most = Math.max(1, ...found.nodes.map((each) => each.rows_out || each.rows || 0));
    const by = new Map(found.nodes.map((each) => [each.id, each]));
    const curves = found.edges.map(([one, other]) => {
      const a = at.get(one), b = at.get(other), from = by.get(one), x0 = a.x + box.width, y0 = a.y + box.height / 2, y1 = b.y + box.height / 2, m = (x0 + b.x) / 2;
      const rows = from.rows_out ?? from.rows ?? 0;
      return svg("path", { class: "edge", d: `M${x0} ${y0}C${m} ${y0} ${m} ${y1} ${b.x} ${y1}`, "stroke-width": 1 + 6 * Math.log1p(rows) / Math.log1p(most) }, svg("title", {}, `${number(rows)} rows`));
    });
    const boxes = found.nodes.map((each) => {
      const { x, y } = at.get(each.id), shared = each.kind === "operator" && each.queries && each.queries.length > 1;
      const kinds = ["node", each.kind, shared ? "shared" : "", each.id === id ? "cause" : "", blocked.has(each.id) ? "blocked" : "", each.id === picked ? "chosen" : ""];
      const open = () => { picked = each.id; drawn = ""; show(found); };
      const [first, second] = lines(each);
      return svg("g", { class: kinds.join(" "), transform: `translate(${x} ${y})`, tabindex: 0, role: "button", "aria-label": `${each.kind} ${each.title}`, onclick: open, onkeydown: (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); open(); } } },
        svg("rect", { width: box.width, height: box.height, rx: 9 }), svg("text", { class: "strong", x: 11, y: 20 }, short(each.title, 23), svg("title", {}, each.title)),
        svg("text", { class: "muted", x: 11, y: 38 }, first), svg("text", { class: "muted", x: 11, y: 55 }, shared ? `${second} · ${each.queries.length} queries` : second));
    });
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Streams, operators and queries" }, curves, boxes);
  }

  function show(found) {
    const key = JSON.stringify([found, picked]);
    if (key === drawn) return;
    drawn = key;
    const focused = document.activeElement?.getAttribute?.("aria-label");
    fill(picture, found.nodes.length ? draw(found) : empty("Nothing runs."));
    if (focused) picture.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    const each = found.nodes.find((node) => node.id === picked);
    fill(side, each ? h("section", { class: "panel" }, h("h2", {}, each.title), h("dl", {}, facts(each, found.minutes).map(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]))) : h("p", { class: "panel muted small" }, "Choose a node for its properties."));
    const shared = found.nodes.filter((node) => node.kind === "operator" && (node.queries || []).length > 1).length;
    fill(note, `${number(found.nodes.length)} nodes${found.total > found.nodes.length ? ` of ${number(found.total)}: choose a query to see its own` : ""}, ${number(shared)} ${shared === 1 ? "operator is" : "operators are"} shared, averages of ${number(found.ticks)} ${found.ticks === 1 ? "tick" : "ticks"}. `, cause(found.nodes, found.edges).id ? h("span", { class: "bad" }, "Red: takes the most time while queries behind it lag; grey: waits for it.") : "No query lags behind.");
  }

  async function update() {
    const found = await get("/api/plans", { query: only.value, minutes: minutes.value });
    const known = await get("/api/queries", { limit: 200 });
    if (names.childElementCount !== known.queries.length) fill(names, known.queries.map((each) => h("option", { value: each.name })));
    show(found);
  }

  fill(root, h("div", { class: "row apart" }, h("h1", {}, "Plan"), h("div", { class: "row" }, h("label", {}, "query ", only), names, h("label", {}, "over ", minutes))), h("div", { class: "split beside" }, h("section", { class: "panel" }, picture, note), side));
  return { update };
}
