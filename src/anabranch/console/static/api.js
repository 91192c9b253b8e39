// Requests to the service, or to the answers that a snapshot holds; and the live stream of what is new.
const recorded = document.getElementById("snapshot");
const answers = recorded ? JSON.parse(recorded.textContent) : null;
export const isSnapshot = answers !== null;

export class Refused extends Error {
  constructor(status, said) {
    super(said.error || `status ${status}`);
    this.status = status;
    this.said = said;
  }
}

async function ask(method, path, body) {
  const given = { method, headers: {}, credentials: "same-origin" };
  if (body !== undefined) {
    given.headers["content-type"] = "application/json";
    given.body = JSON.stringify(body);
  }
  const reply = await fetch(path, given);
  const said = await reply.json().catch(() => ({ error: `the service answered ${reply.status}` }));
  if (reply.status === 401) location.assign("/login");
  if (!reply.ok) throw new Refused(reply.status, said);
  return said;
}

export function get(path, params = {}) {
  if (isSnapshot) {
    return path in answers ? Promise.resolve(answers[path]) : Promise.reject(new Refused(404, { error: "the snapshot does not have this" }));
  }
  const asked = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "" && value !== undefined));
  return ask("GET", asked.size ? `${path}?${asked}` : path);
}

export const post = (path, body = {}) => ask("POST", path, body);
export const act = (path) => ask("POST", path);
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path) => ask("DELETE", path);
export const named = (kind, name, rest = "") => `/api/${kind}/${encodeURIComponent(name)}${rest}`;

export function live(seen, connected) {
  if (isSnapshot) return;
  const source = new EventSource("/api/live");
  source.addEventListener("seen", (event) => {
    connected(true);
    seen(JSON.parse(event.data));
  });
  source.addEventListener("open", () => connected(true));
  source.addEventListener("error", () => {
    connected(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => live(seen, connected), 2000);
  });
}
