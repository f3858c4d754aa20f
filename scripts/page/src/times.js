// Where an episode's time went: seconds in the queue, the engine and the environment.
import { h } from "./dom.js";
import { duration } from "./format.js";

const sum = (numbers) => numbers.reduce((a, b) => a + (b ?? 0), 0);

// Return [name, seconds] pairs of an episode's times.
export const partsOf = ({ queue, opening, turns }) => [["queue", queue ?? 0], ["opening", opening ?? 0],
  ["generate", sum(turns.map(([generate]) => generate))], ["environment", sum(turns.map(([, environment]) => environment))]];

// Return a bar whose parts are as long as they took, with a legend; null where the times are not stored.
export function timeBar(times) {
  if (!times?.turns) return null;
  const parts = partsOf(times);
  const whole = sum(parts.map(([, seconds]) => seconds));
  return h("div", { class: "time-line small num" }, h("span", { class: "label" }, `${duration(whole)} in all`),
    h("span", { class: "time-bar", "aria-hidden": "true" }, parts.map(([, seconds], i) => h("span", { class: `key-${i}`, style: { "flex-grow": String(seconds / (whole || 1)) } }))),
    h("ul", { class: "chart-key" }, parts.map(([name, seconds], i) => h("li", { class: `key-${i}` }, h("span", { class: "swatch", "aria-hidden": "true" }), `${name} ${duration(seconds)}`))));
}

// Return the seconds of a turn in words; `place` counts the turns that the episode sampled itself.
export function turnTime(times, place) {
  const turn = times?.turns?.[place];
  return turn ? `${duration(turn[0])} + ${duration(turn[1])}` : "";
}
