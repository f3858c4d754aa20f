// The choice of the shade, its legend, and the turns that it paints.
import { h, put } from "./dom.js";
import { number } from "./format.js";
import { segments } from "./segments.js";
import { available, ends, LEVELS, scaleOf } from "./shade.js";

const FIRST = ["advantage", "value", "logprob", "entropy", "none"];

// Return the legend of a shade.
export function legend(shade, scale) {
  if (!shade.kind) return null;
  const step = (name) => h("span", { class: `tok ${name}`, "aria-hidden": "true" }, "\u2003");
  const levels = [...Array(LEVELS)].map((_, i) => i + 1);
  const ramps = {
    more: () => levels.map((n) => step(`q${n}`)),
    sign: () => [...levels.toReversed().map((n) => step(`n${n}`)), step(""), ...levels.map((n) => step(`p${n}`))],
  };
  const ramp = ramps[shade.kind]?.();
  if (!ramp) return h("span", { class: "legend small muted" }, shade.about);
  const [low, high] = ends(shade, scale);
  return h("span", { class: "legend small muted num", title: shade.about }, low, h("span", { class: "ramp" }, ramp), high, h("span", { class: "about" }, shade.about));
}

export class ShadeBar {
  // `turns` are those of the answer, for what numbers there are; `onChoose` gets the name of a shade.
  constructor(turns, onChoose) {
    this.turns = turns;
    this.shades = available(turns);
    this.onChoose = onChoose;
    this.choice = segments("shade", this.shades.map(({ name, label }) => [name, label]), onChoose);
    this.legend = h("span", {});
    this.element = h("div", { class: "toolbar shade-bar" }, h("span", { class: "label" }, "shade"), this.choice.element, this.legend);
    this.name = "";
  }

  // Paint what `turnElement` returned.
  paint(name, elements) {
    const named = (wanted) => this.shades.find((shade) => shade.name === wanted);
    const shade = named(name) ?? FIRST.map(named).find(Boolean);
    const scale = scaleOf(shade, this.turns);
    for (const { shade: paint } of elements) paint(shade, scale);
    this.choice.set(shade.name);
    put(this.legend, legend(shade, scale));
    this.name = shade.name;
  }

  next() {
    const place = this.shades.findIndex(({ name }) => name === this.name);
    this.onChoose(this.shades[(place + 1) % this.shades.length].name);
  }
}

export const signed = (value) => `${value > 0 ? "+" : ""}${number(value)}`;
