// Parts of the page that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import * as columns from "../src/columns.js";
import { divergence, forest } from "../src/forest.js";
import { duration, number } from "../src/format.js";
import { rowsOf, wordsOf } from "../src/others.js";
import { hashOf, parseHash } from "../src/route.js";
import { aligned, band, Metrics, timeParts } from "../src/series.js";
import { classOf, scaleOf, SHADES } from "../src/shade.js";
import { oneLine, visible } from "../src/text.js";

const shade = (name) => SHADES.find((one) => one.name === name);

function table() {
  const rows = 6;
  const header = { rows, strings: ["b10", "b9", "env"], files: [{ name: "s-2", kind: "train", step: 2 }, { name: "e", kind: "eval", step: null }], columns: [] };
  const parts = { file: [0, 0, 0, 0, 1, 1], task: [0, 1, 0, 1, 0, 1], env: [2, 2, 2, 2, 2, 2], status: [0, 3, 0, 0, 0, 0], line: [1, 2, 3, 4, 1, 2], turns: [5, 1, 1, 3, 2, 9], success: [1, 0, 1, 0, 1, 0], tokens: [1, 1, 1, 1, 1, 1] };
  let data = [];
  const add = (name, type, bytes) => {
    header.columns.push({ name, type, at: data.length });
    data = [...data, ...bytes, ...new Array((8 - (bytes.length % 8)) % 8).fill(0)];
  };
  for (const [name, values] of Object.entries(parts)) add(name, "u4", new Uint8Array(Uint32Array.from(values).buffer));
  add("reward", "f4", new Uint8Array(Float32Array.from([0.5, -1, 1, NaN, 0, 0.1]).buffer));
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = text.length + ((8 - ((12 + text.length) % 8)) % 8);
  const bytes = new Uint8Array(12 + length + data.length).fill(32);
  bytes.set(new TextEncoder().encode("rlxview1"));
  new DataView(bytes.buffer).setUint32(8, length, true);
  bytes.set(text, 12);
  bytes.set(data, 12 + length);
  return columns.parse(bytes.buffer);
}

const pick = (words, among = null) => {
  const parsed = table();
  return [...columns.select(columns.order(parsed, ""), columns.compile(parsed, words).tests, among)];
};

test("a filter keeps the rows that pass all its words", () => {
  assert.deepEqual(pick("reward>0"), [0, 2, 5]);
  assert.deepEqual(pick("reward>0 turns<5"), [2]);
  assert.deepEqual(pick("reward=0.1"), [5]);
  assert.deepEqual(pick("task:b9 -status:error"), [3, 5]);
  assert.deepEqual(pick("step=2 success=1"), [0, 2]);
  assert.deepEqual(pick("file:e"), [4, 5]);
  assert.deepEqual(pick("B10"), [0, 2, 4]);
  assert.deepEqual(pick("reward>=-1", Uint8Array.from([0, 1, 0, 0, 0, 1])), [1, 5]);
});

test("what came since goes behind the first rows of its file, and files are numbered anew", () => {
  const old = table();
  old.files = [{ name: "s-2", first: 0, rows: 4 }, { name: "e", first: 4, rows: 2 }];
  const columnsOf = (...turns) => ({ file: Uint32Array.from(turns, () => 7), turns: Uint32Array.from(turns) });
  const files = [{ name: "s-2", first: 0, rows: 4, kept: 4 }, { name: "s-3", first: 4, rows: 2, kept: 0 }, { name: "e", first: 6, rows: 3, kept: 2 }];
  const merged = columns.merge(old, { rows: 9, files, strings: ["new"], keptStrings: 3, columns: columnsOf(70, 71, 72) });
  assert.deepEqual([...merged.columns.turns], [5, 1, 1, 3, 70, 71, 2, 9, 72]);
  assert.deepEqual([...merged.columns.file], [0, 0, 0, 0, 1, 1, 2, 2, 2]);
  assert.deepEqual(merged.strings, ["b10", "b9", "env", "new"]);
});

