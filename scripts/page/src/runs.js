// All runs, live, with the curves of those that are selected.
import { every, get } from "./api.js";
import { Chart, COLOURS, keyOf } from "./chart.js";
import { h, put } from "./dom.js";
import { ago, count, duration, number, percent, plural } from "./format.js";
import { go, hashOf } from "./route.js";
import { aligned, band, isTime, Metrics, ranked } from "./series.js";

const GLYPHS = { running: "\u25cf", queued: "\u25cb", finished: "\u2713", failed: "\u2717", killed: "\u2717" };
const MOST_CHARTS = 12;

export const isLive = (run) => run.state === "running" || run.state === "warm start";

// Return the state of a run as a glyph and a word.
export function stateElement(run) {
  const isBad = /fail|kill|crash|error|dead|lost/.test(run.state);
  return h("span", { class: `state ${isLive(run) ? "is-live" : isBad ? "bad" : "muted"}` },
    h("span", {}, h("span", { class: isLive(run) ? "live" : "", "aria-hidden": "true" }, GLYPHS[run.state] ?? (isBad ? "\u2717" : "\u25cb")), ` ${run.state}`), " ",
    isLive(run) && run.left ? h("span", { class: "left small" }, `${duration(run.left)} left`) : null);
}

// Return how far a run is: a bar with its step.
export function progressElement(run) {
  if (run.step === null || run.step === undefined) return h("span", { class: "muted" }, run.num_episodes ? plural(run.num_episodes, "episode") : "");
  const part = run.steps ? Math.min(1, run.step / run.steps) : 1;
  return h("span", { class: "progress num" }, h("span", { class: "track", style: { "--part": `${100 * part}%` }, "aria-hidden": "true" }),
    h("span", {}, `${count(run.step)}${run.steps ? ` / ${count(run.steps)}` : ""}`));
}

const isShare = (name) => /pass|success|accuracy|best|maj/i.test(name);
export const figureText = (name, value) => (isShare(name) ? percent(value) : number(value));

function headline(run) {
  const [name, figure] = Object.entries(run.figures ?? {})[0] ?? [];
  if (!figure) return "";
  const [value, low, high] = figure;
  return h("span", { class: "headline num", title: name }, h("strong", {}, figureText(name, value)), h("span", { class: "muted small" },
    low === null || low === undefined ? name : `${figureText(name, low)} \u2013 ${figureText(name, high)}`));
}

// Return groups of runs that differ in their seed alone, the newest first.
export function grouped(runs) {
  const groups = new Map();
  for (const run of runs) {
    const name = run.sweep || run.id;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(run);
  }
  const newest = (members) => Math.max(...members.map((run) => run.changed ?? 0));
  return [...groups].map(([name, members]) => ({ name, members: members.sort((a, b) => (a.seed ?? 0) - (b.seed ?? 0) || (a.id < b.id ? -1 : 1)) }))
    .sort((a, b) => newest(b.members) - newest(a.members));
}

