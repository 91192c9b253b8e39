// Decisions: a card for every change of a plan: before, after, why; and what all of it has saved.
import { get } from "./api.js";
import { clock, empty, figure, fill, h, number, percent, seconds } from "./dom.js";

const OF_PLANS = { Reordered: "New order", RoutesChanged: "Routes", PilotDecided: "Order by a sample", ProbesReordered: "New order of probes", CacheAdded: "A cache of a join", CacheDropped: "A cache less", ConstraintAdopted: "A constraint holds", ConstraintViolated: "A constraint is violated" };
const KINDS = { ...OF_PLANS, EffortChanged: "Effort of profiling", Started: "A worker starts", QueryFailed: "Query failed", StreamFailed: "Stream failed", MemoryExceeded: "More memory than the limit" };

function chips(order, before) {
  return h("span", { class: "chips" }, order.map((each, at) => {
    const was = before ? before.indexOf(each) : at;
    const moved = was > at ? "up" : was >= 0 && was < at ? "down" : "";
    const said = moved ? { up: "earlier than before", down: "later than before" }[moved] : null;
    return [at ? h("span", { class: "arrow", "aria-hidden": "true" }, "→") : null, h("span", { class: `chip ${moved}`, title: said }, each)];
  }));
}

function since({ rows, seconds: paid, seconds_before: before, calls, calls_before: more }) {
  const saved = before - paid;
  return h("p", {}, h("b", {}, "Since: "), `in ${number(rows)} rows ${seconds(paid)} and ${number(calls)} calls; the order before would have taken about `,
    h("b", { class: saved > 0 ? "good" : "warn" }, seconds(before)), ` and ${number(Math.round(more))} calls`);
}

const given = (value) => value !== null && value !== undefined;

function card(each) {
  const about = [clock(each.seen), each.filter === "engine" ? null : each.filter, each.query ? `query ${each.query}` : null, each.input ? `new rows of ${each.input}` : null, given(each.cell) ? `cell ${each.cell}` : null, each.policy ? `policy ${each.policy}` : null, given(each.partition) ? `partition ${each.partition}` : null, given(each.at) ? `after ${number(each.at)} rows of the worker` : null];
  const body = [];
  if (each.after) body.push(h("dl", {}, each.before ? [h("dt", {}, "before"), h("dd", {}, chips(each.before))] : null, h("dt", {}, "after"), h("dd", {}, chips(each.after, each.before))));
  else if (each.routes) body.push(h("ul", {}, each.routes.map((route) => h("li", {}, route.replaceAll("->", "→")))));
  else body.push(h("p", {}, each.what));
  return h("article", { class: `card ${each.kind}` },
    h("div", { class: "row apart" }, h("h3", {}, KINDS[each.kind] || each.kind, each.route ? h("span", { class: "muted" }, ` on route ${each.route}`) : null), h("span", { class: "muted small" }, about.filter(Boolean).join(" · "))),
    body, each.since ? since(each.since) : null, each.why ? h("p", {}, h("b", {}, "Why: "), each.why) : null);
}

export function decisions(root, app) {
  const figures = h("div", { class: "figures" }), cards = h("div", {});
  const only = h("select", { "aria-label": "Filter", onchange: () => update() }, h("option", { value: "" }, "all filters and queries"));
  const kind = h("select", { "aria-label": "Kind", onchange: () => update() }, h("option", { value: "plans" }, "changes of plans and failures"), h("option", { value: "" }, "everything"), Object.entries(KINDS).map(([key, title]) => h("option", { value: key }, title)));
  let drawn = "";

  async function update() {
    const [found, filters] = await Promise.all([get("/api/events", { limit: 500 }), get("/api/filters")]);
    const ids = ["engine", ...filters.map((each) => each.id)];
    if (only.options.length !== ids.length + 1) fill(only, h("option", { value: "" }, "all filters and queries"), ids.map((each) => h("option", { value: each, selected: each === only.value }, each)));
    const known = filters.filter((each) => each.seconds_written !== null);
    const saved = known.reduce((sum, each) => sum + each.seconds_written - each.seconds, 0);
    const calls = filters.filter((each) => each.evaluations_written !== null).reduce((sum, each) => sum + each.evaluations_written - each.evaluations, 0);
    const written = known.reduce((sum, each) => sum + each.seconds_written, 0);
    const deciding = filters.reduce((sum, each) => sum + each.seconds * (each.profiling_share + each.deciding_share), 0);
    const spent = filters.reduce((sum, each) => sum + each.seconds, 0);
    const shown = found.events.filter((each) => (!only.value || each.filter === only.value) && (kind.value === "plans" ? !["EffortChanged", "Started"].includes(each.kind) : !kind.value || each.kind === kind.value));
    const now = JSON.stringify([shown.map((each) => [each.id, each.since?.rows]), calls, saved]);
    if (now === drawn) return;
    drawn = now;
    fill(figures,
      figure(number(found.events.filter((each) => each.kind in OF_PLANS).length), "changes of plans, of the latest 500 events"),
      figure(filters.length ? number(Math.abs(Math.round(calls))) : "–", `${calls < 0 ? "calls more" : "calls fewer"} than written orders take`),
      figure(known.length ? seconds(saved) : "–", `predicate time saved${written ? ` (${percent(saved / written)})` : ""}`),
      figure(spent ? percent(deciding / spent) : "–", "of predicate time for profiling and deciding"));
    fill(cards, shown.length ? shown.map(card) : empty("No decision yet. Filters with several predicates decide while rows come; see policy auto."));
  }

  fill(root, h("h1", {}, "Decisions"), figures, h("div", { class: "row" }, only, kind, h("span", { class: "muted small" }, "A decision has the time at which it was first seen here.")), h("div", { style: { "margin-top": ".8rem" }, role: "feed", "aria-label": "Decisions" }, cards));
  return { update };
}
