// Lets a page update as fast as it can, with other figures each time, and the first ones again after ten: half an hour of updates in half a minute.
(() => {
  const real = window.fetch, known = new Map(), fixed = new Set(["total", "offset", "limit", "share", "minutes", "line", "column"]);
  let round = 0, open = 0, hours = 0;
  const now = Date.now;
  Date.now = () => now() + 10000 * hours++;  // a page updates once a second at most
  const other = (value, name) => {
    if (typeof value === "number") return fixed.has(name) ? value : value + round % 10;
    if (Array.isArray(value)) return value.map((each) => other(each, name));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, other(each, key)]));
    return value;
  };
  window.fetch = async (path, given) => {
    open += 1;
    try {
      if (!known.has(path)) { const reply = await real(path, given); known.set(path, [reply.ok, reply.status, await reply.json()]); }
      const [ok, status, said] = known.get(path);
      return { ok, status, json: async () => other(said) };
    } finally { open -= 1; }
  };
  const turn = () => new Promise((done) => setTimeout(done, 0));
  window.churn = async (rounds) => {
    for (let left = rounds; left; left--) {
      round += 1;
      document.dispatchEvent(new Event("visibilitychange"));
      for (let quiet = 0; quiet < 3; quiet = open ? 0 : quiet + 1) await turn();
    }
  };
})();
