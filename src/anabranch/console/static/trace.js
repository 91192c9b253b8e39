// Trace: single rows on their way: through a filter the route, and the verdict and time of every predicate; through a join the partners.
import { get, named, patch } from "./api.js";
import { empty, fill, h, moment, number, seconds, short } from "./dom.js";

const SHARES = [[0, "no rows"], [0.0001, "1 of 10,000 rows"], [0.001, "1 of 1,000 rows"], [0.01, "1 of 100 rows"], [0.1, "1 of 10 rows"], [1, "all rows"]];
const SAID = { passed: "passed", dropped: "dropped", failed: "failed" };

const said = (values) => values.map(([name, value]) => `${name} ${value}`).join(", ") || "no columns";
const badge = (kind, ...text) => h("span", { class: `badge ${kind}` }, ...text);
const verdict = (each) => badge({ passed: "running", failed: "failed" }[each] || "paused", SAID[each]);
const listed = (values, ...more) => h("dl", {}, values.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]), more);

/** Rows of a filter. */
const OF_FILTERS = {
  key: (each) => `${each.partition}/${each.at}/${JSON.stringify(each.values)}`,
  fate(each) {
    const by = each.calls.find((call) => call.verdict === "dropped" && !call.profiling);
    return each.passed ? verdict("passed") : by ? badge("paused", `dropped by ${short(by.predicate, 24)}`) : verdict("failed");
  },
  told(row) {
    const most = Math.max(...row.calls.map((each) => each.seconds), 1e-12);
    const calls = row.calls.map((each) => h("li", { class: each.profiling ? "aside" : each.verdict },
      h("div", { class: "row apart" }, h("b", {}, each.predicate), h("span", {}, each.profiling ? h("span", { class: "muted small" }, "tried for the statistics ") : null, verdict(each.verdict))),
      h("div", { class: "row" }, h("div", { class: "meter grow", "aria-hidden": "true" }, h("i", { style: { width: `${(100 * each.seconds) / most}%` } })), h("span", { class: "small muted" }, `${seconds(each.seconds)} a row, in a call of ${number(each.rows)}`))));
    return [h("h2", {}, "Route"), h("p", {}, row.route ? [h("b", {}, row.route), ": "] : "One order for all rows: ", row.calls.filter((each) => !each.profiling).map((each) => each.predicate).join(" → ")),
      h("ol", { class: "journey" }, calls), h("h2", {}, "Row"), listed(row.values, h("dt", {}, "came"), h("dd", {}, `partition ${row.partition}, row ${number(row.at + 1)} of the task`))];
  },
  note: "Conditions that Spark judges itself are not in it.",
};

/** Rows of a join. */
const OF_JOINS = {
  key: (each) => `${each.input}/${each.time}/${JSON.stringify(each.values)}`,
  fate: (each) => (each.missed ? badge("paused", `no partner in ${short(each.missed, 24)}`) : badge("running", `${number(each.results)} ${each.results === 1 ? "result" : "results"}`)),
  told: (row) => [h("h2", {}, "Partners"), h("p", {}, `A row of ${row.input} looked in `, row.met.map((each) => each.window).join(" → ")),
    h("ol", { class: "journey" }, row.met.map((each) => h("li", { class: each.partners ? "passed" : "dropped" },
      h("div", { class: "row apart" }, h("b", {}, each.window), badge(each.partners ? "running" : "paused", each.partners ? `${number(each.partners)} ${each.partners === 1 ? "partner" : "partners"}` : "no partner")),
      h("ul", { class: "partners" }, each.shown.map((values) => h("li", { class: "mono" }, said(values))), each.partners > each.shown.length ? h("li", { class: "muted" }, `and ${number(each.partners - each.shown.length)} more`) : null)))),
    h("h2", {}, "Row"), listed(row.values, h("dt", {}, "of"), h("dd", {}, row.input), h("dt", {}, "counts from"), h("dd", {}, moment(row.time)))],
  note: "A row meets those that came before it; what comes later meets the row.",
};

export function trace(root, app, [chosen, of]) {
  const pick = h("select", { "aria-label": "Filter or join", onchange: () => (location.hash = pick.value) });
  const share = h("select", { "aria-label": "Share of rows that are traced", onchange: () => patch("/api/settings", { [joins ? "query" : "filter"]: id, trace: Number(share.value) }).then(() => { drawn = ""; return update(); }).catch(app.fail) }, SHARES.map(([value, text]) => h("option", { value }, text)));
  const list = h("div", { class: "rows", role: "group", "aria-label": "Traced rows" }), side = h("div", {}), note = h("p", { class: "muted small" });
  let id, joins, picked = null, drawn = "";
  const choose = (one, other) => { joins = one === "joins"; id = (joins ? other : one) || null; };
  const address = (name, isJoin) => `#/trace/${isJoin ? "joins/" : ""}${encodeURIComponent(name)}`;
  choose(chosen, of);

  function show(found, rows) {
    const kind = joins ? OF_JOINS : OF_FILTERS, now = JSON.stringify([found, picked]);
    if (now === drawn) return;
    drawn = now;
    if (!SHARES.some(([value]) => value === found.share)) share.append(h("option", { value: found.share }, `a share of ${found.share}`));
    share.value = found.share;
    share.disabled = !app.may();
    const row = rows.find((each) => kind.key(each) === picked) || rows[0];
    const focused = document.activeElement?.dataset?.row;
    fill(note, rows.length ? `The latest ${number(rows.length)} rows that were traced. ${kind.note}` : "");
    fill(list, rows.length ? rows.map((each) => h("button", { type: "button", class: "quiet traced", "data-row": kind.key(each), "aria-pressed": each === row ? "true" : "false", onclick: () => { picked = kind.key(each); show(found, rows); } },
      h("span", { class: "mono" }, short(said(each.values), 90)), kind.fate(each))) : empty(found.share ? "No row has been traced yet: traces come with the rows of the next ticks." : "Nothing is traced. Choose a share of the rows; answers stay the same."));
    if (focused) [...list.children].find((each) => each.dataset.row === focused)?.focus({ preventScroll: true });
    fill(side, row ? kind.told(row) : null);
  }

  async function update() {
    const [filters, queries] = await Promise.all([get("/api/filters"), get("/api/joins")]);
    const known = [...filters.map((each) => [each.id, false]), ...queries.map((each) => [each.query, true])];
    if (!known.length) return fill(root, h("h1", {}, "Trace"), empty("Nothing can be traced yet: filters, which are conditions that call functions or are costly, and joins of windows can."));
    if (!root.contains(pick)) frame();
    if (pick.options.length !== known.length) fill(pick, known.map(([name, isJoin]) => h("option", { value: address(name, isJoin) }, isJoin ? `joins of ${name}` : name)));
    if (!known.some(([name, isJoin]) => name === id && isJoin === joins)) [id, joins] = known[0];
    pick.value = address(id, joins);
    const found = await get(named(joins ? "joins" : "traces", id));
    return show(found, joins ? found.rows : found.traces);
  }

  function frame() {
    fill(root, h("div", { class: "row apart" }, h("h1", {}, "Trace"), h("div", { class: "row" }, h("label", {}, "of ", pick), h("label", {}, "trace ", share))),
      h("p", { class: "muted" }, "Pick a row and see what became of it: in a filter its route, and what every predicate said and took; in a join the rows that it met."), h("div", { class: "split even" }, h("section", { class: "panel" }, list, note), h("section", { class: "panel" }, side)));
  }

  frame();
  return { update, go: ([one, other]) => { if (one) choose(one, other); drawn = ""; picked = null; update().catch(app.fail); } };
}
