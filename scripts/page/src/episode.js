// One episode as turns with shaded tokens.
import { get, getBytes, isExport } from "./api.js";
import { parse } from "./columns.js";
import { h, longText, put } from "./dom.js";
import { count, number, plural } from "./format.js";
import { othersElement } from "./others.js";
import { go, hashOf } from "./route.js";
import { ShadeBar } from "./shadebar.js";
import { timeBar, turnTime } from "./times.js";
import { hideTip } from "./tokens.js";
import { along } from "./trail.js";
import { openingElement, pictureElement, turnElement, turnIndex } from "./turn.js";

export const outcome = (episode) => h("span", { class: episode.success ? "good" : "bad" }, episode.success ? "\u2713 success" : "\u2717 no success");

function facts(episode) {
  const tokens = episode.turns.reduce((sum, turn) => sum + (turn.tokens?.pieces?.length ?? 0), 0);
  const fork = episode.fork;
  return h("p", { class: "facts num" }, outcome(episode), h("span", {}, "reward ", h("strong", {}, number(episode.reward))),
    h("span", {}, plural(episode.turns.length, "turn")), h("span", {}, plural(tokens, "token")), h("span", {}, `ended: ${episode.status}`),
    h("span", {}, `sample ${episode.sample}`),
    fork ? h("span", { class: "chip accent" }, `fork of sample ${fork.parent} at turn ${fork.turn}${fork.token ? `, token ${fork.token}` : ""}${fork.num_forced ? `, ${fork.num_forced} forced` : ""}`) : null,
    episode.spare ? h("span", { class: "chip", title: "left out by its sampler, and kept because forks begin inside it" }, "spare") : null,
    (episode.agents ?? []).filter(({ agent }) => agent).map(({ agent, reward, success }) => h("span", { class: "chip" }, `${agent}: ${number(reward)}${success ? " \u2713" : ""}`)));
}

export const neighbourLines = (episode) => (Array.isArray(episode.neighbours) ? episode.neighbours : Object.values(episode.neighbours ?? {}).find(Array.isArray) ?? []);

