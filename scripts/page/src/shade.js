// Shades of tokens: a column of numbers becomes one of a few classes, so that another shade changes class names alone.
import { fixed, number } from "./format.js";

export const LEVELS = 8;

const some = (values) => Array.isArray(values) && values.some((value) => value !== null);

// A shade is { name, label, column, kind: "more" | "sign" | "flag" | "origin", about }.
export const SHADES = [
  { name: "none", label: "none", about: "" },
  { name: "logprob", label: "log-prob", column: "logprobs", kind: "more", about: "stronger: less likely", of: (value) => -value, most: 5 },
  { name: "entropy", label: "entropy", column: "entropies", kind: "more", about: "stronger: more alternatives" },
  { name: "advantage", label: "advantage", column: "advantages", kind: "sign", about: "blue: above 0, orange and underlined: below 0" },
  { name: "value", label: "value", column: "values", kind: "sign", about: "blue: above 0, orange and underlined: below 0" },
  { name: "trained", label: "trained", column: "trained", kind: "flag", about: "shaded: the update learned from it" },
  { name: "mask", label: "mask", column: "masked", kind: "flag", about: "shaded: an automaton limited the choice" },
  { name: "origin", label: "origin", column: "origin", kind: "origin", about: "shaded: forced; hatched: replayed" },
];

// Return the shades that any of the turns has numbers for.
export function available(turns) {
  return SHADES.filter(({ column }) => column === undefined || turns.some(({ tokens }) => tokens && some(tokens[column])));
}

// Return the number that the strongest shade stands for: the 98th percentile, so that one outlier does not fade the rest.
export function scaleOf(shade, turns) {
  if (shade.most) return shade.most;
  if (!shade.column || shade.kind === "flag" || shade.kind === "origin") return 1;
  const sizes = turns.flatMap(({ tokens }) => (tokens?.[shade.column] ?? []).filter((value) => value !== null).map(Math.abs)).sort((a, b) => a - b);
  return sizes[Math.floor((sizes.length - 1) * 0.98)] || sizes.at(-1) || 1;
}

// Return the class of a token.
export function classOf(shade, scale, tokens, i) {
  const value = shade.column ? tokens[shade.column]?.[i] : null;
  if (value === null || value === undefined || value === "") return "tok";
  if (shade.kind === "origin") return `tok o-${value === "forced" ? "forced" : "replayed"}`;
  if (shade.kind === "flag") return value ? "tok on" : "tok off";
  const number = shade.of ? shade.of(value) : value;
  const level = Math.min(LEVELS, Math.round((LEVELS * Math.abs(number)) / scale));
  if (level === 0) return "tok";
  return `tok ${shade.kind === "more" ? "q" : number < 0 ? "n" : "p"}${level}`;
}

// Return the ends of the legend.
export function ends(shade, scale) {
  if (shade.kind === "more") return shade.of ? ["0", `\u2264 ${number(-scale)}`] : ["0", `\u2265 ${number(scale)}`];
  return [number(-scale), `+${number(scale)}`];
}

// Return what is known of a token, as [name, text] pairs.
export function facts(tokens, i) {
  const out = [];
  const say = (name, column, text) => {
    const value = tokens[column]?.[i];
    if (value !== null && value !== undefined && value !== "") out.push([name, text(value)]);
  };
  say("log-prob", "logprobs", (value) => `${fixed(value, 3)} (p ${number(Math.exp(value))})`);
  say("entropy", "entropies", (value) => fixed(value, 3));
  say("advantage", "advantages", (value) => fixed(value, 3));
  say("value", "values", (value) => fixed(value, 3));
  say("trained", "trained", (value) => (value === true ? "yes" : value === false || value === 0 ? "no" : value === 1 ? "yes" : number(value)));
  say("mask", "masked", (value) => (value ? "limited" : "free"));
  say("origin", "origin", String);
  return out;
}
