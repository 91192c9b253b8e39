// The frame around the pages: menu, connection, theme. A page is a function of its root; it returns what updates it.
import { get, isSnapshot, live } from "./api.js";
import { fill, h } from "./dom.js";
import { queries } from "./queries.js";
import { decisions } from "./decisions.js";
import { river } from "./river.js";
import { plan } from "./plan.js";
import { trace } from "./trace.js";
import { time } from "./time.js";
import { state } from "./state.js";
import { monitors } from "./monitors.js";
import { steer } from "./steer.js";
import { snapshot } from "./snapshot.js";

const UPDATE_MILLISECONDS = 1000;
const PAGES = { queries, decisions, river, trace, plan, time, state, monitors, steer, snapshot };
const TITLES = { queries: "Queries", decisions: "Decisions", river: "River", trace: "Trace", plan: "Plan", time: "Time", state: "State", monitors: "Monitors", steer: "Steer", snapshot: "Snapshot" };
const OF_FILTERS = ["decisions", "river", "trace", "steer", "snapshot"];
const main = document.getElementById("main");
const notice = document.getElementById("notice");
const failure = document.getElementById("failure");
let shown = null;
let waiting = null;
let last = 0;

const app = { role: "viewer", engine: true, isSnapshot, may: () => app.role === "operator" && !isSnapshot, fail };

function fail(error) {
  const { line, column, hint } = error.said || {};
  const place = line ? ` (line ${line}, column ${column})` : "";
  notice.textContent = `${error.message}${place}${hint ? `. ${hint}` : ""}`;
  notice.hidden = false;
  setTimeout(() => (notice.hidden = true), 9000);
}

const menu = () => (app.engine ? Object.keys(PAGES) : OF_FILTERS).filter((each) => !isSnapshot || each !== "snapshot");

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function show() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const chosen = menu().includes(name) ? name : menu()[0];
  fill(
    document.getElementById("menu"),
    menu().map((each) => h("a", { href: `#/${each}`, "aria-current": each === chosen ? "page" : null }, TITLES[each])),
  );
  document.querySelector("nav [aria-current]").scrollIntoView({ inline: "center", block: "nearest" });
  document.title = `${TITLES[chosen]} · Anabranch`;
  if (shown && shown.name === chosen && shown.page.go) return shown.page.go(rest);
  if (shown && shown.page.close) shown.page.close();
  main.replaceChildren();
  shown = { name: chosen, page: PAGES[chosen](main, app, rest) };
  update();
}

async function update() {
  waiting = null;
  last = Date.now();
  try {
    await shown.page.update();
  } catch (error) {
    if (error.status !== 404) console.warn(error);
  }
}

function soon() {
  if (waiting === null && !document.hidden) waiting = setTimeout(update, Math.max(0, last + UPDATE_MILLISECONDS - Date.now()));
}

function status(lost, seen) {
  fill(failure, seen.failure ? ["The engine has stopped: ", seen.failure, ". Nothing is answered any more; mend the cause and start the program again."] : []);
  failure.hidden = !seen.failure;
  const said = isSnapshot ? "snapshot" : lost ? "connection lost" : seen.tick ? `tick ${seen.tick.toLocaleString("en")}` : "live";
  fill(document.getElementById("status"), h("span", { class: `dot ${isSnapshot ? "" : lost ? "lost" : "live"}` }), said, seen.failed ? [" ", h("a", { class: "badge failed", href: "#/queries//failed" }, `${seen.failed.toLocaleString("en")} failed`)] : null);
}

function theme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  let chosen = null;
  try { chosen = localStorage.getItem("anabranch-theme"); } catch { /* a file may have no storage */ }
  const set = (name) => (document.documentElement.dataset.theme = name);
  set(chosen || (dark ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    set(next);
    try { localStorage.setItem("anabranch-theme", next); } catch { /* as above */ }
  });
}

theme();
const [session, overview] = await Promise.all([get("/api/session"), get("/api/overview")]);
app.role = session.role;
app.engine = overview.engine;
let seen = overview;
status(false, seen);
live(
  (found) => { seen = found; status(false, seen); soon(); },
  (connected) => { status(!connected, seen); if (connected) soon(); },
);
addEventListener("hashchange", show);
document.addEventListener("visibilitychange", soon);
show();
