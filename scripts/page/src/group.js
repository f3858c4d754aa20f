// All episodes of a task in a step: their rewards, and their turns as a tree.
import { get } from "./api.js";
import { histogram } from "./columns.js";
import { h, longText, put } from "./dom.js";
import { count, fixed, number, percent, plural } from "./format.js";
import { isFork } from "./forest.js";
import { go, hashOf } from "./route.js";
import { segments } from "./segments.js";
import { legend, signed } from "./shadebar.js";
import { shadesOf, Tree } from "./tree.js";

// Bars of rewards; a bar that is pressed shows its episodes alone.
function rewardBars(members, onChoose) {
  const bars = histogram(members.map(({ reward }) => reward), 16);
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  let chosen = null;
  const inside = (bar, i) => ({ reward }) => (bar.from === bar.to ? reward === bar.from : reward >= bar.from && (reward < bar.to || i === bars.length - 1));
  const buttons = bars.map((bar, i) => {
    const label = bar.from === bar.to ? number(bar.from) : `${number(bar.from)} to ${number(bar.to)}`;
    return h("button", { type: "button", class: "reward-bar", disabled: bar.count === 0, "aria-pressed": "false", title: `reward ${label}: ${plural(bar.count, "episode")}`, on: { click: () => press(i) } },
      h("span", { class: "num small" }, bar.count || ""), h("span", { class: "fill", style: { height: `${bar.count ? Math.max(3, (64 * bar.count) / most) : 1}px` } }),
      h("span", { class: "num small muted" }, bar.from === bar.to || i === 0 ? number(bar.from) : i === bars.length - 1 ? number(bar.to) : ""));
  });
  function press(i) {
    chosen = chosen === i ? null : i;
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", n === chosen));
    onChoose(chosen === null ? null : new Set(members.filter(inside(bars[i], i)).map(({ sample }) => sample)));
  }
  return h("div", { class: "reward-bars", role: "group", "aria-label": "Rewards" }, buttons);
}

function summaryLine(members) {
  const mean = members.reduce((sum, { reward }) => sum + reward, 0) / members.length;
  const spread = Math.sqrt(members.reduce((sum, { reward }) => sum + (reward - mean) ** 2, 0) / members.length);
  const forks = members.filter(isFork).length;
  return [plural(members.length, "episode"), forks ? plural(forks, "fork") : null, `success ${percent(members.filter(({ success }) => success).length / members.length)}`,
    `reward ${number(mean)} \u00b1 ${number(spread)}`, spread === 0 ? "equal rewards" : null].filter(Boolean).join(" \u00b7 ");
}

export function groupView(root, route) {
  const { run, file, group } = route;
  let members = [];
  let tree = null;
  let shades = [];
  let choice = null;
  const head = h("div", { class: "page-head" }, h("h1", {}, `Group ${group}`), h("span", { class: "muted" }, file));
  const notes = h("div", {});
  const bars = h("div", {});
  const bar = h("div", { class: "toolbar" });
  const key = h("span", {});
  const panel = h("aside", { class: "card panel", role: "status", "aria-label": "The selected turn" });
  const place = h("div", {});
  root.append(head, notes, bars, bar, h("div", { class: "group-body" }, place, panel));

  const episodeHash = ({ member, index }) => hashOf("episode", { run, file, line: member.line }, { turn: index });
  const pairHash = ({ member }) => {
    const parent = members.find(({ sample }) => sample === member.parent);
    return parent ? hashOf("pair", { run, file, line: parent.line, file2: file, line2: member.line }) : null;
  };

  function showPanel(node) {
    const { member, turn, index } = node;
    const facts = [["reward", turn.reward ? signed(turn.reward) : "0"], ["tokens", count(turn.tokens)], ["trained", count(turn.trained)],
      ["advantage", turn.advantage === null ? null : signed(turn.advantage)], ["value", turn.value === null ? null : fixed(turn.value, 3)], ["entropy", turn.entropy === null ? null : fixed(turn.entropy, 3)],
      ["forks here", members.filter(({ parent, fork_turn: at }) => parent === member.sample && at === index).length || null]].filter(([, value]) => value !== null && value !== "\u2013");
    const pair = pairHash(node);
    put(panel, h("h2", {}, `Sample ${member.sample}, turn ${index}`), h("div", { class: "panel-body" },
      h("p", {}, h("span", { class: "chip accent" }, [turn.kind, turn.name].filter(Boolean).join(" "))), turn.text ? longText(turn.text, { className: "mono" }) : null,
      h("dl", { class: "facts-list num" }, facts.map(([name, value]) => [h("dt", { class: "muted" }, name), h("dd", {}, value)])),
      h("p", { class: member.success ? "good" : "bad" }, `${member.success ? "\u2713" : "\u2717"} the episode ends with reward ${number(member.reward)}`),
      h("div", { class: "toolbar" }, h("a", { class: "button", href: episodeHash(node) }, "Open the episode"), pair ? h("a", { class: "button", href: pair, title: "twins (p)" }, "Beside its parent") : null)));
  }

  function paint() {
    const shade = shades.find(({ name }) => name === route.query.shade) ?? shades[0];
    const scale = tree.shade(shade);
    choice.set(shade.name);
    put(key, legend({ kind: shade.more ? "more" : "sign", about: "thick frame: trained on; dashed line: a fork" }, scale));
  }

  function setShade(name) {
    go(hashOf("group", route, { ...route.query, shade: name }), { replace: true });
  }

  async function load() {
    const answer = await get("group", { run, file, group });
    ({ members } = answer);
    if (!members.length) throw new Error("this group has no episodes");
    const damaged = members.filter(({ damage }) => damage);
    put(notes, damaged.length || answer.more ? h("div", { class: "notice" }, h("ul", {}, damaged.slice(0, 8).map(({ line, damage }) => h("li", {}, `line ${line}: ${damage}`)),
      answer.more ? h("li", {}, `only the first ${members.length} episodes are shown`) : null)) : null);
    head.append(h("span", { class: "num muted" }, summaryLine(members)));
    tree = new Tree(members, { onSelect: showPanel, onOpen: (node) => go(episodeHash(node)) });
    shades = shadesOf(members);
    choice = segments("shade", shades.map(({ name, label }) => [name, label]), setShade);
    put(bars, rewardBars(members, (samples) => tree.only(samples)));
    put(bar, h("span", { class: "label" }, "shade"), choice.element, key);
    put(place, tree.element);
    paint();
    tree.start(route.query.sample ? Number(route.query.sample) : undefined);
    tree.element.focus({ preventScroll: true });
  }

  load().catch((error) => put(place, h("div", { class: "notice", role: "alert" }, error.message)));
  return {
    update: (next) => { route = next; if (tree) paint(); },
    keys: [
      { keys: ["ArrowLeft", "ArrowRight"], what: "turn before, next turn", act: () => tree?.element.focus() },
      { keys: ["j", "k", "ArrowDown", "ArrowUp"], what: "same turn of another episode", act: () => tree?.element.focus() },
      { keys: ["Enter"], what: "open the episode", act: () => tree?.selected && go(episodeHash(tree.selected.data)) },
      { keys: ["p"], what: "the fork beside its parent", act: () => { const hash = tree?.selected && pairHash(tree.selected.data); if (hash) go(hash); } },
      { keys: ["s"], what: "next shade", act: () => shades.length && setShade(shades[(shades.findIndex(({ name }) => name === (route.query.shade ?? shades[0].name)) + 1) % shades.length].name) },
    ],
  };
}
