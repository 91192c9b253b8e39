// Steer: change a property, see what it does, take it back.
import { get, patch, post } from "./api.js";
import { chart } from "./chart.js";
import { comparisons } from "./compare.js";
import { badge, clock, empty, fill, h, number, seconds, steadily, table } from "./dom.js";

const KNOBS = { profile_probability: "share of dropped rows that are tried further", window_tuples: "profiles that are remembered", thrash_avoidance: "1 moves a predicate for any gain" };

export function steer(root, app) {
  const filters = h("div", {}), versus = h("div", {}), queries = h("div", {}), streams = h("div", {}), steps = h("div", {}), effect = h("div", {}), caches = h("input", { type: "number", min: 0, step: 1, "aria-label": "Megabytes of caches of joins" }), memory = h("input", { type: "number", min: 0, step: 1, placeholder: "default", "aria-label": "Megabytes of state per core" });
  const undo = h("button", { type: "button", class: "quiet", onclick: () => send(() => post("/api/undo", {})) }, "Undo the last change");
  let drawn = "";

  const send = (action) => action().then(() => { drawn = ""; return update(); }).catch(app.fail);

  function row(each, policies) {
    const policy = h("select", { "aria-label": `Policy of ${each.id}`, disabled: !app.may() }, policies.map((name) => h("option", { value: name, selected: name === each.policy }, name)));
    const knobs = Object.entries(KNOBS).map(([name, about]) => [name, h("input", { type: "number", step: "any", min: 0, value: each.config[name], title: about, "aria-label": `${name} of ${each.id}`, disabled: !app.may(), style: { width: "7rem" } })]);
    const apply = () => {
      const config = {};
      for (const [name, field] of knobs) if (Number(field.value) !== each.config[name]) config[name] = Number(field.value);
      const wanted = { filter: each.id, policy: policy.value };
      return patch("/api/settings", Object.keys(config).length ? { ...wanted, config } : wanted);
    };
    return [[h("a", { href: `#/river/${encodeURIComponent(each.id)}` }, each.id), each.order ? h("div", { class: "muted small" }, `pinned: ${each.order.join(" → ")}`) : null], policy, ...knobs.map(([, field]) => field), h("button", { type: "button", disabled: !app.may(), "aria-label": `Apply to ${each.id}`, onclick: () => send(apply) }, "Apply")];
  }

  async function update() {
    const [found, history] = await Promise.all([get("/api/settings"), app.engine ? get("/api/history", { entity: "engine", property: "seconds", minutes: 15 }) : { series: [] }]);
    if (app.engine) fill(effect, chart(history.series.map((each) => ({ name: "seconds of a tick", points: each.points })), { title: "Seconds of a tick", height: 150 }));
    const now = JSON.stringify(found);
    if (now === drawn || (drawn && root.contains(document.activeElement) && document.activeElement.matches("input, select"))) return;
    drawn = now;
    steadily(root, () => draw(found));
  }

  function draw(found) {
    fill(filters, found.filters.length ? h("div", { class: "scroll" }, table(["filter", "policy", ...Object.keys(KNOBS).map((each) => each.replace("_", " ")), ""], found.filters.map((each) => row(each, found.policies)))) : empty("No filter has run yet."));
    fill(versus, comparisons(found, app, send));
    const going = found.queries.filter((each) => ["running", "paused"].includes(each.status)).slice(0, 200);
    fill(queries, going.length ? h("div", { class: "scroll" }, table(["query", "status", "sharing", ""], going.map((each) => {
      const next = each.status === "running" ? "paused" : "running";
      const set = (wanted) => send(() => patch("/api/settings", { query: each.name, ...wanted }));
      const share = h("input", { type: "checkbox", checked: each.share, disabled: !app.may(), "aria-label": `${each.name} shares operators`, onchange: () => set({ share: share.checked }) });
      return [h("a", { href: `#/queries/${encodeURIComponent(each.name)}` }, each.name), badge(each.status), h("label", { class: "check" }, share, "shares operators"), h("button", { type: "button", class: "quiet", disabled: !app.may(), "aria-label": `${next === "paused" ? "Pause" : "Resume"} ${each.name}`, onclick: () => set({ status: next }) }, next === "paused" ? "Pause" : "Resume")];
    }))) : empty("No query runs."));
    fill(streams, found.streams.length ? h("div", { class: "scroll" }, table(["stream", "skew", "", "late rows", "would keep 999 of 1,000"], found.streams.map((each) => {
      const skew = h("input", { value: each.may_be_late === null ? `${each.skew / 1e6} seconds` : "auto", disabled: !app.may(), "aria-label": `Skew of ${each.name}`, style: { width: "8rem" } });
      return [each.name, [skew, each.may_be_late === null ? null : h("div", { class: "muted small" }, `now ${seconds(each.skew / 1e6)}`)], h("button", { type: "button", disabled: !app.may(), "aria-label": `Set the skew of ${each.name}`, onclick: () => send(() => patch("/api/settings", { stream: each.name, skew: skew.value })) }, "Apply"), number(each.late), seconds(each.suggested_skew / 1e6)];
    }), [3, 4])) : empty("No stream whose rows bring their time."));
    caches.value = found.cache_bytes === null ? "" : found.cache_bytes / 1e6;
    memory.value = found.state_bytes === null ? "" : found.state_bytes / 1e6;
    undo.disabled = !found.steps.length || !app.may();
    fill(steps, found.steps.length ? table(["when", "what", "before", "after"], found.steps.map((each) => [clock(each.time), each.what, String(each.before ?? "default"), String(each.after ?? "default")])) : empty("Nothing has been changed here."));
  }

  const hold = () => patch("/api/settings", { state_bytes: memory.value === "" ? null : Math.round(1e6 * Number(memory.value)) });
  const cache = () => patch("/api/settings", { cache_bytes: Math.round(1e6 * Number(caches.value)) });
  fill(root, h("h1", {}, "Steer"), h("p", { class: "muted" }, app.may() ? "Changes hold from the next tick on. Answers never change by them, only what they cost; but more or less skew decides which rows come too late." : "This token, or this snapshot, may look only."),
    h("section", { class: "panel" }, h("h2", {}, "Filters"), filters),
    h("section", { class: "panel" }, h("h2", {}, "Compare two plans"), versus),
    h("div", { class: "two" },
      app.engine ? h("div", {}, h("section", { class: "panel" }, h("h2", {}, "Queries"), queries), h("section", { class: "panel" }, h("h2", {}, "Streams"), streams)) : null,
      h("div", {}, app.engine ? h("section", { class: "panel" }, h("h2", {}, "Memory"), h("div", { class: "row" }, memory, h("span", { class: "muted" }, "MB of state per core"), h("button", { type: "button", disabled: !app.may(), onclick: () => send(hold) }, "Apply")), h("div", { class: "row" }, caches, h("span", { class: "muted" }, "MB for caches of joins"), h("button", { type: "button", disabled: !app.may(), onclick: () => send(cache) }, "Apply"))) : null,
        app.engine ? h("section", { class: "panel" }, h("h2", {}, "Effect"), effect) : null,
        h("section", { class: "panel" }, h("div", { class: "row apart" }, h("h2", {}, "Changes"), undo), h("div", { class: "scroll" }, steps)))));
  return { update };
}