export function episodeView(root, route) {
  const { run, file, line } = route;
  let episode = null;
  let turns = [];
  let shadeBar = null;
  let current = -1;
  let isOpen = false;
  let isOver = false;

  const head = h("div", { class: "episode-head" });
  const bar = h("div", { class: "shade-place" });
  const script = h("div", { class: "script" });
  const aside = h("div", { class: "aside" });
  const message = h("div", {});
  root.append(head, bar, h("div", { class: "episode-body" }, aside, script));
  put(head, h("p", { class: "muted" }, "reading \u2026"));

  function showHead() {
    const place = along(route);
    const lines = neighbourLines(episode);
    const link = (hash, label, title) => h("a", hash ? { class: "button", href: hash, title } : { class: "button", "aria-disabled": "true", title }, label);
    put(head, h("div", { class: "page-head" }, h("h1", { class: "text" }, [episode.task.env, episode.task.id].filter(Boolean).join(" \u00b7 ")), facts(episode),
      h("span", { class: "grow" }),
      place ? h("span", { class: "pager num muted small" }, link(place.before, "\u2190", "episode before in the table (\u2190)"), ` ${count(place.place)} of ${count(place.of)} `, link(place.after, "\u2192", "next episode in the table (\u2192)")) : null,
      lines.length > 1 || !isExport ? h("a", { class: "button", href: hashOf("group", { run, file, group: episode.group }), title: "group (g)" }, `Group ${episode.group}${lines.length ? ` (${lines.length})` : ""}`) : null,
      isExport ? null : h("button", { class: "button", type: "button", title: "another episode of this task, also of another run (c)", on: { click: compare } }, "Compare \u2026")),
    episode.task.goal ? longText(episode.task.goal, { most: 1000, className: "goal" }) : null,
    timeBar(episode.times),
    episode.error ? h("div", { class: "notice" }, longText(episode.error, { most: 1000, className: "mono" })) : null, message);
  }

  function setShade(name) {
    go(hashOf("episode", route, { ...route.query, shade: name }), { replace: true });
  }

  function paint() {
    shadeBar.paint(route.query.shade, turns);
  }

  function showTurns() {
    const given = episode.turns.filter((turn) => turn.replayed).length;
    turns = episode.turns.map((turn, i) => turnElement(turn, i, { time: turnTime(episode.times, i - given) }));
    const start = h("div", { class: "turn-body" }, h("div", { class: "turn-text" }, (episode.openings ?? []).map(openingElement)));
    put(script, start, given > 0 ? h("details", { class: "common" }, h("summary", {}, `${plural(given, "turn")} replayed from sample ${episode.fork?.parent ?? "?"}`),
      turns.slice(0, given).map(({ element }) => element)) : null, turns.slice(given).map(({ element }) => element));
    paint();
  }

  // Pictures come after the turns: they are added, as a reader may have opened a call, or marked a token, by then.
  function addPictures(pictures) {
    script.querySelectorAll(".turn-body").forEach((body, i) => {
      if (pictures[i]) body.append(pictureElement(pictures[i], i === 0 ? "at the start" : `after turn ${i - 1}`));
    });
    script.classList.add("with-pictures");
    turns[current]?.element.scrollIntoView({ block: "start" });
  }

  function jump(i) {
    if (!turns.length) return;
    current = Math.max(0, Math.min(turns.length - 1, i));
    const { element } = turns[current];
    const fold = element.closest("details.common");
    if (fold) fold.open = true;
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: "start" });
    aside.querySelectorAll("a").forEach((a, n) => a.toggleAttribute("aria-current", n === current));
  }

  function fold() {
    isOpen = !isOpen;
    for (const details of script.querySelectorAll("details.call")) details.open = isOpen;
  }

  function inGroup(by) {
    const lines = neighbourLines(episode ?? {});
    const next = lines[lines.indexOf(Number(line)) + by];
    if (next !== undefined) go(hashOf("episode", { run, file, line: next }, { shade: route.query.shade }));
  }

  function inTable(by) {
    const place = along(route);
    const hash = by < 0 ? place?.before : place?.after;
    if (hash) go(route.query.shade ? `${hash}?shade=${route.query.shade}` : hash);
  }

  async function compare() {
    if (isExport || !episode) return;
    put(message, h("p", { class: "muted" }, "looking for episodes of this task \u2026"));
    try {
      const [{ bytes }, { runs }] = await Promise.all([getBytes("episodes", { run }), get("runs")]);
      put(message, othersElement(run, parse(bytes), { file, line: Number(line) }, runs.map(({ id }) => id)));
      message.querySelector("a, select")?.focus();
    } catch (error) {
      put(message, h("div", { class: "notice", role: "alert" }, error.message));
    }
  }

  async function load() {
    episode = await get("episode", { run, file, line });
    if (isOver) return;
    shadeBar = new ShadeBar(episode.turns, setShade);
    showHead();
    put(bar, shadeBar.element);
    showTurns();
    put(aside, turnIndex(episode.turns, jump));
    if (route.query.turn) jump(Number(route.query.turn));
    const answer = await get("pictures", { run, file, line }).catch((error) => ({ pictures: [], why: error.message }));
    if (isOver) return;
    const hasPictures = answer.pictures?.length > 0;
    if (hasPictures) addPictures(answer.pictures);
    if (answer.why && !isExport) script.append(h("p", { class: "small muted" }, `${hasPictures ? "no more" : "no"} pictures: ${answer.why}`));
  }

  load().catch((error) => put(head, h("div", { class: "notice", role: "alert" }, error.message)));
  return {
    update: (next) => { route = next; if (turns.length) paint(); },
    close: () => { isOver = true; hideTip(); },
    keys: [
      { keys: ["j", "ArrowDown"], what: "next turn", act: () => jump(current + 1) },
      { keys: ["k", "ArrowUp"], what: "turn before", act: () => jump(current - 1) },
      { keys: ["ArrowRight"], what: "next episode in the table", act: () => inTable(1) },
      { keys: ["ArrowLeft"], what: "episode before in the table", act: () => inTable(-1) },
      { keys: ["]"], what: "next episode of the group", act: () => inGroup(1) },
      { keys: ["["], what: "episode before in the group", act: () => inGroup(-1) },
      { keys: ["s"], what: "next shade of the tokens", act: () => shadeBar?.next() },
      { keys: ["o"], what: "open or fold tool calls", act: fold },
      { keys: ["g"], what: "group of the episode", act: () => episode && go(hashOf("group", { run, file, group: episode.group })) },
      { keys: ["c"], what: "compare with another episode of the task", act: compare },
    ],
  };
}
