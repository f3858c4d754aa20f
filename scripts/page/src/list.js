// A list of any number of rows of one height: only those in sight are elements.
import { h, put } from "./dom.js";

export const ROW = 28;
const BEYOND = 12; // rows drawn above and below what is in sight

// A column is { name, label, title, width, grow, right, cell(row, element) }: `cell` fills an element that is used again.
export class List {
  constructor({ label, onSort, onOpen, link, decorate }) {
    Object.assign(this, { onSort, onOpen, link, decorate, columns: [], rows: new Uint32Array(0), cursor: 0, pool: [], sort: "" });
    this.head = h("div", { class: "list-head list-row", role: "row", "aria-rowindex": "1" });
    this.body = h("div", { class: "list-body", role: "rowgroup" });
    this.element = h("div", {
      class: "list", role: "grid", tabindex: "0", "aria-label": label, "data-list": true,
      on: { scroll: () => this.later(), click: (event) => this.click(event), dblclick: (event) => this.click(event, true) },
    }, h("div", { role: "rowgroup", class: "list-top" }, this.head), this.body);
    this.resizes = new ResizeObserver(() => this.later());
    this.resizes.observe(this.element);
  }

  close() {
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  setColumns(columns, sort) {
    this.columns = columns;
    this.sort = sort;
    const track = ({ width, grow }) => (grow ? `minmax(${width}px, ${grow}fr)` : `${width}px`);
    this.element.style.setProperty("--tracks", columns.map(track).join(" "));
    this.element.setAttribute("aria-colcount", columns.length);
    put(this.head, columns.map((column) => this.heading(column)));
    put(this.body);
    this.pool = [];
    this.later();
  }

  heading({ name, label, title, right }) {
    const state = this.sort === name ? "ascending" : this.sort === `-${name}` ? "descending" : null;
    const mark = { ascending: " \u2191", descending: " \u2193" }[state] ?? "";
    return h("div", { class: right ? "right" : "", role: "columnheader", "aria-sort": state ?? "none" },
      h("button", { type: "button", title, tabindex: "-1", on: { click: () => this.onSort(name) } }, label, h("span", { class: "arrow" }, mark)));
  }

  // Show rows; with `keep`, stay where it is, the cursor on `row` if that is among them.
  setRows(rows, { keep = false, row = null } = {}) {
    this.rows = rows;
    const place = row === null ? -1 : rows.indexOf(row);
    this.cursor = Math.max(0, Math.min(place >= 0 ? place : keep ? this.cursor : 0, rows.length - 1));
    if (!keep) this.element.scrollTop = 0;
    this.element.setAttribute("aria-rowcount", rows.length + 1);
    this.body.style.setProperty("height", `${rows.length * ROW}px`);
    this.draw(true);
  }

  later() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw(all = false) {
    const height = this.element.clientHeight || innerHeight;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.element.scrollTop + height) / ROW) + BEYOND);
    const needed = Math.ceil(height / ROW) + 2 * BEYOND + 2;
    if (this.pool.length < needed) all = this.grow(needed);
    for (let place = first; place < last; place++) {
      const line = this.pool[place % this.pool.length];
      if (all || line.place !== place) this.fill(line, place);
    }
    for (const line of this.pool) if (line.place < first || line.place >= last) this.hide(line);
    this.mark();
  }

  grow(needed) {
    while (this.pool.length < needed) {
      const cells = this.columns.map(({ right, className }) => h("div", { role: "gridcell", class: `${right ? "right num" : ""} ${className ?? ""}` }));
      const element = h("div", { class: "list-row", role: "row", hidden: true }, cells);
      this.body.append(element);
      this.pool.push({ element, cells, place: -1 });
    }
    return true;
  }

  fill(line, place) {
    line.place = place;
    const row = this.rows[place];
    line.element.hidden = false;
    line.element.id = `row-${place}`;
    line.element.setAttribute("aria-rowindex", place + 2);
    line.element.style.setProperty("transform", `translateY(${place * ROW}px)`);
    for (let i = 0; i < this.columns.length; i++) this.columns[i].cell(row, line.cells[i]);
    this.decorate?.(row, line.element);
  }

  hide(line) {
    line.place = -1;
    line.element.hidden = true;
    line.element.removeAttribute("id");
  }

  mark() {
    for (const line of this.pool) line.element.setAttribute("aria-selected", line.place === this.cursor && line.place >= 0);
    if (this.pool[this.cursor % this.pool.length]?.place === this.cursor) this.element.setAttribute("aria-activedescendant", `row-${this.cursor}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  // Move the cursor and keep it in sight.
  move(by) {
    if (!this.rows.length) return;
    this.cursor = Math.max(0, Math.min(this.rows.length - 1, this.cursor + by));
    const top = this.cursor * ROW;
    const room = this.element.clientHeight - this.head.offsetHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + ROW > this.element.scrollTop + room) this.element.scrollTop = top + ROW - room;
    this.draw();
  }

  page() {
    return Math.max(1, Math.floor((this.element.clientHeight - this.head.offsetHeight) / ROW) - 1);
  }

  click(event, isDouble = false) {
    const line = this.pool.find(({ element }) => element.contains(event.target));
    if (!line || line.place < 0) return;
    this.cursor = line.place;
    this.mark();
    if (event.target.closest("a") === null && !isDouble && !event.target.closest("[data-opens]")) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    this.open();
  }

  open() {
    if (this.rows.length) this.onOpen(this.rows[this.cursor]);
  }

  get current() {
    return this.rows.length ? this.rows[this.cursor] : null;
  }

  // Keys of a list, for the view that shows it.
  keys(noun) {
    return [
      { keys: ["j", "ArrowDown"], what: `next ${noun}`, act: () => this.move(1) },
      { keys: ["k", "ArrowUp"], what: `${noun} before`, act: () => this.move(-1) },
      { keys: ["PageDown"], what: "a page down", act: () => this.move(this.page()) },
      { keys: ["PageUp"], what: "a page up", act: () => this.move(-this.page()) },
      { keys: ["Home"], what: "first", act: () => this.move(-this.rows.length) },
      { keys: ["End"], what: "last", act: () => this.move(this.rows.length) },
      { keys: ["Enter"], what: `open the ${noun}`, act: () => this.open() },
    ];
  }
}
