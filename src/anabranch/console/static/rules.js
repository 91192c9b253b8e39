// The rules of a template: a table, a row of fields to add one, and a button to remove each.
import { get, named, post, remove } from "./api.js";
import { empty, fill, h, number, table } from "./dom.js";

const NUMBER = /int|long|short|byte|double|float|decimal/;

function valueOf(text, type) {
  if (text === "") return null;
  return NUMBER.test(type) ? Number(text) : /bool/.test(type) ? text === "true" : text;
}

/** The rules of a query; they are read by Spark, and so only when this is opened and after a change. */
export function rules(name, app) {
  const box = h("div", {}, h("p", { class: "muted" }, "Reading …"));

  const change = (action) => action().then(load).catch(app.fail);

  async function load() {
    const [known, found] = await Promise.all([get("/api/rules"), get(named("rules", name, "/rows"), { limit: 200 })]);
    const template = known.find((each) => each.name === name);
    const place = found.columns.findIndex((each) => each.name === template.key);
    const fields = template.columns.map(([column, type]) => [column, type, h("input", { placeholder: column, "aria-label": `${column} of the new rule`, title: type, required: column === template.key })]);
    const add = (event) => {
      event.preventDefault();
      change(() => post(named("rules", name), { rules: [Object.fromEntries(fields.map(([column, type, field]) => [column, valueOf(field.value, type)]))] }));
    };
    const gone = (row) => h("button", { type: "button", class: "quiet", "aria-label": `Remove the rule ${row[place]}`, onclick: () => change(() => remove(`${named("rules", name)}/${encodeURIComponent(row[place])}`)) }, "Remove");
    const rows = found.rows.map((row) => [...row.map((value) => (value === null ? "NULL" : String(value))), app.may() ? gone(row) : ""]);
    fill(box, app.may() ? h("form", { class: "row", onsubmit: add }, fields.map(([, , field]) => field), h("button", { type: "submit" }, "Add the rule")) : null,
      rows.length ? h("div", { class: "scroll answer", tabindex: "0", role: "region", "aria-label": "Rules" }, table([...found.columns.map((each) => each.name), ""], rows)) : empty("No rules yet."),
      h("p", { class: "muted small" }, `${number(rows.length)} of ${number(found.total)} rules`));
  }

  load().catch((error) => { fill(box, empty(app.isSnapshot ? "The snapshot does not have the rules." : error.message)); });
  return box;
}