test("files that are gone leave no rows", () => {
  const old = { ...table(), files: [{ name: "s-2", first: 0, rows: 4 }, { name: "e", first: 4, rows: 2 }] };
  const merged = columns.merge(old, { rows: 2, files: [{ name: "e", first: 0, rows: 2, kept: 2 }], strings: [], keptStrings: 3, columns: { turns: new Uint32Array(0) } });
  assert.deepEqual([...merged.columns.turns], [2, 9]);
});

test("a pair of two runs has an address of its own", () => {
  const values = { run: "a/b", file: "x", line: "1", file2: "y", line2: "2" };
  for (const run2 of [undefined, "c/d"]) {
    const hash = hashOf("pair", { ...values, run2 });
    const route = parseHash(hash);
    assert.deepEqual([route.view, route.run, route.run2, route.line, route.line2], ["pair", "a/b", run2, "1", "2"]);
    assert.equal(hashOf("pair", route), hash);
  }
  assert.equal(hashOf("pair", { ...values, run2: "" }), hashOf("pair", values));
});

test("rows of a task are found by its words, in another run first those of the same sample", () => {
  const old = table();
  old.columns.sample = Int32Array.from([0, 0, 1, 1, 0, 1]);
  const words = wordsOf(old, { file: "e", line: 2 });
  assert.deepEqual(words, { task: "b9", env: "env", sample: 1, file: "e", row: 5 });
  assert.deepEqual(rowsOf(old, words, true), [1, 3]);
  assert.deepEqual(rowsOf(old, words, false), [5, 3, 1]);
  assert.deepEqual(rowsOf({ ...old, strings: ["b9", "x", "env"] }, words, false), [2, 4, 0]);
  assert.deepEqual(rowsOf(old, { ...words, task: "none" }, false), []);
});

test("rows are followed into a later table by their files", () => {
  const old = { rows: 5, files: [{ name: "a", first: 0, rows: 2 }, { name: "gone", first: 2, rows: 1 }, { name: "e", first: 3, rows: 2 }] };
  const fresh = { rows: 6, files: [{ name: "a", first: 0, rows: 1 }, { name: "b", first: 1, rows: 2 }, { name: "e", first: 3, rows: 3 }] };
  assert.deepEqual([...columns.moves(old, fresh)], [0, -1, -1, 3, 4]);
});

test("a word of a filter that means nothing is named", () => {
  assert.deepEqual(columns.compile(table(), "reward>much nowhere>3 turns>1").wrong, ["reward>much", "nowhere>3"]);
});

test("rows are ordered by a column, equal ones in their order", () => {
  assert.deepEqual([...columns.order(table(), "reward")], [1, 4, 5, 0, 2, 3]);
  assert.deepEqual([...columns.order(table(), "turns", true)], [5, 0, 3, 4, 1, 2]);
  assert.deepEqual([...columns.order(table(), "task")], [1, 3, 5, 0, 2, 4]);
  assert.deepEqual([...columns.order(table(), "step")], [0, 1, 2, 3, 4, 5]);
});

test("a histogram has a bar for each of few values, and equal parts for many", () => {
  assert.deepEqual(columns.histogram([1, 0, 1]), [{ from: 0, to: 0, count: 1 }, { from: 1, to: 1, count: 2 }]);
  const bars = columns.histogram([...Array(100)].map((_, i) => i), 10);
  assert.deepEqual(bars.map((bar) => bar.count), new Array(10).fill(10));
});

test("a fork hangs on the turn before the one that it left", () => {
  const turns = (n) => [...Array(n)].map((_, i) => ({ text: String(i) }));
  const members = [{ sample: 0, parent: null, turns: turns(3) }, { sample: 1, parent: 0, fork_turn: 1, fork_token: 2, turns: turns(3) },
    { sample: 2, parent: 1, fork_turn: 2, turns: turns(3) }, { sample: 3, parent: 9, turns: turns(1) }, { sample: 4, parent: 1, fork_turn: 1, turns: turns(2) }];
  const root = forest(members);
  assert.deepEqual(root.children.map(({ member }) => member.sample), [0, 3]);
  const first = root.children[0];
  assert.deepEqual(first.children.map(({ member, token }) => [member.sample, token]), [[0, 0], [1, 2], [4, 0]]);
  assert.deepEqual(first.children[1].children.map(({ member }) => member.sample), [1, 2]);
});

