// River: rows come in at the left, part into routes, get fewer at every predicate, and join again. Width is rows, colour is cost.
import { get, named } from "./api.js";
import { clock, empty, fill, h, number, percent, svg, table } from "./dom.js";

const HEIGHT = 230, GAP = 46, STEP = 168, HEAD = 120, BEND = 90, TOP = 40;

function costClass(costs) {
  const known = Object.values(costs).filter((each) => each > 0);
  const low = Math.min(...known), high = Math.max(...known);
  return (cost) => (!(cost > 0) ? "cost-none" : high === low ? "cost-2" : `cost-${Math.min(4, Math.floor((5 * Math.log(cost / low)) / Math.log(high / low)))}`);
}

const compared = (saved) => `${number(Math.abs(Math.round(saved)))} ${saved < 0 ? "more" : "fewer"}`;
const band = (x0, y0, h0, x1, y1, h1) => {
  const m = (x0 + x1) / 2;
  return `M${x0} ${y0 - h0 / 2}C${m} ${y0 - h0 / 2} ${m} ${y1 - h1 / 2} ${x1} ${y1 - h1 / 2}V${y1 + h1 / 2}C${m} ${y1 + h1 / 2} ${m} ${y0 + h0 / 2} ${x0} ${y0 + h0 / 2}Z`;
};

function draw(routes, facts, sharesKnown) {
  const costs = Object.fromEntries(Object.entries(facts).map(([name, each]) => [name, each.cost_us]));
  const shade = costClass(costs);
  const steps = Math.max(1, ...routes.map((each) => each.order.length));
  const joins = HEAD + BEND + steps * STEP;
  const width = joins + BEND + HEAD, height = TOP + HEIGHT + GAP * (routes.length - 1) + (routes.length > 1 ? 34 : 14);
  const middle = TOP + (HEIGHT + GAP * (routes.length - 1)) / 2;
  const parts = [], labels = [];
  let lane = TOP, source = middle - HEIGHT / 2;
  const ends = [];
  for (const route of routes) {
    const size = Math.max(3, route.share * HEIGHT), centre = lane + size / 2;
    const first = shade(costs[route.order[0]]);
    parts.push(svg("path", { class: `water ${first}`, d: band(HEAD, source + size / 2, size, HEAD + BEND, centre, size) }));
    let left = size, x = HEAD + BEND;
    route.order.forEach((name, at) => {
      const fact = facts[name] || {}, rate = fact.rate ?? 1, gate = x + STEP - 40, after = Math.max(1.5, left * rate), colour = shade(fact.cost_us);
      parts.push(svg("path", { class: `water ${colour}`, d: band(x, centre, left, gate, centre, left) }));
      const next = at + 1 < route.order.length ? shade(costs[route.order[at + 1]]) : "cost-0";
      parts.push(svg("path", { class: `water ${next}`, d: band(gate, centre, left, gate + 40, centre, after) }));
      labels.push(svg("line", { class: "gate", x1: gate, x2: gate, y1: centre - left / 2 - 4, y2: centre + left / 2 + 4 }),
        svg("text", { class: "strong", x: gate - 6, y: centre - left / 2 - 22, "text-anchor": "end" }, name.length > 22 ? `${name.slice(0, 21)}…` : name, svg("title", {}, name)),
        svg("text", { class: "muted", x: gate - 6, y: centre - left / 2 - 8, "text-anchor": "end" }, [fact.cost_us === null || fact.cost_us === undefined ? null : `${number(fact.cost_us, 1)} µs`, fact.rate === undefined ? null : `${percent(rate)} pass`].filter(Boolean).join(", ")));
      left = after;
      x = gate + 40;
    });
    for (; x < joins; x = joins) parts.push(svg("path", { class: "water cost-0", d: band(x, centre, left, joins, centre, left) }));
    ends.push([centre, left]);
    if (routes.length > 1) labels.push(svg("text", { x: HEAD + BEND - 4, y: centre + size / 2 + 16 }, `${sharesKnown ? `${percent(route.share)} of rows: ` : ""}${route.tests || "all other rows"}`.slice(0, 110)));
    source += size;
    lane += size + GAP;
  }
  const out = ends.reduce((sum, [, left]) => sum + left, 0);
  let at = middle - out / 2;
  for (const [centre, left] of ends) {
    parts.push(svg("path", { class: "water cost-0", d: band(joins, centre, left, joins + BEND, at + left / 2, left) }));
    at += left;
  }
  const firstColour = routes.length === 1 ? shade(costs[routes[0].order[0]]) : "cost-none";
  parts.unshift(svg("path", { class: `water ${firstColour}`, d: band(16, middle, source - (middle - HEIGHT / 2), HEAD, middle - HEIGHT / 2 + (source - (middle - HEIGHT / 2)) / 2, source - (middle - HEIGHT / 2)) }), svg("path", { class: "water cost-0", d: band(joins + BEND, middle, out, width - 16, middle, out) }));
  labels.push(svg("text", { class: "strong", x: 22, y: middle + 4 }, "rows in"), svg("text", { class: "strong", x: width - 20, y: middle - out / 2 - 8, "text-anchor": "end" }, "rows out"));
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, style: { width: "100%", "min-width": `${Math.max(700, 0.8 * width)}px`, "max-width": `${1.4 * width}px` }, role: "img", "aria-label": `Routes: ${routes.map((each) => each.order.join(", then ")).join("; ")}` }, parts, labels);
}

