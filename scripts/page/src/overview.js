// One run: how far it is, its figures, its curves, where its time went, and what it was asked to do.
import { every, get } from "./api.js";
import { Chart, keyOf, stack } from "./chart.js";
import { h, longText, put } from "./dom.js";
import { ago, duration, plural } from "./format.js";
import { go, hashOf } from "./route.js";
import { figureText, isLive, progressElement, stateElement } from "./runs.js";
import { isTime, Metrics, ranked, timeParts } from "./series.js";

// A figure as a number over a whisker of its interval.
function figure([name, [value, low, high]]) {
  const hasInterval = typeof low === "number" && typeof high === "number";
  const isPart = hasInterval && low >= 0 && high <= 1 && value >= 0 && value <= 1;
  const at = (number) => `${(100 * number).toFixed(1)}%`;
  return h("div", { class: "figure" }, h("dt", { class: "muted small" }, name), h("dd", {}, h("span", { class: "figure-value num" }, figureText(name, value)),
    isPart ? h("span", { class: "whisker", "aria-hidden": "true", style: { "--low": at(low), "--high": at(high), "--at": at(value) } }) : null,
    hasInterval ? h("span", { class: "muted small num" }, `${figureText(name, low)} to ${figureText(name, high)}`) : null));
}

const MOST_FIGURES = 8;
const FIRST = [/^pass@/, /^success/, /^reward$/, /^[^/]*$/, /^episode\//, /^tool\//];

// Return figures with the important ones first.
const rankedFigures = (all) => FIRST.flatMap((_, i) => all.filter(([name]) => FIRST.findIndex((other) => other.test(name)) === i))
  .concat(all.filter(([name]) => !FIRST.some((pattern) => pattern.test(name))));

const valueText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function configTable(config, words) {
  const pairs = Object.entries(config).filter(([name, value]) => `${name} ${valueText(value)}`.toLowerCase().includes(words));
  if (!pairs.length) return h("p", { class: "empty" }, "no key has these words");
  return h("dl", { class: "config mono" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, longText(valueText(value), { most: 400 }))]));
}

