// Every episode of a run, as a table.
import { every, get, getBytes } from "./api.js";
import * as columns from "./columns.js";
import { h, put } from "./dom.js";
import { count, fixed, MISSING, number, percent } from "./format.js";
import { List } from "./list.js";
import { go, hashOf } from "./route.js";
import { segments } from "./segments.js";
import { oneLine, visible } from "./text.js";
import { leaveTrail } from "./trail.js";

const text = (say) => (row, cell) => { cell.textContent = visible(String(say(row))); };

// Columns in their order on screen; `rank` says which stay where there is little room, `empty` the value that says nothing.
function columnsOf(table) {
  const c = table.columns;
  const word = (numbers) => (row) => table.strings[numbers[row]] ?? "";
  const zero = (numbers) => text((row) => (numbers[row] === 0 ? "\u00b7" : count(numbers[row])));
  const steps = table.files.map((file) => file.step);
  const kinds = table.files.map((file) => file.kind);
  return [
    { name: "success", label: "", title: "success", width: 26, rank: 0, cell: success(c.success) },
    { name: "task", label: "task", title: "task", width: 100, grow: 1, rank: 0, cell: task(word(c.task)) },
    { name: "env", label: "env", title: "environment", width: 110, rank: 5, empty: table.strings.length, of: c.env, cell: text(word(c.env)) },
    { name: "step", label: "step", title: "step, or kind of the file", width: 76, right: true, rank: 2, cell: text((row) => {
      const file = c.file[row];
      return `${kinds[file] === "train" ? "" : `${kinds[file]} `}${steps[file] ?? ""}`;
    }) },
    { name: "group", label: "group", title: "group within its file", width: 58, right: true, rank: 9, cell: text((row) => c.group[row]) },
    { name: "sample", label: "sample", title: "sample within its group; a fork names its parent", width: 76, right: true, rank: 8, cell: text((row) =>
      (c.parent[row] < 0 ? c.sample[row] : `${c.parent[row]} \u2192 ${c.sample[row]}`)) },
    { name: "reward", label: "reward", title: "reward", width: 76, right: true, rank: 0, cell: reward(c.reward) },
    { name: "turns", label: "turns", title: "turns", width: 58, right: true, rank: 1, cell: text((row) => count(c.turns[row])) },
    { name: "tokens", label: "tokens", title: "tokens of the completions", width: 66, right: true, rank: 3, cell: text((row) => count(c.tokens[row])) },
    { name: "calls", label: "calls", title: "tool calls", width: 58, right: true, rank: 6, empty: 0, of: c.calls, cell: zero(c.calls) },
    { name: "failed", label: "failed", title: "tool calls that failed", width: 62, right: true, rank: 4, empty: 0, of: c.failed, cell: zero(c.failed) },
    { name: "invalid", label: "invalid", title: "turns that could not be read or were rejected", width: 66, right: true, rank: 5, empty: 0, of: c.invalid, cell: zero(c.invalid) },
    { name: "only_action", label: "bare", title: "turns whose reply only states the action (collapse)", width: 56, right: true, rank: 8, empty: 0, of: c.only_action, cell: zero(c.only_action) },
    { name: "forks", label: "forks", title: "forks that begin in this episode", width: 58, right: true, rank: 6, empty: 0, of: c.forks, cell: zero(c.forks) },
    { name: "trained", label: "trained", title: "tokens that the update learned from", width: 72, right: true, rank: 7, empty: 0, of: c.trained, cell: zero(c.trained) },
    { name: "status", label: "ended", title: "end of the episode", width: 86, rank: 7, cell: text((row) => columns.STATUS[c.status[row]] ?? "") },
  ];
}

const success = (numbers) => (row, cell) => {
  const isGood = numbers[row] === 1;
  cell.className = isGood ? "good mark" : "bad mark";
  cell.textContent = isGood ? "\u2713" : "\u2717";
};

const task = (word) => (row, cell) => {
  if (!cell.firstChild) cell.append(h("a", { tabindex: "-1" }));
  cell.firstChild.textContent = visible(oneLine(word(row), 200)) || MISSING;
};

// The number, over a bar from 0 to 1 (or less than 0).
const reward = (numbers) => (row, cell) => {
  const value = numbers[row];
  cell.textContent = fixed(value);
  const part = Math.min(1, Math.abs(value));
  cell.classList.add("bar");
  cell.classList.toggle("minus", value < 0);
  cell.style.setProperty("--part", `${(100 * part).toFixed(0)}%`);
};

// Leave out columns that are empty in every row, then those of the highest ranks until the rest fits.
export function fitting(all, width) {
  let shown = all.filter(({ of, empty }) => of === undefined || !isEmpty(of, empty));
  const total = () => shown.reduce((sum, column) => sum + column.width + 12, 24);
  while (total() > width) {
    const worst = shown.reduce((a, b) => (b.rank >= a.rank ? b : a));
    if (worst.rank === 0) break;
    shown = shown.filter((column) => column !== worst);
  }
  return shown;
}