export function river(root, app, [chosen]) {
  const pick = h("select", { "aria-label": "Filter", onchange: () => (location.hash = `#/river/${encodeURIComponent(pick.value)}`) });
  const slider = h("input", { type: "range", min: 0, value: 0, "aria-label": "Past decisions", oninput: () => { follow = Number(slider.value) === frames.length; paint(); } });
  const when = h("p", { role: "status" }), picture = h("div", { class: "drawing", tabindex: "0", role: "region", "aria-label": "Picture of the routes" }), facts = h("div", {});
  const step = (by) => { slider.value = Number(slider.value) + by; slider.dispatchEvent(new Event("input")); };
  let id = chosen || null, frames = [], now = null, follow = true, drawn = "";

  function paint() {
    const at = Number(slider.value), frame = at < frames.length ? frames[at] : null;
    const measured = frame ? frame.measured || now : now;
    const known = {};
    for (const each of measured.predicates) known[each.predicate] = { cost_us: each.cost_us, rate: each.seen ? each.passed / each.seen : undefined };
    let routes, sharesKnown = true;
    if (frame && !frame.measured) {
      sharesKnown = frame.routes.length < 2;
      routes = frame.routes.length > 1 ? frame.routes.map((each) => ({ ...each, share: 1 / frame.routes.length })) : [{ tests: "", order: frame.order, share: 1 }];
    } else routes = measured.routes.length ? measured.routes.map((each) => ({ ...each, tests: each.tests.join(" or ") })) : [{ tests: "", order: measured.order, share: 1 }];
    const said = frame ? [h("b", {}, `Decision ${at + 1} of ${frames.length}, seen ${clock(frame.seen)}: `), frame.what, frame.why ? `. ${frame.why}` : "", sharesKnown ? "" : " (how many rows took each route was not recorded; widths are equal)"] : [h("b", {}, "Now: "), `${number(now.rows)} rows so far, policy ${now.policy}, ${number(now.evaluations)} calls`, now.evaluations_written === null ? "" : `, ${compared(now.evaluations_written - now.evaluations)} than the written order takes`];
    const key = JSON.stringify([at, frames.length, measured, routes]);
    if (key === drawn) return;
    drawn = key;
    fill(when, said);
    fill(picture, draw(routes, known, sharesKnown));
    fill(facts, table(["predicate", "place", "written", "rows seen", "passed", "dropped", "calls", "cost per row", "counted on"],
      [...measured.predicates].sort((a, b) => a.place - b.place).map((each) => [each.predicate, each.place, now.written.indexOf(each.predicate) + 1, number(each.seen), number(each.passed), number(each.dropped), number(each.calls), each.cost_us === null ? "–" : `${number(each.cost_us, 2)} µs`, each.basis]), [1, 2, 3, 4, 5, 6, 7]));
  }

  async function update() {
    const filters = await get("/api/filters");
    if (!filters.length) return fill(root, h("h1", {}, "River"), empty("No filter has run yet. Conditions that call functions, or are costly, are filters: their order adapts."));
    if (!root.contains(pick)) frame();
    if (pick.options.length !== filters.length) fill(pick, filters.map((each) => h("option", { value: each.id }, each.id)));
    if (!filters.some((each) => each.id === id)) id = filters[0].id;
    pick.value = id;
    now = await get(named("filters", id));
    frames = now.frames;
    slider.max = frames.length;
    if (follow) slider.value = frames.length;
    return paint();
  }

  function frame() {
    const keys = ["cheap", "", "", "", "costly"].map((each, at) => h("span", { class: "key" }, svg("svg", { width: 16, height: 11, "aria-hidden": "true" }, svg("rect", { class: `cost-${at}`, width: 16, height: 11, rx: 2 })), each));
    fill(root, h("div", { class: "row apart" }, h("h1", {}, "River"), h("div", { class: "row" }, h("label", {}, "filter ", pick))),
      h("section", { class: "panel" }, h("div", { class: "row" }, h("button", { type: "button", class: "quiet", "aria-label": "Earlier decision", onclick: () => step(-1) }, "‹"), h("div", { class: "grow" }, slider), h("button", { type: "button", class: "quiet", "aria-label": "Later decision", onclick: () => step(1) }, "›"), h("button", { type: "button", class: "quiet", onclick: () => step(1e9) }, "Now")), when, picture, h("div", {}, keys, h("span", { class: "key" }, "width: rows; colour: cost of the predicate ahead"))),
      h("section", { class: "panel" }, h("h2", {}, "Predicates"), h("div", { class: "scroll" }, facts)));
  }

  frame();
  return { update, go: ([next]) => { id = next || id; follow = true; drawn = ""; update().catch(app.fail); } };
}