test("forks that are each other's parents end on the root", () => {
  const members = [{ sample: 0, parent: 1, fork_turn: 1, turns: [{}, {}] }, { sample: 1, parent: 0, fork_turn: 1, turns: [{}, {}] }];
  assert.equal(forest(members).children.length > 0, true);
});

test("two episodes diverge at the first token that differs, else at an observation, else at an end", () => {
  const turn = (pieces, observation = "") => ({ tokens: { pieces }, observation });
  const a = { turns: [turn(["x", "y"]), turn(["z"])] };
  assert.deepEqual(divergence(a, { turns: [turn(["x", "q"])] }), { turn: 0, token: 1 });
  assert.deepEqual(divergence(a, { turns: [turn(["x", "y"], "other")] }), { turn: 0, token: -1 });
  assert.deepEqual(divergence(a, { turns: [turn(["x", "y"])] }), { turn: 1, token: -1 });
});

test("an address and its parts are one another's inverse", () => {
  const route = { view: "episode", run: "a/b ?#%", file: "x/y.jsonl", line: "3", query: { shade: "value" } };
  const { view, query, ...values } = route;
  const { view: again, run, file, line, query: words } = parseHash(hashOf(view, values, query));
  assert.deepEqual({ view: again, run, file, line, query: words }, route);
  assert.equal(parseHash("#/nowhere"), null);
  assert.equal(parseHash("#/run/x/pair/f/1"), null);
  assert.equal(parseHash("#/").view, "runs");
  assert.equal(parseHash("#/run/%E0%A4%A").run, "%E0%A4%A");
});

test("seeds are averaged where they have a value", () => {
  const { xs, lines } = aligned([[[1, 2], [1, 2]], [[2, 3], [4, 6]]]);
  assert.deepEqual(xs, [1, 2, 3]);
  assert.deepEqual(band(lines), { mean: [1, 3, 6], low: [1, 2, 6], high: [1, 4, 6] });
});

test("metrics that come later have gaps before", () => {
  const metrics = new Metrics("run");
  metrics.append([1], { a: [1] });
  metrics.append([2, 3], { b: [5, null] });
  assert.deepEqual(metrics.points("a"), [[1], [1]]);
  assert.deepEqual(metrics.points("b"), [[2], [5]]);
});

test("what no part of a step's time explains is other", () => {
  const metrics = new Metrics("run");
  metrics.append([1, 2], { "time/step": [5, 6], "time/rollout": [3, 3], "time/update": [1, 1] });
  assert.deepEqual(timeParts(metrics), [["rollout", [3, 3]], ["update", [1, 1]], ["other", [1, 2]]]);
});

test("tokens are shaded by sign, size or flag", () => {
  const tokens = { logprobs: [-0.01, -9], advantages: [-1, 1], trained: [1, 0], origin: ["forced", ""] };
  const classes = (name, scale) => [0, 1].map((i) => classOf(shade(name), scale, tokens, i));
  assert.deepEqual(classes("logprob", 5), ["tok", "tok q8"]);
  assert.deepEqual(classes("advantage", 2), ["tok n4", "tok p4"]);
  assert.deepEqual(classes("trained", 1), ["tok on", "tok off"]);
  assert.deepEqual(classes("origin", 1), ["tok o-forced", "tok"]);
  assert.equal(scaleOf(shade("advantage"), [{ tokens }, { tokens: null }]), 1);
});

test("text hides nothing", () => {
  assert.equal(visible("a\u202e\u0007\n\t\ud800\u{1f600}"), "a\u27e8RLO\u27e9\u2407\n\t\ufffd\u{1f600}");
  assert.equal(oneLine("a \n b".repeat(100), 8), "a ba ba\u2026");
});

test("numbers and durations are short", () => {
  assert.deepEqual([0.43123, 12345, -2, 1e9, 0.00001, null].map(number), ["0.431", "12,345", "\u22122", "1.00e9", "1.00e-5", "\u2013"]);
  assert.deepEqual([2.25, 60, 600, 12000, 200000].map(duration), ["2.3 s", "60 s", "10 min", "3 h 20 min", "2 d 7 h"]);
});
