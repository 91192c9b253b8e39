// A small editor for CQL: colours, completion, and errors at their place. A transparent text area lies over coloured text.
import { fill, h } from "./dom.js";

const WORDS = new Set(("select distinct from where group by having union all except intersect join on using as and or not in exists istream dstream " +
  "rstream create stream relation query view timestamp skew sequence idle retain into with drop pause resume show explain case when then else end " +
  "is null like between for each values insert delete true false").split(" "));
const WINDOW = new Set("range rows now slide partition unbounded second seconds minute minutes hour hours day days millisecond milliseconds".split(" "));
const TOKEN = /(--[^\n]*)|('(?:[^'\\]|\\.|'')*'?)|(`[^`]*`?)|(\d+(?:\.\d+)?)|([A-Za-z_]\w*)|([^])/g;

function kind(match) {
  if (match[1]) return "c";
  if (match[2]) return "q";
  if (match[4]) return "n";
  if (!match[5]) return null;
  const word = match[5].toLowerCase();
  return WORDS.has(word) ? "k" : WINDOW.has(word) ? "w" : null;
}

export function coloured(text, wrong = null) {
  return [...text.matchAll(TOKEN)].map((match) => {
    const bad = wrong !== null && match.index <= wrong && wrong < match.index + match[0].length;
    const name = [kind(match), bad ? "wrong" : null].filter(Boolean).join(" ");
    return name ? h("span", { class: name }, match[0]) : match[0];
  });
}

const offset = (text, line, column) => text.split("\n").slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + column - 1;

export function editor({ text = "", label = "Query", catalog = () => ({}), changed = () => {} }) {
  const back = h("pre", { "aria-hidden": "true" });
  const field = h("textarea", { "aria-label": label, spellcheck: "false", autocapitalize: "off", autocomplete: "off", value: text });
  const choices = h("ul", { class: "choices", role: "listbox", hidden: true });
  const box = h("div", { class: "editor" }, back, field, choices);
  let wrong = null;
  let chosen = 0;

  const paint = () => fill(back, coloured(field.value, wrong), "\n ");
  const word = () => /[A-Za-z_]\w*$/.exec(field.value.slice(0, field.selectionStart))?.[0] || "";
  const hide = () => (choices.hidden = true);

  function candidates() {
    const found = catalog();
    const columns = [...Object.values(found.inputs || {}), ...Object.values(found.queries || {})].flat();
    const names = [...Object.keys(found.inputs || {}), ...(found.views || []), ...Object.keys(found.queries || {}), ...(found.functions || [])];
    const typed = word().toLowerCase();
    if (typed.length < 1) return [];
    return [...new Set([...columns, ...names, ...(found.keywords || [])])].filter((each) => each.toLowerCase().startsWith(typed) && each.toLowerCase() !== typed).slice(0, 12);
  }

  function offer() {
    const found = candidates();
    choices.hidden = !found.length;
    chosen = 0;
    fill(choices, found.map((each, at) => h("li", { role: "option", "aria-selected": String(at === 0), onmousedown: (event) => { event.preventDefault(); take(each); } }, each)));
    const lines = field.value.slice(0, field.selectionStart).split("\n");
    choices.style.top = `${lines.length * 1.5 * 13 + 14}px`;
    choices.style.left = `${Math.min(lines.at(-1).length * 8, Math.max(0, box.clientWidth - 180))}px`;
  }

  function take(text) {
    const at = field.selectionStart;
    field.setRangeText(text, at - word().length, at, "end");
    hide();
    input();
  }

  function input() {
    wrong = null;
    paint();
    changed(field.value);
  }

  field.addEventListener("input", () => { input(); offer(); });
  field.addEventListener("blur", hide);
  field.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); offer(); return; }
    if (choices.hidden) return;
    const items = [...choices.children];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length;
      items.forEach((each, at) => each.setAttribute("aria-selected", String(at === chosen)));
      items[chosen].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Tab" || event.key === "Enter") { event.preventDefault(); take(items[chosen].textContent); } else if (event.key === "Escape") hide();
  });
  paint();
  return {
    box,
    field,
    get text() { return field.value; },
    set text(value) { field.value = value; wrong = null; paint(); },
    mark(error) { wrong = error && error.line ? offset(field.value, error.line, error.column) : null; paint(); },
  };
}
