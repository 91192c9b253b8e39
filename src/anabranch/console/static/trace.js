// Trace: single rows on their way: the route of each, and the verdict and time of every predicate.
import { get, named, patch } from "./api.js";
import { empty, fill, h, number, seconds, short } from "./dom.js";

const SHARES = [[0, "no rows"], [0.0001, "1 of 10,000 rows"], [0.001, "1 of 1,000 rows"], [0.01, "1 of 100 rows"], [0.1, "1 of 10 rows"], [1, "all rows"]];
const SAID = { passed: "passed", dropped: "dropped", failed: "failed" };

const label = (each) => short(each.values.map(([name, value]) => `${name} ${value}`).join(", ") || "no columns", 90);
const verdict = (each) => h("span", { class: `badge ${each === "passed" ? "running" : each === "failed" ? "failed" : "paused"}` }, SAID[each]);
const key = (each) => `${each.partition}/${each.at}/${JSON.stringify(each.values)}`;

function journey(row) {
  const most = Math.max(...row.calls.map((each) => each.seconds), 1e-12);
  return h("ol", { class: "journey" }, row.calls.map((each) => h("li", { class: each.profiling ? "aside" : each.verdict },
    h("div", { class: "row apart" }, h("b", {}, each.predicate), h("span", {}, each.profiling ? h("span", { class: "muted small" }, "tried for the statistics ") : null, verdict(each.verdict))),
    h("div", { class: "row" }, h("div", { class: "meter grow", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * each.seconds) / most}%` } })), h("span", { class: "small muted" }, `${seconds(each.seconds)} a row, in a call of ${number(each.rows)}`)))));
}

export function trace(root, app, [chosen]) {
  const pick = h("select", { "aria-label": "Filter", onchange: () => (location.hash = `#/trace/${encodeURIComponent(pick.value)}`) });
  const share = h("select", { "aria-label": "Share of rows that are traced", onchange: () => patch("/api/settings", { filter: id, trace: Number(share.value) }).then(() => { drawn = ""; return update(); }).catch(app.fail) }, SHARES.map(([value, said]) => h("option", { value }, said)));
  const list = h("div", { class: "rows", role: "group", "aria-label": "Traced rows" }), side = h("div", {}), note = h("p", { class: "muted small" });
  let id = chosen || null, picked = null, drawn = "";

  function show(found) {
    const now = JSON.stringify([found, picked]);
    if (now === drawn) return;
    drawn = now;
    if (!SHARES.some(([value]) => value === found.share)) share.append(h("option", { value: found.share }, `a share of ${found.share}`));
    share.value = found.share;
    share.disabled = !app.may();
    const row = found.traces.find((each) => key(each) === picked) || found.traces[0];
    const focused = document.activeElement?.dataset?.row;
    fill(note, found.traces.length ? `The latest ${number(found.traces.length)} rows that were traced. Conditions that Spark judges itself are not in it.` : "");
    const fate = (each) => {
      const by = each.calls.find((call) => call.verdict === "dropped" && !call.profiling);
      return each.passed ? verdict("passed") : by ? h("span", { class: "badge paused" }, `dropped by ${short(by.predicate, 24)}`) : verdict("failed");
    };
    fill(list, found.traces.length ? found.traces.map((each) => h("button", { type: "button", class: "quiet traced", "data-row": key(each), "aria-pressed": each === row ? "true" : "false", onclick: () => { picked = key(each); show(found); } },
      h("span", { class: "mono" }, label(each)), fate(each))) : empty(found.share ? "No row has been traced yet: traces come when a task ends." : "Nothing is traced. Choose a share of the rows; answers stay the same."));
    if (focused) [...list.children].find((each) => each.dataset.row === focused)?.focus({ preventScroll: true });
    fill(side, row ? [h("h2", {}, "Route"), h("p", {}, row.route ? [h("b", {}, row.route), ": "] : "One order for all rows: ", row.calls.filter((each) => !each.profiling).map((each) => each.predicate).join(" → ")),
      journey(row), h("h2", {}, "Row"), h("dl", {}, row.values.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]), h("dt", {}, "came"), h("dd", {}, `partition ${row.partition}, row ${number(row.at + 1)} of the task`))] : null);
  }

  async function update() {
    const filters = await get("/api/filters");
    if (!filters.length) return fill(root, h("h1", {}, "Trace"), empty("No filter has run yet. Conditions that call functions, or are costly, are filters: their rows can be traced."));
    if (!root.contains(pick)) frame();
    if (pick.options.length !== filters.length) fill(pick, filters.map((each) => h("option", { value: each.id }, each.id)));
    if (!filters.some((each) => each.id === id)) id = filters[0].id;
    pick.value = id;
    return show(await get(named("traces", id)));
  }

  function frame() {
    fill(root, h("div", { class: "row apart" }, h("h1", {}, "Trace"), h("div", { class: "row" }, h("label", {}, "filter ", pick), h("label", {}, "trace ", share))),
      h("p", { class: "muted" }, "Pick a row and see what became of it: its route, and what every predicate said and took."), h("div", { class: "split even" }, h("section", { class: "panel" }, list, note), h("section", { class: "panel" }, side)));
  }

  frame();
  return { update, go: ([next]) => { id = next || id; drawn = ""; picked = null; update().catch(app.fail); } };
}
