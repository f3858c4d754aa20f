// Places of the page: #/run/ID/episode/FILE/LINE?shade=advantage. Every part is percent-encoded.

const SHAPES = [
  ["runs", []],
  ["overview", ["run"]],
  ["episodes", ["run", "=episodes"]],
  ["episode", ["run", "=episode", "file", "line"]],
  ["group", ["run", "=group", "file", "group"]],
  ["pair", ["run", "=pair", "file", "line", "run2", "file2", "line2"]], // of two runs
  ["pair", ["run", "=pair", "file", "line", "file2", "line2"]],
];

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function match(shape, parts) {
  const values = {};
  if (shape.length !== parts.length) return null;
  for (let i = 0; i < shape.length; i++) {
    if (shape[i][0] === "=" ? parts[i] !== shape[i].slice(1) : parts[i] === "") return null;
    values[shape[i]] = parts[i];
  }
  return values;
}

// Return { view, run, .., query } of a hash, or null where no view has that shape.
export function parseHash(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = path.split("/").filter((part, i, all) => i > 0 && !(i === all.length - 1 && part === "")).map(decode);
  const query = Object.fromEntries(new URLSearchParams(search));
  const inside = parts[0] === "run" ? parts.slice(1) : parts;
  for (const [view, shape] of SHAPES) {
    if ((view === "runs") === (parts[0] === "run")) continue;
    const values = match(shape, inside);
    if (values) return { view, ...values, query };
  }
  return null;
}

// Return the hash of a view.
export function hashOf(view, values = {}, query = {}) {
  const has = (part) => part[0] === "=" || (values[part] ?? "") !== "";
  const shapes = SHAPES.filter(([name]) => name === view);
  const shape = (shapes.find(([, parts]) => parts.every(has)) ?? shapes.at(-1))[1];
  const parts = shape.map((part) => (part[0] === "=" ? part.slice(1) : encodeURIComponent(values[part])));
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(words).toString();
  return `#/${view === "runs" ? "" : `run/${parts.join("/")}`}${search ? `?${search}` : ""}`;
}

// Go to a hash: a step of history, or in place of the present one.
export function go(hash, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", hash);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}
