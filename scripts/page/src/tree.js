// A drawing of a group's turns: time goes to the right, every line of boxes is an episode.
import { hierarchy } from "d3-hierarchy";
import { h, put, svg } from "./dom.js";
import { fixed, number } from "./format.js";
import { forest } from "./forest.js";
import { LEVELS } from "./shade.js";
import { oneLine } from "./text.js";

const ROW = 28;
const HEIGHT = 22;
const MARGIN = 16;
const OUTCOME = 132; // room for reward and sample at the end of a line

// Return the width of a box and of the gap after it: long episodes get narrow boxes.
function widths(depth) {
  if (depth <= 6) return [124, 28];
  if (depth <= 14) return [76, 22];
  return [26, 14];
}

// Shades of boxes: a number of a turn, or of the whole episode.
export const BOX_SHADES = [
  { name: "value", label: "value", of: ({ turn }) => turn.value },
  { name: "advantage", label: "advantage", of: ({ turn }) => turn.advantage },
  { name: "entropy", label: "entropy", of: ({ turn }) => turn.entropy, more: true },
  { name: "reward", label: "reward", of: ({ turn }) => turn.reward },
  { name: "tokens", label: "tokens", of: ({ turn }) => turn.tokens, more: true },
];

export function shadesOf(members) {
  return BOX_SHADES.filter(({ of }) => members.some(({ turns }) => turns.some((turn) => of({ turn }) !== null && of({ turn }) !== undefined)));
}

export function boxScale(shade, members) {
  return members.reduce((most, { turns }) => turns.reduce((m, turn) => Math.max(m, Math.abs(shade.of({ turn }) ?? 0)), most), 0) || 1;
}

function boxClass(shade, scale, node) {
  const value = shade.of(node);
  const parts = ["box", node.turn.trained > 0 ? "is-trained" : ""];
  if (value !== null && value !== undefined) {
    const level = Math.min(LEVELS, Math.round((LEVELS * Math.abs(value)) / scale));
    if (level > 0) parts.push(`tok ${shade.more ? "q" : value < 0 ? "n" : "p"}${level}`);
  }
  return parts.filter(Boolean).join(" ");
}

// What fits into a box: a short completion as it is, else the name of what it did.
const labelOf = ({ kind, name, text }) => (kind === "act" && name && text.length > 24 ? name : text.replace(/<[^<>\s]*>/g, " ").trim() || name || text || kind);

// Order the children of a node: what its own episode did next, and below each child the forks that left its turn.
function lineage(node) {
  const { children } = node;
  const samples = new Set(children.map(({ data }) => data.member.sample));
  const order = [];
  const take = (child) => {
    if (order.includes(child)) return;
    order.push(child);
    children.filter(({ data }) => data.isFork && data.member.parent === child.data.member.sample).forEach(take);
  };
  children.filter(({ data }) => data.member === node.data.member).forEach(take);
  children.filter(({ data }) => !data.isFork || !samples.has(data.member.parent)).forEach(take);
  children.forEach(take);
  return order;
}

// Give every episode a line of its own; what it shares with its parent lies on the parent's line.
function layOut(root, step) {
  let line = 0;
  root.eachBefore((node) => {
    if (node.children) node.children = lineage(node);
    node.y = node.depth * step;
  });
  root.eachAfter((node) => { node.x = node.children ? node.children[0].x : ROW * line++; });
}

export class Tree {
  constructor(members, { onSelect, onOpen }) {
    Object.assign(this, { members, onSelect, onOpen, selected: null });
    this.root = hierarchy(forest(members));
    const [width, gap] = widths(this.root.height);
    this.width = width;
    layOut(this.root, width + gap);
    this.nodes = this.root.descendants().slice(1);
    this.element = h("div", { class: "tree card", tabindex: "0", role: "group", "data-own-keys": true, "data-list": true,
      "aria-label": "Turns of the group: arrow keys move, enter opens the episode", on: { keydown: (event) => this.key(event) } });
    this.draw();
  }

  draw() {
    const ys = this.nodes.map((node) => node.x);
    const top = Math.min(0, ...ys) - ROW / 2 - MARGIN;
    const height = Math.max(0, ...ys) + ROW / 2 + MARGIN - top;
    const left = this.nodes.length ? Math.min(...this.nodes.map((node) => node.y)) - 28 : 0;
    const right = Math.max(0, ...this.nodes.map((node) => node.y)) + this.width + OUTCOME;
    const links = svg("g", { class: "links" }, this.nodes.map((node) => this.link(node, left)));
    this.boxes = new Map(this.nodes.map((node) => [node, this.box(node)]));
    const start = svg("circle", { class: "start", cx: left + 8, cy: this.root.x, r: 5 });
    put(this.element, svg("svg", { width: right - left + MARGIN, height, viewBox: `${left} ${top} ${right - left + MARGIN} ${height}`, "aria-hidden": "true" }, links, start, [...this.boxes.values()]));
  }

