// Curves on a canvas by uPlot, in the colours of the theme.
import uPlot from "uplot";
import { h, put } from "./dom.js";
import { number } from "./format.js";
import { onTheme } from "./theme.js";

const HEIGHT = 168;
export const COLOURS = 8;

const probe = h("span", { hidden: true });

// Return a colour of the style sheet, as the canvas needs it.
function resolved(value) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.setProperty("color", value);
  return getComputedStyle(probe).color;
}

const colour = (name) => resolved(`var(--${name})`);

export const seriesColour = (i) => colour(`series-${i % COLOURS}`);

const faded = (rgb, alpha) => rgb.replace(/^rgba?\(([^)]+)\)$/, (_, parts) => `rgba(${parts.split(",").slice(0, 3).join(",")}, ${alpha})`);

const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3]]; // past the colours, and for those who do not see them

function axis(more) {
  return { stroke: colour("muted"), font: "11px system-ui, sans-serif", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, ...more };
}

// A line is { label, ys, colour: index, dash: index, low, high, area }; `low` and `high` make a band.
function seriesOf(line) {
  const stroke = seriesColour(line.colour);
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  const main = { label: line.label, stroke, width: 1.75, dash: DASHES[(line.dash ?? 0) % DASHES.length], spanGaps: true,
    points: { show: line.ys.length < 2, size: 5, fill: stroke }, fill: line.area ? resolved(`color-mix(in srgb, var(--series-${line.colour % COLOURS}) 60%, var(--surface))`) : undefined };
  return line.low ? [main, edge, edge] : [main];
}

const columnsOf = (xs, lines) => [xs, ...lines.flatMap((line) => (line.low ? [line.ys, line.high, line.low] : [line.ys]))];

function bandsOf(lines) {
  let place = 1;
  return lines.flatMap((line) => {
    const at = place;
    place += line.low ? 3 : 1;
    return line.low ? [{ series: [at + 1, at + 2], fill: faded(seriesColour(line.colour), 0.18) }] : [];
  });
}

// Leave room around equal values too.
function yRange(low, high) {
  if (low === null || low === high) return [(low ?? 0) - (Math.abs(low ?? 0) || 1) / 2, (low ?? 0) + (Math.abs(low ?? 0) || 1) / 2];
  return uPlot.rangeNum(low, high, 0.1, true);
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7]; // steps are whole

const shortTicks = (plot, values) => values.map((value) => (value === null ? "" : number(value)));

// A chart with a heading that says the values under the pointer, or else the last ones.
export class Chart {
  constructor(title, { stacked = false, height = HEIGHT } = {}) {
    Object.assign(this, { title, stacked, height, plot: null, xs: [], lines: [], shape: "" });
    this.value = h("span", { class: "chart-value num" });
    this.box = h("div", { class: "chart-box", role: "img" });
    this.element = h("section", { class: "chart card" }, h("h3", { class: "chart-title" }, h("span", { class: "chart-name", title }, title), this.value), this.box);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.box);
    this.stopTheme = onTheme(() => { this.shape = ""; this.draw(); });
  }

  close() {
    this.sizes.disconnect();
    this.stopTheme();
    this.plot?.destroy();
  }

  set(xs, lines) {
    Object.assign(this, { xs, lines });
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (!width || !this.xs.length) return;
    const shape = this.lines.map((line) => [line.label, line.colour, line.dash, Boolean(line.low), this.xs.length < 2]).join("|");
    if (this.plot && shape === this.shape) this.plot.setData(columnsOf(this.xs, this.lines));
    else this.build(width);
    this.shape = shape;
    this.say(null);
    this.box.setAttribute("aria-label", `${this.title}: ${this.lines.map((line) => `${line.label} ${number(last(line.values ?? line.ys))}`).join(", ")} at step ${this.xs.at(-1)}`);
  }

  build(width) {
    this.plot?.destroy();
    this.plot = new uPlot({
      width, height: this.height, legend: { show: false }, padding: [8, 14, 0, 0],
      scales: { x: { time: false }, y: { range: (plot, low, high) => (this.stacked ? [0, high || 1] : yRange(low, high)) } },
      cursor: { sync: { key: "steps" }, y: false, drag: { x: true, y: false }, points: { size: 6 } },
      axes: [axis({ size: 24, gap: 4, values: shortTicks, incrs: STEPS }), axis({ size: 46, gap: 4, values: shortTicks })],
      series: [{}, ...this.lines.flatMap(seriesOf)], bands: bandsOf(this.lines),
      hooks: { setCursor: [(plot) => this.say(plot.cursor.idx)] },
    }, columnsOf(this.xs, this.lines), this.box);
    this.plot.root.querySelector(".u-over")?.setAttribute("aria-hidden", "true");
  }

  resize() {
    const width = this.box.clientWidth;
    if (!width) return;
    if (!this.plot) this.draw();
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.height });
  }

  say(i) {
    const isHere = i !== null && i !== undefined;
    const texts = this.lines.slice(0, 6).map((line) => {
      const values = line.values ?? line.ys;
      return h("span", { class: this.lines.length > 1 ? `key-${line.colour % COLOURS}` : "" }, number(isHere ? values[i] ?? null : last(values)));
    });
    put(this.value, isHere ? h("span", { class: "muted" }, `step ${this.xs[i]} `) : null, texts);
  }
}

const last = (values) => values.findLast((value) => value !== null && value !== undefined) ?? null;

// Return lines for a stack: each is drawn from 0 to the sum of it and those before, the last first.
export function stack(parts) {
  let sum = null;
  const lines = parts.map(([label, values], colour) => {
    sum = values.map((value, i) => value + (sum ? sum[i] : 0));
    return { label, ys: sum, values, colour, area: true };
  });
  return lines.reverse();
}

// Return a legend of lines: a sample of each and its name.
export const keyOf = (lines) => h("ul", { class: "chart-key" }, lines.map(({ label, colour: i, dash }) =>
  h("li", { class: `key-${i % COLOURS}` }, h("span", { class: `swatch dash-${(dash ?? 0) % DASHES.length}`, "aria-hidden": "true" }), label)));
