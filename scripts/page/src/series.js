// Curves of runs: lines of metrics.jsonl as columns, and means with bands over the seeds of a configuration.
import { get } from "./api.js";

// The metrics of a run as they grow: each call of `read` fetches only what was added.
export class Metrics {
  constructor(run) {
    Object.assign(this, { run, end: 0, mark: "", steps: [], columns: new Map() });
  }

  // Return true if anything is new.
  async read() {
    const answer = await get("metrics", { run: this.run, from: this.end, mark: this.mark });
    const isNew = (answer.reset && this.steps.length > 0) || answer.steps.length > 0;
    if (answer.reset) {
      this.steps = [];
      this.columns = new Map();
    }
    this.append(answer.steps, answer.columns);
    this.end = answer.end;
    this.mark = answer.mark;
    return answer.more ? (await this.read()) || isNew : isNew;
  }

  append(steps, columns) {
    const before = this.steps.length;
    this.steps.push(...steps);
    for (const [name, values] of Object.entries(columns)) {
      if (!this.columns.has(name)) this.columns.set(name, new Array(before).fill(null));
      this.columns.get(name).push(...values);
    }
    for (const values of this.columns.values()) while (values.length < this.steps.length) values.push(null);
  }

  // Return [steps, values] of a metric without its gaps.
  points(name) {
    const values = this.columns.get(name) ?? [];
    const kept = this.steps.map((step, i) => i).filter((i) => values[i] !== null && values[i] !== undefined);
    return [kept.map((i) => this.steps[i]), kept.map((i) => values[i])];
  }
}

// Return { xs, lines } of several [xs, ys] over the union of their xs.
export function aligned(all) {
  const xs = [...new Set(all.flatMap(([steps]) => steps))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const lines = all.map(([steps, values]) => {
    const line = new Array(xs.length).fill(null);
    steps.forEach((step, i) => { line[place.get(step)] = values[i]; });
    return line;
  });
  return { xs, lines };
}

// Return the mean, the least and the most of the lines at each x where at least one has a value.
export function band(lines) {
  const at = (i, reduce) => {
    const values = lines.map((line) => line[i]).filter((value) => value !== null);
    return values.length ? reduce(values) : null;
  };
  const each = (reduce) => lines[0].map((_, i) => at(i, reduce));
  return {
    mean: each((values) => values.reduce((a, b) => a + b, 0) / values.length),
    low: each((values) => Math.min(...values)),
    high: each((values) => Math.max(...values)),
  };
}

// Metrics that come first, in this order; the rest follows by name.
const FIRST = ["reward/mean", "success/mean", "success/any", "eval/", "loss/value", "entropy/mean", "policy/entropy", "kl/mean", "gradient/norm", "episode/turns",
  "episode/tokens", "tool/calls", "tool/failed_rate", "turn/invalid", "group/informative", "advantage/zero", "critic/explained", "gap/engine"];

const placeOf = (name) => {
  const place = FIRST.findIndex((first) => (first.endsWith("/") ? name.startsWith(first) : name === first));
  return place < 0 ? FIRST.length : place;
};

// Return names of metrics in the order in which they are shown.
export const ranked = (names) => [...names].sort((a, b) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));

export const isTime = (name) => name.startsWith("time/");

// Return the parts of `time/step`, and what is left of it, as [name, values] pairs over the steps.
export function timeParts(metrics) {
  const names = [...metrics.columns.keys()].filter((name) => isTime(name) && name !== "time/step").sort();
  const parts = names.map((name) => [name.slice(5), metrics.columns.get(name).map((value) => value ?? 0)]);
  const whole = metrics.columns.get("time/step");
  if (!whole) return parts;
  const rest = whole.map((value, i) => Math.max(0, (value ?? 0) - parts.reduce((sum, [, values]) => sum + values[i], 0)));
  return rest.some((value, i) => value > 0.01 * (whole[i] ?? 0)) ? [...parts, ["other", rest]] : parts;
}