export function overviewView(root, route) {
  const { run: id } = route;
  const metrics = new Metrics(id);
  const charts = new Map();
  let metricWords = "";
  let configWords = "";
  let config = null;
  let signature = "";
  let showAll = false;

  const head = h("div", { class: "page-head" }, h("h1", { class: "text" }, id));
  const status = h("div", { class: "run-line num" });
  const problem = h("div", {});
  const figures = h("dl", { class: "figures" });
  const moreFigures = h("button", { class: "button", type: "button", hidden: true });
  const grid = h("div", { class: "charts" });
  const time = new Chart("seconds of a step", { stacked: true, height: 200 });
  const timeKey = h("div", {});
  const timeBox = h("section", { class: "time", hidden: true }, h("div", { class: "toolbar" }, h("h2", {}, "Where a step's time went"), timeKey), time.element);
  const configBox = h("div", {});
  const results = h("div", {});
  const find = h("input", { class: "field", type: "search", "data-search": true, placeholder: "find metrics", "aria-label": "Find metrics", on: { input: () => { metricWords = find.value.toLowerCase(); drawCharts(); } } });
  const findKey = h("input", { class: "field", type: "search", placeholder: "find keys", "aria-label": "Find keys of the configuration", on: { input: () => { configWords = findKey.value.toLowerCase(); drawConfig(); } } });
  const episodes = h("a", { class: "button", href: hashOf("episodes", { run: id }), title: "episodes (e)" }, "Episodes");
  head.append(h("span", { class: "grow" }), episodes);
  root.append(head, status, problem, figures, h("div", { class: "toolbar" }, moreFigures), h("section", { "aria-label": "Curves" }, h("div", { class: "toolbar" }, h("h2", {}, "Curves"), find), grid), timeBox,
    h("div", { class: "two" }, h("section", {}, h("div", { class: "toolbar" }, h("h2", {}, "Configuration"), findKey), configBox), h("section", {}, h("h2", { class: "toolbar" }, "Results"), results)));

  function drawRun(run) {
    put(head.querySelector("h1"), run.id);
    const place = [run.env, run.algo, run.model, run.seed === null || run.seed === undefined ? null : `seed ${run.seed}`].filter(Boolean).join(" \u00b7 ");
    put(status, stateElement(run), progressElement(run), h("span", {}, place), run.where ? h("span", { class: "muted" }, run.where) : null,
      run.seconds ? h("span", { class: "muted" }, `${duration(run.seconds)} a step`) : null, h("span", { class: "muted" }, ago(run.changed)));
    put(episodes, run.num_episodes ? `${plural(run.num_episodes, "episode")}` : "Episodes");
    put(problem, run.damage?.length ? h("div", { class: "notice" }, "Damage; the rest is shown.", h("ul", {}, run.damage.map((line) => h("li", {}, line)))) : null);
    drawFigures(Object.entries(run.figures ?? {}));
  }

  function drawFigures(all) {
    const shown = rankedFigures(all);
    put(figures, (showAll ? shown : shown.slice(0, MOST_FIGURES)).map(figure));
    moreFigures.hidden = all.length <= MOST_FIGURES;
    put(moreFigures, showAll ? "fewer figures" : `all ${all.length} figures`);
    moreFigures.onclick = () => { showAll = !showAll; drawFigures(all); };
  }

  function drawCharts() {
    const names = ranked(metrics.columns.keys()).filter((name) => !isTime(name) || metricWords).filter((name) => name.toLowerCase().includes(metricWords)).slice(0, 200);
    const wanted = names.join("\n");
    if (wanted !== signature) {
      for (const [name, chart] of charts) if (!names.includes(name)) { chart.close(); charts.delete(name); }
      for (const name of names) if (!charts.has(name)) charts.set(name, new Chart(name));
      grid.replaceChildren(...names.map((name) => charts.get(name).element));
      signature = wanted;
    }
    for (const name of names) {
      const [xs, ys] = metrics.points(name);
      charts.get(name).set(xs, [{ label: name, ys, colour: 0 }]);
    }
    if (!names.length) put(grid, h("p", { class: "empty" }, metricWords ? "no metric has these words" : "no metrics yet"));
  }

  function drawTime() {
    const lines = stack(timeParts(metrics));
    timeBox.hidden = lines.length === 0;
    if (!lines.length) return;
    time.set(metrics.steps, lines);
    put(timeKey, keyOf(lines.toReversed()));
  }

  function drawConfig() {
    if (config) put(configBox, configTable(config, configWords));
  }

  async function readMetrics() {
    if (!(await metrics.read())) return;
    drawCharts();
    drawTime();
  }

  let last = "";
  async function load() {
    try {
      const answer = await get("runs");
      const run = answer.runs.find((other) => other.id === id);
      if (!run) throw new Error(`no run is named ${id}`);
      if (JSON.stringify(run) !== last) drawRun(run);
      if (isLive(run) || last !== JSON.stringify(run)) await readMetrics();
      last = JSON.stringify(run);
    } catch (error) {
      put(problem, h("div", { class: "notice", role: "alert" }, error.message));
    }
  }

  async function loadConfig() {
    try {
      const answer = await get("config", { run: id });
      config = answer.config ?? {};
      drawConfig();
      put(results, answer.command ? longText(answer.command, { most: 2000, className: "mono command" }) : null,
        answer.results ? longText(answer.results, { most: 20000, className: "mono results" }) : h("p", { class: "muted" }, "the run has not ended"));
    } catch (error) {
      put(configBox, h("p", { class: "bad" }, error.message));
    }
  }

  load();
  loadConfig();
  const stop = every(1000, load);
  return {
    close: () => { stop(); time.close(); for (const chart of charts.values()) chart.close(); },
    keys: [
      { keys: ["e", "Enter"], what: "episodes", act: () => go(hashOf("episodes", { run: id })) },
      { keys: ["m"], what: "find metrics", act: () => find.focus() },
      { keys: ["f"], what: "find keys of the configuration", act: () => findKey.focus() },
    ],
  };
}
