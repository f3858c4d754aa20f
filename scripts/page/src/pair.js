// Two episodes side by side from where they diverge: twins, two checkpoints on one task, or two runs.
import { get } from "./api.js";
import { h, put } from "./dom.js";
import { divergence } from "./forest.js";
import { number, plural } from "./format.js";
import { go, hashOf } from "./route.js";
import { ShadeBar } from "./shadebar.js";
import { hideTip } from "./tokens.js";
import { openingElement, turnElement } from "./turn.js";

export function pairView(root, route) {
  const sides = [{ run: route.run, file: route.file, line: route.line }, { run: route.run2 ?? route.run, file: route.file2, line: route.line2 }];
  let bar = null;
  let turns = [];
  let steps = []; // elements that j and k go along
  let current = -1;
  const head = h("div", { class: "page-head" }, h("h1", { class: "text" }, "Two episodes"));
  const place = h("div", { class: "shade-place" });
  const body = h("div", { class: "pair-body" });
  root.append(head, place, body);

  function sideHead(episode, side) {
    return h("header", { class: "pair-head num" }, h("a", { href: hashOf("episode", side) }, h("strong", {}, route.run2 ? `${side.run} \u00b7 ` : "", `${side.file} ${side.line}`)), h("span", {}, `sample ${episode.sample}`),
      episode.fork ? h("span", { class: "chip accent" }, `fork of ${episode.fork.parent}`) : null,
      h("span", { class: episode.success ? "good" : "bad" }, `${episode.success ? "\u2713" : "\u2717"} reward ${number(episode.reward)}`), h("span", { class: "muted" }, plural(episode.turns.length, "turn")));
  }

  const made = (turn, i, split = -1) => {
    const element = turnElement(turn, i, { split });
    turns.push(element);
    return element.element;
  };

  // Return the openings: once where both begin alike, else side by side, as two runs may have two protocols.
  function openings(a, b) {
    const [left, right] = [a, b].map((episode) => episode.openings ?? []);
    if (JSON.stringify(left) === JSON.stringify(right)) return left.map(openingElement);
    return h("div", { class: "pair-row" }, [left, right].map((side) => h("div", {}, side.map(openingElement))));
  }

  function common(episode, at) {
    if (at.turn === 0) return null;
    return h("details", { class: "common" }, h("summary", {}, `the first ${plural(at.turn, "turn")} of both are the same`), episode.turns.slice(0, at.turn).map((turn, i) => made(turn, i)));
  }

  function rows(a, b, at) {
    const most = Math.max(a.turns.length, b.turns.length);
    const out = [];
    for (let i = at.turn; i < most; i++) {
      const cells = [a, b].map((episode) => (episode.turns[i] ? made(episode.turns[i], i, i === at.turn ? at.token : -1) : h("p", { class: "empty" }, i === episode.turns.length ? "ended" : "")));
      out.push(h("div", { class: "pair-row" }, cells));
    }
    return out;
  }

  function where(at, a, b) {
    if (at.turn >= Math.max(a.turns.length, b.turns.length)) return "They are the same.";
    if (at.turn >= Math.min(a.turns.length, b.turns.length)) return `One of them ends after turn ${at.turn - 1}.`;
    return at.token >= 0 ? `They diverge in turn ${at.turn}, at token ${at.token}.` : `They diverge in turn ${at.turn}, after equal tokens.`;
  }

  async function load() {
    const [a, b] = await Promise.all(sides.map((side) => get("episode", side)));
    const at = divergence(a, b);
    const isSame = a.task.id === b.task.id && a.task.env === b.task.env;
    put(head, h("h1", { class: "text" }, isSame ? [a.task.env, a.task.id].filter(Boolean).join(" \u00b7 ") : "Two tasks"), h("span", { class: "muted num" }, where(at, a, b)));
    bar = new ShadeBar([...a.turns, ...b.turns], setShade);
    put(place, bar.element);
    const shared = common(a, at);
    const rowElements = rows(a, b, at);
    steps = rowElements;
    put(body, openings(a, b), shared, h("div", { class: "pair-row pair-heads" }, sideHead(a, sides[0]), sideHead(b, sides[1])), rowElements);
    bar.paint(route.query.shade, turns);
  }

  function setShade(name) {
    go(hashOf("pair", route, { ...route.query, shade: name }), { replace: true });
  }

  function jump(i) {
    if (!steps.length) return;
    current = Math.max(0, Math.min(steps.length - 1, i));
    const turn = steps[current].querySelector(".turn");
    turn?.focus({ preventScroll: true });
    turn?.scrollIntoView({ block: "start" });
  }

  load().catch((error) => put(head, h("div", { class: "notice", role: "alert" }, error.message)));
  return {
    update: (next) => { route = next; bar?.paint(route.query.shade, turns); },
    close: hideTip,
    keys: [
      { keys: ["j", "ArrowDown"], what: "next turn", act: () => jump(current + 1) },
      { keys: ["k", "ArrowUp"], what: "turn before", act: () => jump(current - 1) },
      { keys: ["s"], what: "next shade of the tokens", act: () => bar?.next() },
      { keys: ["o"], what: "open or fold what is common", act: () => { const fold = body.querySelector("details.common"); if (fold) fold.open = !fold.open; } },
    ],
  };
}
