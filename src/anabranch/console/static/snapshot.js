// Snapshot: this moment as one HTML file.
import { get } from "./api.js";
import { fill, h, number } from "./dom.js";

export function snapshot(root) {
  const said = h("p", {});
  async function update() {
    const found = await get("/api/overview");
    fill(said, `Tick ${number(found.tick)}, ${number(found.counts.queries)} queries, ${number(found.filters)} filters, ${number(found.decisions)} decisions.`);
  }
  fill(root, h("h1", {}, "Snapshot"), h("section", { class: "panel" }, said,
    h("p", {}, "One HTML file with all pages as they are now: queries, the latest rows of the first 100 of them, decisions, rivers with their sliders, the plan. It opens without the engine and without a network."),
    h("p", { class: "warn" }, "It holds rows of answers: give it to those who may see them."),
    h("p", {}, h("a", { href: "/api/snapshot", download: "anabranch-snapshot.html" }, "Save the snapshot"))));
  return { update };
}
