// A table of any length: only the rows in sight are elements. Rows are of one height.

import { h, set } from "./dom.js";

const BEYOND = 6;

/** columns: [{ name, label, cell(row) -> children, sort?(row) -> value, class? }]; options: label, empty, height, narrow. */
export class List {
  constructor(columns, options) {
    this.columns = columns;
    this.options = options;
    this.rows = [];
    this.sorted = { column: null, down: false };
    this.body = h("div", { class: "list-body", role: "rowgroup" });
    this.header = h("div", { class: "list-row list-header", role: "row", "aria-rowindex": "1" }, columns.map((column) => this.#head(column)));
    this.scroller = h("div", { class: "list-scroller", tabindex: "0", role: "presentation", "aria-label": `${options.label}, scrolls`, onscroll: () => this.#soon() }, this.body);
    this.nothing = h("p", { class: "nothing", hidden: true }, options.empty);
    this.table = h("div", { class: `list ${options.class ?? ""}`, role: "table", "aria-label": options.label }, h("div", { role: "rowgroup" }, this.header), this.scroller);
    this.element = h("div", null, this.table, this.nothing);
    this.shown = new Map();
    this.observer = new ResizeObserver(() => this.#soon());
    this.observer.observe(this.scroller);
  }

  destroy() {
    this.observer.disconnect();
  }

  #head(column) {
    const properties = { role: "columnheader", class: column.class ?? "" };
    if (!column.sort) return h("div", properties, column.label);
    const button = h("button", { type: "button", class: "sort", onclick: () => this.#sortBy(column) }, column.label, h("span", { class: "arrow", "aria-hidden": "true" }));
    return h("div", { ...properties, "aria-sort": "none" }, button);
  }

  #sortBy(column) {
    const { sorted } = this;
    if (sorted.column !== column) this.sorted = { column, down: false };
    else if (!sorted.down) this.sorted = { column, down: true };
    else this.sorted = { column: null, down: false };
    [...this.header.children].forEach((head, at) => {
      if (!this.columns[at].sort) return;
      const value = this.columns[at] !== this.sorted.column ? "none" : this.sorted.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", value);
    });
    this.show(this.given);
  }

  /** Shows these rows; each has a `key` by which it is known again. */
  show(rows) {
    this.given = rows;
    const { column, down } = this.sorted;
    this.rows = column ? [...rows].sort((a, b) => compare(column.sort(a), column.sort(b)) * (down ? -1 : 1)) : rows;
    this.table.setAttribute("aria-rowcount", String(rows.length + 1));
    this.nothing.hidden = rows.length > 0;
    this.table.hidden = rows.length === 0;
    this.#render(true);
  }

  #soon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.#render(false);
    });
  }

  #render(anew) {
    const height = matchMedia("(max-width: 720px)").matches ? this.options.narrow ?? this.options.height : this.options.height;
    this.body.style.height = `${this.rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / height) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / height) + BEYOND);
    const keep = new Map();
    for (let at = first; at < last; at += 1) {
      const row = this.rows[at];
      const known = this.shown.get(row.key);
      const element = known && (!anew || known.row === row) ? known.element : this.#row(row, known?.element);
      element.style.transform = `translateY(${at * height}px)`;
      element.style.height = `${height}px`;
      element.setAttribute("aria-rowindex", String(at + 2));
      if (!element.isConnected) this.body.append(element);
      keep.set(row.key, { row, element });
    }
    for (const [key, { element }] of this.shown) if (!keep.has(key)) element.remove();
    this.shown = keep;
    // The head stands above the rows whether or not these have a scrollbar beside them.
    this.header.style.paddingRight = `${this.scroller.offsetWidth - this.scroller.clientWidth}px`;
  }

  /** A row that is known keeps its element, so that the focus stays where it is if it is on the row. */
  #row(row, known) {
    const focus = known && known.contains(document.activeElement) ? [...known.querySelectorAll("a,button")].indexOf(document.activeElement) : -1;
    const cells = this.columns.map((column) => h("div", { role: "cell", class: column.class ?? "", dataset: { label: column.label } }, column.cell(row)));
    const element = known ?? h("div", { class: "list-row", role: "row" });
    set(element, cells);
    if (focus >= 0) element.querySelectorAll("a,button")[focus]?.focus();
    return element;
  }
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
