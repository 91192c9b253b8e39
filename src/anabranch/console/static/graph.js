// A layered layout: a node stands right of all that it reads from; within a layer nodes are ordered by the places of their neighbours.
const SWEEPS = 6;

export function layout(nodes, edges, { width = 190, height = 66, across = 90, down = 22 } = {}) {
  const into = new Map(nodes.map((each) => [each.id, []])), from = new Map(nodes.map((each) => [each.id, []]));
  for (const [one, other] of edges) { into.get(other).push(one); from.get(one).push(other); }
  const depth = new Map();
  const deep = (id) => {
    if (!depth.has(id)) { depth.set(id, 0); depth.set(id, Math.max(-1, ...into.get(id).map(deep)) + 1); }
    return depth.get(id);
  };
  nodes.forEach((each) => deep(each.id));
  const last = Math.max(0, ...depth.values());
  for (const each of nodes) if (each.kind === "query") depth.set(each.id, Math.max(last, 1));
  const layers = Array.from({ length: Math.max(last, 1) + 1 }, () => []);
  for (const each of nodes) layers[depth.get(each.id)].push(each.id);
  const place = new Map();
  const number = () => layers.forEach((layer) => layer.forEach((id, at) => place.set(id, at - layer.length / 2)));
  number();
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 ? from : into;
    for (const layer of layers) {
      const mean = new Map(layer.map((id) => { const found = near.get(id).map((each) => place.get(each)); return [id, found.length ? found.reduce((a, b) => a + b, 0) / found.length : place.get(id)]; }));
      layer.sort((a, b) => mean.get(a) - mean.get(b));
    }
    number();
  }
  const tallest = Math.max(...layers.map((each) => each.length));
  const at = new Map();
  layers.forEach((layer, column) => layer.forEach((id, row) => at.set(id, { x: 12 + column * (width + across), y: 12 + (row + (tallest - layer.length) / 2) * (height + down) })));
  return { at, width: 24 + layers.length * (width + across) - across, height: 24 + tallest * (height + down) - down, box: { width, height } };
}