  link(node, left) {
    const from = node.data.isFork && node.data.token > 0 ? this.twin(node) : null;
    if (from) return svg("path", { class: "link fork", d: `M${node.y} ${from.x}h-8V${node.x - 6}q0 6 6 6h2` });
    const isTop = node.parent === this.root;
    const x1 = isTop ? left + 8 : node.parent.y + this.width;
    const [y1, x2, y2] = [node.parent.x, node.y, node.x];
    const turn = x2 - 12;
    const path = y1 === y2 ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}H${turn - 6}Q${turn} ${y1} ${turn} ${y1 + 6}V${y2 - 6}Q${turn} ${y2} ${turn + 6} ${y2}H${x2}`;
    return svg("path", { class: node.data.isFork ? "link fork" : "link", d: path });
  }

  // Return the turn that a fork left in the middle.
  twin(node) {
    return node.parent.children.find(({ data }) => data.member.sample === node.data.member.parent);
  }

  box(node) {
    const { data } = node;
    const letters = Math.floor((this.width - 12 - (data.token > 0 ? 40 : 0)) / 6.7);
    const parts = [svg("rect", { class: "box", x: node.y, y: node.x - HEIGHT / 2, width: this.width, height: HEIGHT, rx: 4 })];
    if (letters > 3) parts.push(svg("text", { x: node.y + 6, y: node.x + 4 }, oneLine(labelOf(data.turn), letters)));
    if (data.token > 0 && this.width > 100) parts.push(svg("text", { class: "fork-token", x: node.y + this.width - 4, y: node.x + 3, "text-anchor": "end" }, `token ${data.token}`));
    if (data.isLast) parts.push(this.outcome(node));
    return svg("g", { class: "node", on: { click: () => { this.select(node); this.element.focus(); }, dblclick: () => this.onOpen(data) } }, svg("title", {}, oneLine(labelOf(data.turn), 200)), parts);
  }

  outcome(node) {
    const { member } = node.data;
    return svg("text", { class: `outcome ${member.success ? "good" : "bad"}`, x: node.y + this.width + 8, y: node.x + 4 },
      `${member.success ? "\u2713" : "\u2717"} ${fixed(member.reward)}`, svg("tspan", { class: "sample", dx: 8 }, `sample ${member.sample}${member.spare ? " spare" : ""}`));
  }

  shade(shade) {
    const scale = boxScale(shade, this.members);
    for (const [node, group] of this.boxes) {
      group.firstElementChild.nextElementSibling.setAttribute("class", boxClass(shade, scale, node.data));
      put(group.querySelector("title"), `${shade.label} ${number(shade.of(node.data))}: ${oneLine(labelOf(node.data.turn), 200)}`);
    }
    return scale;
  }

  // Fade all episodes but these; null shows all.
  only(samples) {
    const lit = new Set(this.nodes.filter((node) => samples === null || node.descendants().some(({ data }) => data.isLast && samples.has(data.member.sample))));
    for (const [node, group] of this.boxes) group.classList.toggle("faded", !lit.has(node));
  }

  select(node) {
    if (!node) return;
    if (this.selected) this.boxes.get(this.selected).classList.remove("selected");
    this.selected = node;
    const group = this.boxes.get(node);
    group.classList.add("selected");
    const box = group.getBoundingClientRect();
    const room = this.element.getBoundingClientRect();
    if (box.left < room.left || box.right > room.right) this.element.scrollBy(box.left - room.left - room.width / 3, 0);
    if (box.top < room.top || box.bottom > room.bottom) this.element.scrollBy(0, box.top - room.top - room.height / 2);
    this.onSelect(node.data);
  }

  // Select the first turn, or that of a sample.
  start(sample) {
    this.select(this.nodes.find(({ data }) => data.member.sample === sample) ?? this.nodes[0]);
  }

  level(by) {
    const same = this.nodes.filter((node) => node.depth === this.selected.depth).sort((a, b) => a.x - b.x);
    return same[same.indexOf(this.selected) + by];
  }

  key(event) {
    if (!this.selected || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = {
      ArrowRight: () => this.selected.children?.find(({ data }) => data.member === this.selected.data.member) ?? this.selected.children?.[0],
      ArrowLeft: () => (this.selected.parent === this.root ? null : this.selected.parent),
      ArrowDown: () => this.level(1), ArrowUp: () => this.level(-1), j: () => this.level(1), k: () => this.level(-1),
    }[event.key];
    if (event.key === "Enter") this.onOpen(this.selected.data);
    else if (next) this.select(next());
    else return;
    event.preventDefault();
  }
}