function isEmpty(numbers, empty) {
  if (empty > 0) return numbers.every((value) => value === numbers[0]); // one environment alone
  return numbers.every((value) => value === 0);
}

export function tableView(root, route) {
  const { run } = route;
  let query = route.query;
  let table = null;
  let tableMark = "";
  let all = [];
  let orders = new Map();
  let found = null; // flags of the rows that the full-text search found
  let searched = "";
  let stopSearch = () => {};
  const marked = new Set();

  const title = h("h1", {}, "Episodes");
  const totals = h("p", { class: "muted num", role: "status" });
  const problem = h("div", {});
  const files = h("select", { class: "field", "aria-label": "Files", on: { change: () => change({ file: files.value }) } });
  const outcome = segments("success", [["", "all"], ["1", "\u2713 success"], ["0", "\u2717 failure"]], (value) => change({ success: value }));
  const filter = h("input", { class: "field filter", type: "search", spellcheck: "false", autocomplete: "off", "data-filter": true,
    placeholder: "filter: reward>0.5 turns>=3", "aria-label": "Filter by columns, such as reward>0.5", on: { input: () => change({ filter: filter.value }) } });
  const words = h("input", { class: "field search", type: "search", spellcheck: "false", autocomplete: "off", "data-search": true,
    placeholder: "search text", "aria-label": "Search in prompts, completions and observations", on: { input: () => change({ q: words.value }) } });
  const compare = h("button", { class: "button", type: "button", hidden: true, on: { click: openPair } });
  const list = new List({
    label: "Episodes", onSort: (name) => change({ sort: nextSort(name) }), onOpen: open,
    decorate: (row, element) => {
      element.classList.toggle("marked", marked.has(row));
      const link = element.querySelector("a");
      if (link) link.href = hashOf("episode", placeOf(row));
    },
  });
  root.classList.add("fills");
  root.append(h("div", { class: "page-head" }, title, totals), problem,
    h("div", { class: "toolbar" }, words, filter, outcome.element, files, compare), list.element);
  put(totals, "reading \u2026");

  function nextSort(name) {
    const isWord = name === "task" || name === "env";
    const rounds = isWord ? [name, `-${name}`, ""] : [`-${name}`, name, ""];
    return rounds[(rounds.indexOf(query.sort ?? "") + 1) % 3];
  }

  function change(values) {
    go(hashOf("episodes", { run }, { ...query, ...values }), { replace: true });
  }

  function placeOf(row) {
    return { run, file: table.files[table.columns.file[row]].name, line: table.columns.line[row] };
  }

  function open(row) {
    go(hashOf("episode", placeOf(row)));
  }

  function openGroup() {
    const row = list.current;
    if (row !== null) go(hashOf("group", { ...placeOf(row), group: table.columns.group[row] }));
  }

  function mark() {
    const row = list.current;
    if (row === null) return;
    if (!marked.delete(row)) marked.add(row);
    if (marked.size > 2) marked.delete(marked.values().next().value);
    showMarked();
    list.draw(true);
  }

  function showMarked() {
    compare.hidden = marked.size === 0;
    compare.disabled = marked.size < 2;
    put(compare, marked.size < 2 ? "1 marked; mark another with x" : "Compare the 2 marked (c)");
  }

  function openPair() {
    if (marked.size < 2) return;
    const [a, b] = [...marked].map(placeOf);
    go(hashOf("pair", { ...a, file2: b.file, line2: b.line }));
  }

  function ordered(sort) {
    if (!orders.has(sort)) orders.set(sort, columns.order(table, sort.replace("-", ""), sort.startsWith("-")));
    return orders.get(sort);
  }

  function apply({ keep = false, row = null } = {}) {
    if (!table) return;
    const { tests, wrong } = columns.compile(table, query.filter ?? "");
    const among = fileFlags(table, query.file ?? "");
    if (among) tests.unshift((row) => among[table.columns.file[row]] === 1);
    if (query.success) tests.unshift((row) => table.columns.success[row] === Number(query.success));
    const rows = columns.select(ordered(query.sort ?? ""), tests, query.q ? found : null);
    list.setRows(rows, { keep, row });
    leaveTrail(run, table, rows);
    filter.setAttribute("aria-invalid", wrong.length > 0);
    filter.title = wrong.length ? `not a column or a number: ${wrong.join(" ")}` : "columns: reward success turns tokens calls failed invalid only_action forks trained group sample step, task: env: status: file:";
    say(rows, wrong);
  }

  function say(rows, wrong) {
    const sums = columns.summary(table, rows);
    const of = rows.length === table.rows ? "" : ` of ${count(table.rows)}`;
    put(totals, `${count(rows.length)}${of}`, rows.length ? ` \u00b7 success ${percent(sums.success)} \u00b7 reward ${number(sums.reward)} \u00b7 ${fixed(sums.turns, 1)} turns \u00b7 ${count(sums.tokens)} tokens` : "",
      wrong.length ? h("span", { class: "bad" }, ` \u00b7 not understood: ${wrong.join(" ").slice(0, 80)}`) : null,
      query.q && searched !== query.q ? " \u00b7 searching \u2026" : null);
  }

  function lay() {
    if (!table) return;
    all = columnsOf(table);
    list.setColumns(fitting(all, list.element.clientWidth || innerWidth), query.sort ?? "");
    list.draw(true);
  }

  function fillFiles() {
    const kinds = [...new Set(table.files.map((file) => file.kind))];
    put(files, h("option", { value: "" }, "all files"),
      kinds.length > 1 ? kinds.map((kind) => h("option", { value: `kind:${kind}` }, `all ${kind}`)) : null,
      table.files.map((file) => h("option", { value: file.name }, `${file.kind}${file.step === null ? "" : ` ${file.step}`} \u00b7 ${file.name} (${count(file.rows)})`)));
    files.value = query.file ?? "";
    const damage = table.files.filter((file) => file.damage);
    put(problem, damage.length ? h("div", { class: "notice" }, h("ul", {}, damage.slice(0, 8).map((file) => h("li", {}, `${file.name}: ${file.damage}`)),
      damage.length > 8 ? h("li", {}, `${damage.length - 8} more files`) : null)) : null);
  }

  function onWait({ done, of }) {
    if (!table) put(totals, `reading ${percent(of ? done / of : 0)} of the files`);
  }

  // Point what is marked or found to where its rows are now, and return the row of the cursor.
  function follow(moves) {
    const rows = [...marked].map((row) => moves[row]).filter((row) => row >= 0);
    marked.clear();
    rows.forEach((row) => marked.add(row));
    showMarked();
    const flags = new Uint8Array(table.rows);
    found?.forEach((flag, row) => { if (flag && moves[row] >= 0) flags[moves[row]] = 1; });
    found = found && flags;
    searched = "";
    return list.current === null ? -1 : moves[list.current];
  }

  async function load() {
    try {
      const answer = await getBytes("episodes", { run }, { mark: tableMark, onWait });
      if (answer === null) return;
      const before = table;
      const added = columns.parse(answer.bytes);
      table = added.base ? columns.merge(table, added) : added;
      tableMark = answer.mark;
      orders = new Map();
      const row = before && follow(columns.moves(before, table));
      fillFiles();
      lay();
      apply({ keep: before !== null, row });
      if (query.q) search();
    } catch (error) {
      put(problem, h("div", { class: "notice", role: "alert" }, error.message));
      if (!table) put(totals);
    }
  }

  async function search() {
    const wanted = (query.q ?? "").toWellFormed?.() ?? query.q;
    stopSearch();
    if (!wanted || wanted === searched) return;
    const control = new AbortController();
    const timer = setTimeout(ask, 150);
    stopSearch = () => { control.abort(); clearTimeout(timer); };
    async function ask() {
      try {
        const answer = await get("search", { run, q: wanted }, { signal: control.signal });
        found = new Uint8Array(table?.rows ?? 0);
        for (const row of answer.rows) found[row] = 1;
        const isWhole = answer.indexed >= answer.of;
        searched = isWhole ? query.q : "";
        apply({ keep: true });
        if (!isWhole) {
          put(totals, `indexed ${count(answer.indexed)} of ${count(answer.of)} episodes; ${count(answer.rows.length)} found so far`);
          const next = setTimeout(ask, 500);
          stopSearch = () => { control.abort(); clearTimeout(next); };
        }
      } catch (error) {
        if (error.name !== "AbortError") put(totals, h("span", { class: "bad" }, error.message));
      }
    }
  }

  function update(next) {
    const before = query;
    query = next.query;
    if (document.activeElement !== filter) filter.value = query.filter ?? "";
    if (document.activeElement !== words) words.value = query.q ?? "";
    files.value = query.file ?? "";
    outcome.set(query.success ?? "");
    if (before.sort !== query.sort) lay();
    if (before.q !== query.q) {
      found = new Uint8Array(table?.rows ?? 0);
      searched = "";
      search();
    }
    apply();
  }

  const resizes = new ResizeObserver(lay);
  resizes.observe(root);
  update(route);
  load();
  const stop = every(2000, load);
  list.element.focus({ preventScroll: true });
  return {
    update,
    close: () => { stop(); stopSearch(); list.close(); resizes.disconnect(); },
    keys: [...list.keys("episode"),
      { keys: ["g"], what: "group of the episode", act: openGroup },
      { keys: ["x"], what: "mark for a comparison", act: mark },
      { keys: ["c"], what: "compare the two marked", act: openPair },
      { keys: ["f"], what: "filter by columns", act: () => filter.focus() },
      { keys: ["s"], what: "success, failure, all", act: () => change({ success: { "": "1", 1: "0", 0: "" }[query.success ?? ""] }) }],
  };
}

function fileFlags(table, value) {
  if (value === "") return null;
  return Uint8Array.from(table.files, (file) => (value.startsWith("kind:") ? file.kind === value.slice(5) : file.name === value));
}
