// A grid of cells on a canvas, of which one is chosen: by pointer, by touch, by keys. It draws and says; it knows no objects.

import { h, onTheme, theme } from "./dom.js";

const GAP = 1;

/**
 * options: label, hint (how it is operated); cells() -> number; columns(width) -> number; size(width, columns) -> pixels;
 * paint(context, cell, x, y, side, colours); gutter(row) -> text; describe(cell) -> text; chosen(cell); opened(cell); back().
 */
export class Cells {
  constructor(options) {
    this.options = options;
    this.cursor = 0;
    this.hover = -1;
    this.touched = false;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.live = h("div", { class: "visually-hidden", "aria-live": "polite" });
    this.element = h("div", {
      class: "cells", role: "application", tabindex: "0", "aria-roledescription": "map", "aria-label": options.label, "aria-description": options.hint,
      onkeydown: (event) => this.#key(event), onpointermove: (event) => this.#point(event), onpointerleave: () => this.#leave(),
      onclick: (event) => this.#click(event), onfocus: () => this.draw(), onblur: () => this.draw(),
    }, this.canvas, this.tip, this.live);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
    this.offTheme = onTheme(() => this.draw());
  }

  destroy() {
    this.observer.disconnect();
    this.offTheme();
  }

  /** Chooses a cell; with `speak` it is read out. */
  choose(cell, speak = false) {
    this.cursor = Math.max(0, Math.min(this.options.cells() - 1, cell));
    if (speak) this.live.textContent = this.options.describe(this.cursor);
    this.options.chosen(this.cursor);
    this.draw();
  }

  #layout() {
    const width = Math.floor(this.element.clientWidth);
    const gutter = this.options.gutter && width >= 640 ? this.options.gutterWidth ?? 104 : 0;
    const columns = this.options.columns(width - gutter);
    const side = this.options.size(width - gutter, columns);
    return { width, gutter, columns, side, rows: Math.ceil(this.options.cells() / columns) };
  }

  /** Draws all cells anew. */
  draw() {
    const layout = this.#layout();
    this.layout = layout;
    if (layout.width <= 0 || layout.side <= 0) return;
    const height = Math.max(layout.side, layout.rows * layout.side);
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(layout.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${layout.width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, layout.width, height);
    const colours = theme();
    const cells = this.options.cells();
    for (let cell = 0; cell < cells; cell += 1) {
      const [x, y] = this.#place(cell);
      this.options.paint(context, cell, x, y, layout.side - GAP, colours);
    }
    this.#drawGutter(context, layout, colours);
    if (cells > 0) this.#drawMarks(context, layout, colours);
  }

  #place(cell) {
    const { gutter, columns, side } = this.layout;
    return [gutter + (cell % columns) * side, Math.floor(cell / columns) * side];
  }

  #drawGutter(context, { gutter, rows, side }, colours) {
    if (!gutter) return;
    context.fillStyle = colours.colour("muted");
    context.font = `11px ${colours.font}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const step = Math.max(1, Math.ceil(18 / side));
    for (let row = 0; row < rows; row += step) context.fillText(this.options.gutter(row * this.layout.columns), gutter - 10, row * side + side / 2, gutter - 12);
  }

  #drawMarks(context, { side }, colours) {
    const frame = (cell, colour, width) => {
      const [x, y] = this.#place(cell);
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(x - 0.5, y - 0.5, side, side);
    };
    if (this.hover >= 0 && this.hover !== this.cursor) frame(this.hover, colours.colour("ink"), 1.5);
    const focused = document.activeElement === this.element;
    frame(this.cursor, focused ? colours.colour("focus") : colours.colour("ink"), focused ? 3 : 2);
  }

  #cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const { gutter, columns, side } = this.layout;
    const [column, row] = [Math.floor((event.clientX - box.left - gutter) / side), Math.floor((event.clientY - box.top) / side)];
    if (column < 0 || column >= columns || row < 0) return -1;
    const cell = row * columns + column;
    return cell < this.options.cells() ? cell : -1;
  }

  #point(event) {
    const cell = this.#cellAt(event);
    if (cell !== this.hover) {
      this.hover = cell;
      this.draw();
      this.element.classList.toggle("pointing", cell >= 0);
      this.tip.hidden = cell < 0;
      if (cell >= 0) this.tip.textContent = this.options.describe(cell);
    }
    if (cell < 0) return;
    const box = this.element.getBoundingClientRect();
    const left = Math.min(event.clientX - box.left + 14, box.width - this.tip.offsetWidth - 4);
    this.tip.style.transform = `translate(${Math.max(0, left)}px, ${event.clientY - box.top + 18}px)`;
  }

  #leave() {
    this.hover = -1;
    this.tip.hidden = true;
    this.draw();
  }

  #click(event) {
    const cell = this.#cellAt(event);
    if (cell < 0) return;
    this.touched = true;
    const again = cell === this.cursor && event.detail >= 2;
    this.choose(cell);
    if (again) this.options.opened(cell);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { columns } = this.layout;
    const page = columns * 8;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -page, PageDown: page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const to = this.cursor + steps[event.key];
      if (Number.isFinite(to) && (to < 0 || to >= this.options.cells())) {
        event.preventDefault();
        return;
      }
      this.choose(Number.isFinite(to) ? to : to < 0 ? 0 : this.options.cells() - 1, true);
    } else if (event.key === "Enter" || event.key === " ") this.options.opened(this.cursor);
    else if (event.key === "Escape" || event.key === "Backspace") this.options.back?.();
    else if (event.key === "n" || event.key === "p") {
      const next = this.options.next?.(this.cursor, event.key === "n" ? 1 : -1) ?? -1;
      if (next >= 0) this.choose(next, true);
    } else return;
    this.touched = true;
    event.preventDefault();
  }
}
