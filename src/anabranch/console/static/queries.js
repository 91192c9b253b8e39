// Queries: written, checked, registered, paused, dropped; their answers as they come.
import { act, get, named, patch, post, remove } from "./api.js";
import { chart, ofAnswer } from "./chart.js";
import { answer, badge, bytes, empty, fill, h, moment, number, seconds, steadily } from "./dom.js";
import { coloured, editor } from "./editor.js";
import { rules } from "./rules.js";

const HEIGHT = 56, PAGE = 200, CHECK_MILLISECONDS = 350;

export function queries(root, app, [chosen, only]) {
  const search = h("input", { type: "search", placeholder: "Search names and texts", "aria-label": "Search queries", maxlength: 200, class: "grow", oninput: () => reload().catch(app.fail) });
  const status = h("select", { "aria-label": "Status", onchange: () => reload().catch(app.fail) }, ["", "running", "paused", "failed", "stopped", "registered"].map((each) => h("option", { value: each, selected: each === (only || "") }, each || "any status")));
  const count = h("p", { class: "muted small" });
  const pad = h("div", { class: "pad" });
  const list = h("div", { class: "list", onscroll: () => draw() }, pad);
  const detail = h("div", {});
  const maker = h("div", {});
  let known = new Map(), total = 0, asked = new Set(), name = chosen || null, view = "table", drawn = "", catalog = {}, ruled = null;

  async function load(page) {
    if (asked.has(page)) return;
    asked.add(page);
    const found = await get("/api/queries", { search: search.value, status: status.value, offset: page * PAGE, limit: PAGE });
    total = found.total;
    found.queries.forEach((each, at) => known.set(page * PAGE + at, each));
    fill(count, `${number(total)} ${total === 1 ? "query" : "queries"}`);
    pad.style.height = `${total * HEIGHT}px`;
    draw();
  }

  function draw() {
    const first = Math.floor(list.scrollTop / HEIGHT);
    const last = Math.min(total, first + Math.ceil(list.clientHeight / HEIGHT) + 2);
    const items = [];
    for (let at = first; at < last; at++) {
      const each = known.get(at);
      if (!each) { load(Math.floor(at / PAGE)).catch(app.fail); continue; }
      items.push(h("button", { type: "button", class: "item", style: { top: `${at * HEIGHT}px` }, "aria-current": each.name === name ? "true" : null, onclick: () => (location.hash = `#/queries/${encodeURIComponent(each.name)}`) },
        h("span", { class: "name" }, h("span", {}, each.name), badge(each.status)), h("span", { class: "text" }, each.text)));
    }
    const focused = document.activeElement?.closest?.(".list") ? document.activeElement.style.top : null;
    fill(pad, items);
    if (focused) items.find((each) => each.style.top === focused)?.focus();
  }

  async function reload() {
    known = new Map();
    asked = new Set();
    await load(Math.floor(list.scrollTop / HEIGHT / PAGE));
    if (!name && known.size) go([known.get(0).name]);
  }

  const button = (title, shown, action, kind = "quiet") =>
    h("button", { type: "button", class: kind, disabled: !app.may(), onclick: () => action().then(update, app.fail) }, title);

  async function showDetail() {
    if (!name) return fill(detail, empty("Register a query, or choose one."));
    const at = name;
    const [found, rows] = await Promise.all([get(named("queries", at)), get(named("queries", at, "/rows"), { limit: 200, changes: view === "chart" ? "true" : "" })]);
    if (at !== name) return null;
    const path = (action) => named("queries", found.name, `/${action}`);
    const actions = [
      found.status === "running" ? button("Pause", true, () => act(path("pause"))) : null,
      found.status === "paused" ? button("Resume", true, () => act(path("resume"))) : null,
      ["running", "paused"].includes(found.status) ? button("Stop", true, () => act(path("stop"))) : button("Start", true, () => act(path("start"))),
      found.nodes.length ? button(found.share ? "Own operators" : "Share operators", true, () => patch("/api/settings", { query: found.name, share: !found.share })) : null,
      button("Drop", true, () => confirm(`Drop query ${found.name}? Its answer is deleted.`) ? remove(named("queries", found.name)).then(() => { name = null; location.hash = "#/queries"; }) : Promise.resolve(), "danger"),
    ];
    const facts = [["answers", `${found.is_stream ? "a stream" : "a relation"} (${found.columns.join(", ")})`], ["up to", moment(found.position)], ["behind", found.lag === null ? "–" : seconds(found.lag / 1e6)], ["rows so far", number(found.rows)],
      ["state", `${number(found.state_rows)} rows, ${bytes(found.state_bytes)}`], ["reads", [...found.streams, ...found.relations].join(", ") || "nothing"], ["operators", found.nodes.length ? `${found.nodes.length}${found.share ? "" : ", not shared"}` : "none: rows are answered as they come"]];
    if (found.error) facts.push(["failed", h("span", { class: "bad" }, found.error)]);
    if (found.filters.length) facts.push(["filters", found.filters.map((each) => h("a", { href: `#/river/${encodeURIComponent(each)}` }, `${each} `))]);
    const tab = (key, title) => h("button", { type: "button", class: "quiet", "aria-pressed": String(view === key), onclick: () => { view = key; drawn = ""; showDetail().catch(app.fail); } }, title);
    if (view === "rules" && !found.rules) view = "table";
    const shown = JSON.stringify([found, rows, view]);
    if (shown === drawn) return null;
    drawn = shown;
    if (ruled === null || ruled.name !== at) ruled = { name: at, box: null };
    if (view === "rules" && !ruled.box) ruled.box = rules(at, app);
    const body = view === "rules" ? ruled.box : view === "plan" ? h("pre", {}, found.plan) : view === "chart" ? chart(ofAnswer(rows), { title: `${found.name} over time`, steps: !found.is_stream }) : answer(rows);
    const told = view === "table" ? `${number(rows.rows.length)} ${rows.kind === "relation" ? `of ${number(rows.total)} rows that it holds now` : "latest rows"}` : view === "chart" ? "the last number of each row, over time; texts name the lines" : view === "rules" ? `rows of ${found.rules}` : "how it is read, and its plan";
    return steadily(detail, () => fill(detail,
      h("section", { class: "panel", "aria-label": `Query ${found.name}` },
        h("div", { class: "row apart" }, h("h1", {}, found.name, " ", badge(found.status)), h("div", { class: "row" }, actions)),
        h("pre", {}, coloured(found.text)), h("dl", {}, facts.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]))),
      h("section", { class: "panel" }, h("div", { class: "row apart" }, h("div", { class: "row" }, tab("table", "Rows"), tab("chart", "Chart"), tab("plan", "Plan"), found.rules ? tab("rules", "Rules") : null), h("span", { class: "muted small" }, told)), h("div", { style: { "margin-top": ".7rem" } }, body))));
  }

  function make() {
    if (maker.childElementCount) return fill(maker);
    const title = h("input", { placeholder: "name", "aria-label": "Name of the query", pattern: "[A-Za-z_][A-Za-z0-9_]*", required: true });
    const said = h("p", { class: "small", role: "status" });
    const history = h("input", { type: "checkbox" }), share = h("input", { type: "checkbox", checked: true });
    let timer = null;
    const check = async (text) => {
      if (!text.trim()) return fill(said);
      const found = await post("/api/check", { text }).catch(() => null);
      if (!found || text !== writer.text) return null;
      const [error] = found.errors;
      writer.mark(error || null);
      return fill(said, error ? h("span", { class: "bad" }, `${error.line ? `Line ${error.line}, column ${error.column}: ` : ""}${error.error}. ${error.hint || ""}`) : h("span", { class: "good" }, "This is a query."));
    };
    const writer = editor({ label: "Text of the query", catalog: () => catalog, changed: (text) => { clearTimeout(timer); timer = setTimeout(() => check(text), CHECK_MILLISECONDS); } });
    const register = async (event) => {
      event.preventDefault();
      try {
        const made = await post("/api/queries", { name: title.value, text: writer.text, history: history.checked, share: share.checked });
        fill(maker);
        await reload();
        location.hash = `#/queries/${encodeURIComponent(made.name)}`;
      } catch (error) {
        writer.mark(error.said || null);
        app.fail(error);
      }
    };
    get("/api/catalog").then((found) => (catalog = found), app.fail);
    fill(maker, h("form", { class: "panel", onsubmit: register }, h("h2", {}, "New query"), writer.box, said,
      h("div", { class: "row" }, title, h("label", { class: "check" }, history, "with history"), h("label", { class: "check" }, share, "share operators"), h("button", { type: "submit" }, "Register"), h("button", { type: "button", class: "quiet", onclick: () => fill(maker) }, "Cancel")),
      h("p", { class: "muted small" }, "Select host, Count(*) As n From calls [Range 1 Minute] Group By host. Ctrl+Space completes.")));
    return writer.field.focus();
  }

  async function update() {
    asked = new Set();
    await load(Math.floor(list.scrollTop / HEIGHT / PAGE));
    if (!name && known.size) name = known.get(0).name;
    draw();
    await showDetail().catch((error) => { if (error.status === 404) { name = null; fill(detail, empty("This query is gone.")); } else throw error; });
  }

  function go([next, wanted]) {
    if (wanted) { status.value = wanted; name = null; reload().catch(app.fail); return; }
    name = next || null;
    drawn = "";
    draw();
    showDetail().catch(app.fail);
  }

  fill(root, h("div", { class: "split" },
    h("div", {}, h("div", { class: "row" }, search, status), h("div", { class: "row apart" }, count, app.may() ? h("button", { type: "button", onclick: make }, "New query") : null), list),
    h("div", {}, maker, detail)));
  return { update, go };
}
