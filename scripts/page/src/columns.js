// The table of episodes as typed columns: parse, filter, sort and sum are loops over typed arrays.

const TYPES = { u1: Uint8Array, u4: Uint32Array, i4: Int32Array, f4: Float32Array };
const MAGIC = "rlxview1";
export const STATUS = ["done", "truncated", "context", "error"];

// Return { rows, files, strings, columns } of the bytes of api/episodes; `base` is the earlier table that they lack.
export function parse(buffer) {
  const bytes = new Uint8Array(buffer);
  if (String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC) throw new Error("the table of episodes cannot be read");
  const length = new DataView(buffer).getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(12, 12 + length)));
  const columns = {};
  for (const { name, type, at } of header.columns) columns[name] = column(buffer, type, 12 + length + at, header.sent ?? header.rows);
  return { rows: header.rows, files: header.files, strings: header.strings, columns, base: header.base ?? "", keptStrings: header.kept_strings ?? 0 };
}

// Return the table of an earlier one and what came since: of each file its first rows, then those that were sent.
export function merge(old, added) {
  const firstOf = new Map(old.files.map((file) => [file.name, file.first]));
  const columns = {};
  for (const [name, values] of Object.entries(added.columns)) {
    const whole = columns[name] = new values.constructor(added.rows);
    let from = 0;
    added.files.forEach(({ name: file, first, rows, kept }, number) => {
      if (kept) whole.set(old.columns[name].subarray(firstOf.get(file), firstOf.get(file) + kept), first);
      whole.set(values.subarray(from, from + rows - kept), first + kept);
      from += rows - kept;
      if (name === "file") whole.fill(number, first, first + rows);
    });
  }
  return { rows: added.rows, files: added.files, strings: [...old.strings.slice(0, added.keptStrings), ...added.strings], columns };
}

// Return the row of a later table for each row of an earlier one; -1 where it is gone.
export function moves(old, fresh) {
  const places = new Map(fresh.files.map((file) => [file.name, file]));
  const found = new Int32Array(old.rows).fill(-1);
  for (const { name, first, rows } of old.files) {
    const to = places.get(name);
    for (let i = 0; to && i < Math.min(rows, to.rows); i++) found[first + i] = to.first + i;
  }
  return found;
}

function column(buffer, type, at, rows) {
  const Type = TYPES[type];
  if (at % Type.BYTES_PER_ELEMENT === 0) return new Type(buffer, at, rows);
  return new Type(buffer.slice(at, at + rows * Type.BYTES_PER_ELEMENT));
}

// ---- filter

const COMPARE = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};
const WORD = /^([a-z_]+)(<=|>=|!=|<|>|=|:)(.*)$/i;

// Return the tests of a filter such as `reward>0.5 env:countdown -status:error`, and the words that nothing means.
export function compile(table, text) {
  const tests = [];
  const wrong = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const isNot = word.length > 1 && word[0] === "-" && !/^-[\d.]/.test(word);
    const test = testOf(table, isNot ? word.slice(1) : word);
    if (test === null) wrong.push(word);
    else tests.push(isNot ? (row) => !test(row) : test);
  }
  return { tests, wrong };
}

function testOf(table, word) {
  const found = WORD.exec(word);
  if (!found) return textTest(table, ["task", "env"], word);
  const [, name, operator, value] = found;
  if (name === "task" || name === "env") return operator === ":" || operator === "=" ? textTest(table, [name], value, operator) : null;
  if (name === "status" && STATUS.includes(value)) return numberTest(table.columns.status, operator === ":" ? "=" : operator, STATUS.indexOf(value));
  if (name === "step") return numberTest(stepOf(table), operator === ":" ? "=" : operator, Number(value));
  if (name === "file") return numberTest(table.columns.file, "=", table.files.findIndex((file) => file.name === value));
  const numbers = table.columns[name];
  if (!numbers || value === "" || Number.isNaN(Number(value))) return null;
  return numberTest(numbers, operator === ":" ? "=" : operator, Math.fround(Number(value)));
}

function numberTest(numbers, operator, value) {
  const compare = COMPARE[operator];
  return (row) => compare(numbers[row], value);
}

function textTest(table, names, value, operator = ":") {
  const wanted = value.toLowerCase();
  const flags = Uint8Array.from(table.strings, (text) =>
    operator === "=" ? text.toLowerCase() === wanted : text.toLowerCase().includes(wanted));
  const columns = names.map((name) => table.columns[name]);
  return (row) => columns.some((numbers) => flags[numbers[row]] === 1);
}

