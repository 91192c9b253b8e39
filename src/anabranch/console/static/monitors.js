// Monitors: graphs that are CQL queries over SysStream, to be read and edited; alerts are queries, too.
import { get, named, post, remove } from "./api.js";
import { chart, ofAnswer } from "./chart.js";
import { answer, badge, empty, fill, h, number } from "./dom.js";
import { coloured, editor } from "./editor.js";

const READY = {
  "Seconds of a tick": "Select Istream(entity, value) From SysStream [Now] Where entity = 'engine' And property = 'seconds'",
  "Rate of streams": "Select Istream(entity, value) From SysStream [Now] Where property = 'rate' And entity Like 'stream %'",
  "Lag of queries": "Select Istream(query, value) From SysStream [Now] Where entity = 'query' And property = 'lag'",
  "Memory of operators": "Select Istream(query, entity, value) From SysStream [Now] Where property = 'memory'",
  "Mean selectivity, 5 minutes": "Select entity, Avg(value) As selectivity From SysStream [Range 5 Minutes] Where property = 'selectivity' Group By entity",
  "Alert: a tick takes more than a second": "Select Istream(value) From SysStream [Now] Where entity = 'engine' And property = 'seconds' And value > 1",
};

export function monitors(root, app) {
  const cards = h("div", { class: "two" }), note = h("div", {});
  const ready = h("select", { "aria-label": "A graph to begin with" }, Object.keys(READY).map((each) => h("option", {}, each)));
  const drawn = new Map();
  let editing = null;

  async function add() {
    const title = ready.value, kind = title.startsWith("Alert") ? "alert" : "monitor";
    const { queries } = await get("/api/queries", { limit: 1000 });
    let n = 1;
    while (queries.some((each) => each.name === `${kind}_${n}`)) n++;
    await post("/api/queries", { name: `${kind}_${n}`, text: READY[title] });
    await update();
  }

  function edit(query, box) {
    const writer = editor({ text: query.text, label: `Text of ${query.name}` });
    const said = h("p", { class: "bad small", role: "alert" });
    editing = query.name;
    const end = () => { editing = null; drawn.clear(); return update(); };
    const save = async () => {
      const checked = await post("/api/check", { text: writer.text });
      if (!checked.ok) { const [error] = checked.errors; writer.mark(error); fill(said, `${error.error}. ${error.hint || ""}`); return; }
      await remove(named("queries", query.name));
      await post("/api/queries", { name: query.name, text: writer.text });
      await end();
    };
    fill(box, h("h2", {}, query.name), writer.box, said, h("div", { class: "row", style: { "margin-top": ".5rem" } }, h("button", { type: "button", onclick: () => save().catch(app.fail) }, "Save"), h("button", { type: "button", class: "quiet", onclick: () => end().catch(app.fail) }, "Cancel")));
    writer.field.focus();
  }

  async function update() {
    const { queries } = await get("/api/queries", { search: "sysstream", limit: 50 });
    const found = queries.filter((each) => each.streams.includes("SysStream"));
    fill(note, found.length ? null : empty("No monitor yet. Choose a graph and add it: it is a query over SysStream, on which every tick publishes what it did."));
    const boxes = await Promise.all(found.map(async (query) => {
      const old = drawn.get(query.name);
      if (editing === query.name && old) return old.box;
      const rows = await get(named("queries", query.name, "/rows"), { limit: 500, changes: query.is_stream ? "" : "true" });
      const key = JSON.stringify([query.text, query.status, rows]);
      if (old && old.key === key) return old.box;
      const box = old ? old.box : h("section", { class: "panel", "aria-label": `Monitor ${query.name}` });
      const alert = query.name.startsWith("alert");
      fill(box, h("div", { class: "row apart" }, h("h2", {}, query.name, " ", badge(query.status), alert ? h("span", { class: `badge ${rows.rows.length ? "failed" : "running"}` }, rows.rows.length ? `raised, ${number(rows.rows.length)} rows` : "quiet") : null),
        app.may() ? h("div", { class: "row" }, h("button", { type: "button", class: "quiet", onclick: () => edit(query, box) }, "Edit"), h("button", { type: "button", class: "quiet", onclick: () => remove(named("queries", query.name)).then(update, app.fail) }, "Remove")) : null),
        alert ? answer(rows) : chart(ofAnswer(rows), { title: query.name, steps: !query.is_stream }), h("pre", { class: "small", style: { "margin-top": ".5rem" } }, coloured(query.text)));
      drawn.set(query.name, { key, box });
      return box;
    }));
    for (const name of drawn.keys()) if (!found.some((each) => each.name === name)) drawn.delete(name);
    if (boxes.length !== cards.childElementCount || boxes.some((each, at) => cards.children[at] !== each)) fill(cards, boxes);
  }

  fill(root, h("div", { class: "row apart" }, h("h1", {}, "Monitors"), app.may() ? h("div", { class: "row" }, ready, h("button", { type: "button", onclick: () => add().catch(app.fail) }, "Add")) : null), note, cards);
  return { update };
}
