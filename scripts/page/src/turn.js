// One turn of an episode: what the agent said, what it meant, and what came back.
import { h, longText } from "./dom.js";
import { fixed, number, plural } from "./format.js";
import { signed } from "./shadebar.js";
import { oneLine } from "./text.js";
import { tokenText } from "./tokens.js";

function chips(turn) {
  const { kind, name, invalid, stop, tool } = turn;
  return [
    turn.agent ? h("span", { class: "chip" }, turn.agent) : null,
    h("span", { class: kind === "invalid" ? "chip bad" : "chip accent" }, [kind, name].filter(Boolean).join(" ")),
    invalid && kind !== "invalid" ? h("span", { class: "chip bad" }, "rejected") : null,
    turn.replayed ? h("span", { class: "chip" }, "replayed") : null,
    tool?.failed ? h("span", { class: "chip bad" }, `${plural(tool.failed, "call")} failed`) : null,
    tool?.mismatches ? h("span", { class: "chip bad" }, "contradicts its tool") : null,
    stop === "length" || stop === "context" ? h("span", { class: "chip bad" }, `cut off: ${stop}`) : null,
  ];
}

function figures(turn, mean, time) {
  const count = turn.tokens?.pieces?.length;
  return h("span", { class: "turn-figures num muted", title: time ? "seconds of the engine, and of the environment" : null }, [
    count === undefined ? null : plural(count, "token"),
    mean === null ? null : `advantage ${signed(mean)}`,
    turn.version === null || turn.version === undefined ? null : `policy ${turn.version}`,
    time,
  ].filter(Boolean).join(" \u00b7 "), turn.reward ? h("strong", { class: turn.reward < 0 ? "bad" : "good" }, ` ${signed(turn.reward)}`) : null);
}

// Return the mean of a column of a turn's tokens that has numbers, or null.
export function meanOf(values) {
  const numbers = (values ?? []).filter((value) => value !== null);
  return numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null;
}

function measures(turn) {
  const pairs = Object.entries({ ...turn.metrics, ...turn.reply });
  const others = [...Object.entries(turn.rewards ?? {}).map(([agent, value]) => [`${agent} reward`, signed(value)]),
    ...Object.entries(turn.outcomes ?? {}).map(([agent, value]) => [agent, value ? "succeeded" : "failed"])];
  if (!pairs.length && !others.length) return null;
  return h("p", { class: "measures small muted num" }, [...pairs.map(([name, value]) => `${name} ${typeof value === "number" ? number(value) : value}`),
    ...others.map((pair) => pair.join(" "))].join(" \u00b7 "));
}

const observed = (text, cut, label) => h("section", { class: "observation", "aria-label": label },
  h("h4", { class: "label" }, label), longText(text, { cut, className: "mono" }));

// A tool call is one line until it is opened.
function call(turn) {
  const output = turn.observation ?? "";
  return h("details", { class: "call", open: false },
    h("summary", {}, h("span", { class: "call-name" }, turn.name || "call"), h("code", {}, oneLine(turn.action, 90)),
      output ? [h("span", { class: "muted", "aria-hidden": "true" }, " \u2192 "), h("code", { class: "muted" }, oneLine(output, 90))] : null),
    h("div", { class: "call-body" }, h("h4", { class: "label" }, "call"), longText(turn.action, { cut: turn.cut?.action, className: "mono" }),
      output ? observed(output, turn.cut?.observation, "result") : null));
}

function meaning(turn) {
  if (turn.kind === "call") return call(turn);
  const label = { answer: "answer", act: turn.name || "action", invalid: "not read", summary: "summary" }[turn.kind] ?? turn.kind;
  return [
    turn.action ? h("div", { class: "meaning" }, h("span", { class: turn.kind === "invalid" ? "label bad" : "label" }, label),
      longText(turn.action, { most: 600, cut: turn.cut?.action, className: "mono" })) : null,
    turn.observation ? observed(turn.observation, turn.cut?.observation, "environment") : null,
  ];
}

// Return { element, shade } of a turn; `split` is the first token that differs from the episode beside it.
export function turnElement(turn, i, { split = -1, time = "" } = {}) {
  const hasTokens = turn.tokens?.pieces?.length > 0;
  const tokens = hasTokens ? tokenText(turn.tokens, `Completion of turn ${i}`, { mark: split }) : null;
  const mean = meanOf(turn.tokens?.advantages);
  const element = h("article", { class: `turn${turn.replayed ? " replayed" : ""}`, id: `turn-${i}`, tabindex: "-1", "aria-label": `Turn ${i}` },
    h("header", { class: "turn-head" }, h("h3", { class: "num" }, `Turn ${i}`), chips(turn), figures(turn, mean, time)),
    h("div", { class: "turn-body" },
      h("div", { class: "turn-text" }, h("section", { class: "completion", "aria-label": "Completion" }, tokens ? tokens.element
        : longText(turn.text ?? "", { cut: turn.cut?.text, className: "mono" })), meaning(turn), measures(turn))));
  return { element, shade: tokens?.shade ?? (() => {}) };
}

// Return what an agent read before its first turn.
export const openingElement = ({ agent, text, cut }) => observed(text ?? "", cut?.text, agent ? `opening of ${agent}` : "opening");

// True for a narrow picture: a legend below it may be longer, and wraps.
const isNarrow = (text) => text.trimEnd().split("\n").slice(0, -1).every((line) => line.length <= 48);

// Return a picture of the environment.
export const pictureElement = (text, label) => h("figure", { class: "picture" }, h("figcaption", { class: "label" }, label),
  h("pre", { class: isNarrow(text) ? "text mono wraps" : "text mono", tabindex: "0", role: "img", "aria-label": `Picture of the environment, ${label}` }, text));

// Return a list of the turns to jump to.
export function turnIndex(turns, onJump) {
  const most = Math.max(1, ...turns.map(({ tokens }) => tokens?.pieces?.length ?? 0));
  return h("nav", { class: "turn-index", "aria-label": "Turns" }, h("ol", {}, turns.map((turn, i) => h("li", {}, h("a", {
    href: `#turn-${i}`, on: { click: (event) => { event.preventDefault(); onJump(i); } } },
  h("span", { class: "num muted" }, i), h("span", { class: turn.kind === "invalid" || turn.invalid ? "bad" : "" }, turn.name || turn.kind),
  h("span", { class: "length", "aria-hidden": "true", style: { "--part": `${(100 * (turn.tokens?.pieces?.length ?? 0)) / most}%` } }),
  h("span", { class: `num ${turn.reward < 0 ? "bad" : "good"}` }, turn.reward ? fixed(turn.reward) : ""))))));
}

