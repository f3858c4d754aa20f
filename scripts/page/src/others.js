// Episodes to compare one with: those of its task, in its run or in another.
import { getBytes } from "./api.js";
import { parse } from "./columns.js";
import { h, put } from "./dom.js";
import { fixed } from "./format.js";
import { hashOf } from "./route.js";

const MOST = 40;

// Return an episode's row as words that hold in other runs: { task, env, sample, file }; null where it is gone.
export function wordsOf(table, { file, line }) {
  const c = table.columns;
  const number = table.files.findIndex(({ name }) => name === file);
  const row = c.line.findIndex((value, i) => value === line && c.file[i] === number);
  return row < 0 ? null : { task: table.strings[c.task[row]], env: table.strings[c.env[row]], sample: c.sample[row], file, row };
}

// Return the rows of a task: of its own run, first those of its file; of another run, first those of its sample.
export function rowsOf(table, words, isOwn) {
  const c = table.columns;
  const [task, env] = [table.strings.indexOf(words.task), table.strings.indexOf(words.env)];
  const rows = [];
  for (let row = 0; row < table.rows; row++) if (c.task[row] === task && c.env[row] === env && !(isOwn && row === words.row)) rows.push(row);
  const isNear = (row) => (table.files[c.file[row]].name === words.file ? 1 : 0) + (!isOwn && c.sample[row] === words.sample ? 2 : 0);
  return rows.sort((a, b) => isNear(b) - isNear(a) || a - b);
}

// Return links to comparisons with an episode, and a choice of the run that they lead to.
export function othersElement(run, table, place, runs) {
  const words = wordsOf(table, place);
  const list = h("div", {});
  const choice = h("select", { class: "field", "aria-label": "Run to compare with", on: { change: () => show(choice.value) } },
    h("option", { value: run }, "this run"), runs.filter((id) => id !== run).map((id) => h("option", { value: id }, id)));

  function link(other, there, row) {
    const c = there.columns;
    const name = there.files[c.file[row]].name;
    const hash = hashOf("pair", { run, ...place, run2: other === run ? "" : other, file2: name, line2: c.line[row] });
    return h("li", {}, h("a", { class: "button num", href: hash },
      h("span", { class: c.success[row] ? "good" : "bad" }, c.success[row] ? "\u2713" : "\u2717"), `${name} ${c.line[row]} \u00b7 sample ${c.sample[row]} \u00b7 ${fixed(c.reward[row])}`));
  }

  function draw(other, there) {
    const rows = words ? rowsOf(there, words, other === run) : [];
    put(list, rows.length ? h("ul", {}, rows.slice(0, MOST).map((row) => link(other, there, row)))
      : h("p", { class: "muted" }, other === run ? "no other episode of this task" : "no episode of this task there"));
  }

  async function show(other) {
    put(list, h("p", { class: "muted" }, "reading \u2026"));
    try {
      const there = other === run ? table : parse((await getBytes("episodes", { run: other })).bytes);
      if (choice.value === other) draw(other, there);
    } catch (error) {
      put(list, h("div", { class: "notice", role: "alert" }, error.message));
    }
  }

  draw(run, table);
  return h("section", { class: "others", "aria-label": "Episodes to compare with" },
    h("div", { class: "toolbar" }, h("p", { class: "label" }, "compare with"), runs.length > 1 ? choice : null), list);
}