// Return the step of each row's file, NaN where it has none.
function stepOf(table) {
  const steps = table.files.map((file) => file.step ?? NaN);
  return Float64Array.from(table.columns.file, (file) => steps[file]);
}

// Return the rows, in their order, that pass all tests; `among` is a set of flags from a full-text search, or null.
export function select(order, tests, among = null) {
  const rows = new Uint32Array(order.length);
  let n = 0;
  for (let i = 0; i < order.length; i++) {
    const row = order[i];
    if (among !== null && among[row] === 0) continue;
    let passes = true;
    for (let t = 0; t < tests.length && passes; t++) passes = tests[t](row);
    if (passes) rows[n++] = row;
  }
  return rows.subarray(0, n);
}

// ---- sort

const MOST_ROWS = 2 ** 21; // 32 bits of a rank and 21 of a row are exact in a number
const floats = new Float32Array(1);
const bits = new Uint32Array(floats.buffer);

// Return an integer of 32 bits that orders as the number does; NaN comes last.
function rank(value) {
  if (Number.isNaN(value)) return 0xffffffff;
  floats[0] = value;
  return (bits[0] & 0x80000000 ? ~bits[0] : bits[0] | 0x80000000) >>> 0;
}

// Return all rows ordered by a column. A native sort of numbers that hold rank and row needs no comparison function.
export function order(table, name, isDown = false) {
  const keys = new Float64Array(table.rows);
  const key = keyOf(table, name);
  const sorted = (row) => (isDown ? 0xffffffff - key(row) : key(row));
  if (table.rows > MOST_ROWS) return Uint32Array.from(keys.keys()).sort((a, b) => sorted(a) - sorted(b) || a - b);
  for (let row = 0; row < table.rows; row++) keys[row] = sorted(row) * MOST_ROWS + row;
  keys.sort();
  return Uint32Array.from(keys, (value) => value % MOST_ROWS);
}

function keyOf(table, name) {
  if (name === "") return () => 0;
  if (name === "step") {
    const steps = table.files.map((file) => rank(file.step ?? NaN));
    return (row) => steps[table.columns.file[row]];
  }
  const numbers = table.columns[name];
  if (name === "task" || name === "env") {
    const ranks = ranksOf(table.strings);
    return (row) => ranks[numbers[row]];
  }
  return numbers instanceof Float32Array ? (row) => rank(numbers[row]) : numbers instanceof Int32Array
    ? (row) => numbers[row] + 0x80000000 : (row) => numbers[row];
}

function ranksOf(strings) {
  const ranks = new Uint32Array(strings.length);
  const collator = new Intl.Collator("en", { numeric: true });
  strings.map((text, i) => i).sort((a, b) => collator.compare(strings[a], strings[b])).forEach((i, place) => { ranks[i] = place; });
  return ranks;
}

// ---- sum

// Return how many rows there are, and the means of their columns.
export function summary(table, rows) {
  const { reward, success, turns, tokens } = table.columns;
  const sums = [0, 0, 0, 0];
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    sums[0] += reward[row];
    sums[1] += success[row];
    sums[2] += turns[row];
    sums[3] += tokens[row];
  }
  const [r, s, t, k] = sums.map((sum) => (rows.length ? sum / rows.length : NaN));
  return { rows: rows.length, reward: r, success: s, turns: t, tokens: k };
}

// Return the numbers of a histogram: edges and counts in `bins` equal parts, or one bar for each of few values.
export function histogram(values, bins = 24) {
  const numbers = values.filter(Number.isFinite);
  if (!numbers.length) return [];
  const distinct = [...new Set(numbers.slice(0, 5000))].sort((a, b) => a - b);
  if (distinct.length <= 12 && numbers.every((value) => distinct.includes(value))) {
    return distinct.map((value) => ({ from: value, to: value, count: numbers.filter((other) => other === value).length }));
  }
  const low = numbers.reduce((a, b) => Math.min(a, b));
  const high = numbers.reduce((a, b) => Math.max(a, b));
  const counts = new Array(bins).fill(0);
  for (const value of numbers) counts[Math.min(bins - 1, Math.floor(((value - low) / (high - low)) * bins))]++;
  const width = (high - low) / bins;
  return counts.map((n, i) => ({ from: low + i * width, to: low + (i + 1) * width, count: n }));
}
