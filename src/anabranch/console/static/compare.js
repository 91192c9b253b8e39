// Two plans beside each other on live rows: what the other one takes, with the control that says how much chance is in it.
import { badge, empty, h, number } from "./dom.js";
import { patch } from "./api.js";

const SAID = { unknown: "not enough rows yet", alike: "no difference that chance would not make", rival: "the other plan is faster", present: "the plan in use is faster" };
const times = (value, margin) => (value === null ? "–" : `${number(value, 2)}${margin === null ? "" : ` ± ${number(margin, 2)}`}`);

function bar(title, value, margin, kind) {
  const at = (each) => `${Math.min(100, Math.max(0, 50 * each))}%`;
  const low = Math.max(0, value - (margin ?? 0)), high = value + (margin ?? 0);
  return [h("dt", {}, title), h("dd", {}, h("div", { class: "versus", "aria-hidden": "true" }, h("i", { class: `span ${kind}`, style: { left: at(low), width: `calc(${at(high)} - ${at(low)})` } }), h("i", { class: "mark", style: { left: at(value) } }), h("i", { class: "one" })), times(value, margin))];
}

function result(each, app, send) {
  const found = each.comparison, plan = each.rival_plan;
  const adopt = () => patch("/api/settings", plan.order ? { filter: each.id, policy: plan.policy, order: plan.order } : { filter: each.id, policy: plan.policy }).then(() => patch("/api/settings", { filter: each.id, rival: null }));
  return [h("div", { class: "row apart" }, h("p", {}, h("b", {}, "In use: "), each.policy, each.order ? ` ${each.order.join(" → ")}` : "", h("br"), h("b", {}, "Other plan: "), each.rival.replaceAll("->", "→")), badge(SAID[found.verdict])),
    h("dl", {}, bar("other / in use", found.ratio, found.margin, found.verdict), bar("control: in use / in use", found.control, found.control_margin, "control"), h("dt", {}, "compared"), h("dd", {}, `${number(found.blocks)} times, ${number(found.rows)} rows by the other plan`)),
    h("p", { class: "muted small" }, "Time per row; the line is 1, left of it the other plan is faster. A third of the chunks goes by the other plan, dealt at random. The control would be 1 without chance."),
    h("div", { class: "row" }, h("button", { type: "button", disabled: !app.may(), onclick: () => send(adopt) }, "Use the other plan"), h("button", { type: "button", class: "quiet", disabled: !app.may(), onclick: () => send(() => patch("/api/settings", { filter: each.id, rival: null })) }, "End the comparison"))];
}

/** The panel of a filter; send(action) carries a change out and draws anew. */
export function compare(each, policies, app, send) {
  if (each.rival) return result(each, app, send);
  const policy = h("select", { "aria-label": `Other plan of ${each.id}`, disabled: !app.may(), onchange: () => (order.disabled = policy.value !== "fixed" || !app.may()) }, policies.map((name) => h("option", { value: name, selected: name === "fixed" }, name === "fixed" ? "fixed order" : `policy ${name}`)));
  const order = h("input", { class: "grow", value: each.predicates.join(" -> "), "aria-label": `Order of the other plan of ${each.id}`, disabled: !app.may() });
  const start = () => {
    const names = order.value.split("->").map((name) => name.trim()).filter(Boolean);
    return patch("/api/settings", { filter: each.id, rival: policy.value === "fixed" ? { policy: "fixed", order: names } : { policy: policy.value } });
  };
  return [h("div", { class: "row" }, policy, order, h("button", { type: "button", disabled: !app.may(), onclick: () => send(start) }, "Compare"))];
}

export const comparisons = (found, app, send) => (found.filters.length ? found.filters.map((each) => h("article", { class: "versus-of" }, h("h3", {}, each.id), compare(each, found.policies, app, send))) : empty("No filter has run yet."));