export function runsView(root) {
  let runs = [];
  let selected = null; // ids, or null until something is chosen
  let cursor = 0;
  let words = "";
  let metricWords = "";
  let showAll = false;
  let signature = "";
  const metrics = new Map();
  const charts = new Map();
  const rows = new Map();

  const heading = h("p", { class: "muted num", role: "status" }, "reading \u2026");
  const problem = h("div", {});
  const list = h("div", { class: "runs-rows" });
  const search = h("input", { class: "field", type: "search", "data-search": true, placeholder: "find runs", "aria-label": "Find runs", on: { input: () => { words = search.value.toLowerCase(); draw(); } } });
  const find = h("input", { class: "field", type: "search", placeholder: "find metrics", "aria-label": "Find metrics", on: { input: () => { metricWords = find.value.toLowerCase(); drawCharts(); } } });
  const key = h("div", {});
  const grid = h("div", { class: "charts" });
  const more = h("button", { class: "button", type: "button", hidden: true, on: { click: () => { showAll = !showAll; drawCharts(); } } });
  root.append(h("div", { class: "page-head" }, h("h1", {}, "Runs"), heading), problem, h("div", { class: "runs" },
    h("section", { "aria-label": "Runs" }, h("div", { class: "toolbar" }, search), h("div", { class: "runs-list" }, list)),
    h("section", { class: "curves", "aria-label": "Curves of the selected runs" }, h("div", { class: "toolbar" }, find, key), grid, h("div", { class: "toolbar" }, more))));

  const visible = () => grouped(runs.filter((run) => `${run.id} ${run.name} ${run.env} ${run.algo} ${run.model} ${run.sweep}`.toLowerCase().includes(words)));
  const chosen = () => runs.filter((run) => selected?.has(run.id));

  function rowOf(run) {
    const box = h("input", { type: "checkbox", checked: selected?.has(run.id) ?? false, "aria-label": `Curves of ${run.id}`, tabindex: "-1", on: { change: () => toggle(run.id) } });
    const place = [run.env, run.algo, run.model, run.seed === null || run.seed === undefined ? null : `seed ${run.seed}`].filter(Boolean).join(" \u00b7 ");
    const row = h("div", { class: "run" }, box,
      h("div", { class: "run-name" }, h("a", { href: hashOf("overview", { run: run.id }) }, run.id), h("span", { class: "muted small" }, place)),
      h("div", { class: "run-state" }, stateElement(run), progressElement(run)),
      h("div", { class: "run-figure" }, headline(run), h("span", { class: "muted small num" }, ago(run.changed))),
      run.damage?.length ? h("span", { class: "chip bad", title: run.damage.join("\n") }, plural(run.damage.length, "damaged file")) : null);
    row.addEventListener("focusin", () => { cursor = [...rows.keys()].indexOf(run.id); });
    return row;
  }

  function draw() {
    const focused = [...rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    const wasBox = document.activeElement?.type === "checkbox";
    rows.clear();
    const groups = visible();
    put(list, groups.map(({ name, members }) => h("div", { class: "run-group" },
      members.length > 1 ? h("button", { class: "run-group-head", type: "button", title: "curves of these runs", on: { click: () => choose(members) } }, h("span", { class: "text" }, name), h("span", { class: "muted" }, plural(members.length, "run"))) : null,
      members.map((run) => { const row = rowOf(run); rows.set(run.id, row); return row; }))));
    if (!groups.length) put(list, h("p", { class: "empty" }, runs.length ? "no run has these words" : "no runs here yet"));
    if (focused && rows.has(focused)) rows.get(focused).querySelector(wasBox ? "input" : "a").focus({ preventScroll: true });
    const live = runs.filter(isLive).length;
    put(heading, plural(runs.length, "run"), live ? ` \u00b7 ${live} running` : "");
  }

  function toggle(id) {
    selected = new Set(selected);
    if (!selected.delete(id)) selected.add(id);
    draw();
    readMetrics();
  }

  function choose(members) {
    selected = new Set(members.map(({ id }) => id));
    draw();
    readMetrics();
  }

  async function readMetrics() {
    const wanted = chosen();
    await Promise.all(wanted.map(async (run) => {
      if (metrics.has(run.id) && !isLive(run) && metrics.get(run.id).changed === run.changed) return;
      if (!metrics.has(run.id)) metrics.set(run.id, new Metrics(run.id));
      const own = metrics.get(run.id);
      if (own.isReading) return;
      own.isReading = true;
      await own.read().catch(() => false);
      own.changed = run.changed;
      own.isReading = false;
    }));
    drawCharts();
  }

  // Return what is drawn for each group: a line with its band, or single lines.
  function linesOf(name) {
    const groups = grouped(chosen());
    const all = groups.flatMap(({ members }) => members.map((run) => metrics.get(run.id)?.points(name) ?? [[], []]));
    const { xs, lines } = aligned(all);
    let at = 0;
    const drawn = groups.map(({ name: label, members }, i) => {
      const own = lines.slice(at, at += members.length).filter((line) => line.some((value) => value !== null));
      const look = { colour: i, dash: Math.floor(i / COLOURS) };
      if (!own.length) return null;
      if (own.length === 1) return { label: members.length === 1 ? members[0].id : label, ys: own[0], ...look };
      const { mean, low, high } = band(own);
      return { label: `${label}: mean of ${own.length} runs, lowest to highest`, ys: mean, low, high, ...look };
    });
    return { xs, lines: drawn.filter(Boolean) };
  }

  function drawCharts() {
    const names = ranked(new Set(chosen().flatMap((run) => [...(metrics.get(run.id)?.columns.keys() ?? [])]))).filter((name) => name.toLowerCase().includes(metricWords));
    const shown = showAll || metricWords ? names.slice(0, 200) : names.filter((name) => !isTime(name)).slice(0, MOST_CHARTS);
    const wanted = shown.join("\n");
    if (wanted !== signature) {
      for (const [name, chart] of charts) if (!shown.includes(name)) { chart.close(); charts.delete(name); }
      for (const name of shown) if (!charts.has(name)) charts.set(name, new Chart(name));
      grid.replaceChildren(...shown.map((name) => charts.get(name).element));
      signature = wanted;
    }
    let widest = [];
    for (const name of shown) {
      const { xs, lines } = linesOf(name);
      charts.get(name).set(xs, lines);
      if (lines.length > widest.length) widest = lines;
    }
    put(key, widest.length ? keyOf(widest) : null);
    if (!shown.length) put(grid, h("p", { class: "empty" }, chosen().length ? "no metrics yet" : "select runs to see their curves"));
    if (!shown.length) signature = "";
    more.hidden = names.length <= MOST_CHARTS && !showAll;
    put(more, showAll ? "fewer metrics" : `all ${names.length} metrics`);
  }

  async function load() {
    try {
      const answer = await get("runs");
      const isFirst = !selected && answer.runs.length;
      const before = JSON.stringify(runs);
      runs = answer.runs;
      put(problem);
      if (isFirst) selected = new Set(visible()[0].members.slice(0, 16).map(({ id }) => id));
      if (isFirst || before !== JSON.stringify(runs)) draw();
      await readMetrics();
      if (isFirst) focusRow(0);
      if (!runs.length) draw();
    } catch (error) {
      put(problem, h("div", { class: "notice", role: "alert" }, error.message));
    }
  }

  function focusRow(place) {
    const all = [...rows.values()];
    if (!all.length) return;
    cursor = Math.max(0, Math.min(all.length - 1, place));
    all[cursor].querySelector("a").focus();
  }

  const idAt = () => [...rows.keys()][cursor];
  load();
  const stop = every(1000, load);
  return {
    close: () => { stop(); for (const chart of charts.values()) chart.close(); },
    keys: [
      { keys: ["j", "ArrowDown"], what: "next run", act: () => focusRow(cursor + 1) },
      { keys: ["k", "ArrowUp"], what: "run before", act: () => focusRow(cursor - 1) },
      { keys: ["Enter"], what: "open the run", act: () => idAt() && go(hashOf("overview", { run: idAt() })) },
      { keys: ["e"], what: "episodes of the run", act: () => idAt() && go(hashOf("episodes", { run: idAt() })) },
      { keys: ["x", " "], what: "show or hide its curves", act: () => idAt() && toggle(idAt()) },
      { keys: ["m"], what: "find metrics", act: () => find.focus() },
    ],
  };
}
