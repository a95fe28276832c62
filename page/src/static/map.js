// A range as a map: cells for blocks of values or for single ones, with bands, pools, density and owners.

import { Cells } from "./cells.js";
import { age, category, count, h, number, set } from "./dom.js";
import { explainButton, objectLink } from "./explain.js";
import { PROBLEMS, bins, density, keptBetween, lowerBound, usage, window_ } from "./model.js";

const OWNERS_SHOWN = 24;

/** What a map and its panel need: the element, `show(space, from, bits)`, and `moved(from, length)` when another part is wanted. */
export class RangeMap {
  constructor(moved) {
    this.moved = moved;
    this.space = null;
    this.cells = new Cells({
      label: "Map", hint: "Arrow keys choose a cell, Enter opens it, Escape goes back up, n and p go to the next and previous taken cell.",
      cells: () => this.view?.cells ?? 0,
      columns: (width) => this.#columns(width),
      size: (width, columns) => Math.max(5, Math.min(width / columns, 34)),
      paint: (...all) => this.#paint(...all),
      gutter: (cell) => this.space.nameOf(this.#offset(cell)),
      describe: (cell) => this.#describe(cell),
      chosen: (cell) => this.#chosen(cell),
      opened: (cell) => this.#open(cell),
      back: () => this.#up(),
      next: (cell, step) => this.#next(cell, step),
    });
    this.path = h("nav", { class: "path", "aria-label": "Part of the range" });
    this.panel = h("section", { class: "panel", "aria-label": "Chosen cell" });
    this.element = h("div", { class: "map" }, h("div", { class: "map-main" }, this.path, this.cells.element), this.panel);
  }

  destroy() {
    this.cells.destroy();
  }

  /** Shows a part of a space; `chosen` is an offset. */
  show(space, from, length, chosen) {
    const same = this.space?.id === space.id && this.view?.from === from && this.view?.length === length;
    this.space = space;
    this.view = window_(space, from, length);
    this.bins = bins(space, this.view);
    this.cells.element.setAttribute("aria-label", `Map of ${space.title}: ${this.view.cells} cells of ${count(1n << this.view.bits, space.unit, space.units)}`);
    this.#drawPath();
    if (chosen !== undefined) {
      this.cells.touched = true;
      this.cells.choose(Number((chosen - from) >> this.view.bits));
    }
    else if (same && this.cells.touched) this.cells.choose(this.cells.cursor);
    else {
      this.cells.touched = false;
      this.cells.choose(Math.max(0, this.#next(-1, 1)));
    }
  }

  #columns(width) {
    const cells = this.view?.cells ?? 1;
    if (cells <= 64) return 16;
    if (cells <= 512 || width < 560) return 32;
    return 64;
  }

  #offset(cell) {
    return this.view.from + (BigInt(cell) << this.view.bits);
  }

  #end(cell) {
    const end = this.#offset(cell + 1);
    const limit = this.view.from + this.view.length;
    return end < limit ? end : limit;
  }

  #drawPath() {
    const steps = [];
    let part = window_(this.space);
    steps.push({ text: this.space.title, from: 0n, length: this.space.size });
    while (part.from !== this.view.from || part.length !== this.view.length) {
      const cell = (this.view.from - part.from) >> part.bits;
      const from = part.from + (cell << part.bits);
      const rest = part.from + part.length - from;
      const length = rest < 1n << part.bits ? rest : 1n << part.bits;
      steps.push({ text: `${this.space.nameOf(from)} and ${number(length - 1n)} more`, from, length });
      if (length === part.length) break;
      part = window_(this.space, from, length);
    }
    const last = steps.length - 1;
    set(this.path, h("ol", null, steps.map((step, at) => h("li", null, at === last
      ? h("span", { "aria-current": "true" }, step.text)
      : h("button", { type: "button", class: "link", onclick: () => this.moved(step.from, step.length) }, step.text)))));
  }

  #paint(context, cell, x, y, side, colours) {
    const [from, to] = [this.#offset(cell), this.#end(cell)];
    const taken = this.bins.counts[cell];
    const single = this.view.bits === 0n;
    const level = density(taken, this.view.bits);
    context.fillStyle = colours.density[level];
    if (single && taken === 0 && !this.space.isUsable(from)) context.fillStyle = colours.colour("never");
    context.fillRect(x, y, side, side);
    const { band, parts } = this.space;
    if (from < band.to && to > band.from) this.#hatch(context, x, y, side, colours.colour("band"));
    parts.forEach((part) => {
      if (from >= part.to || to <= part.from) return;
      context.fillStyle = colours.colour(category(part.n).colour);
      context.fillRect(x, y + side - Math.max(2, side / 6), side, Math.max(2, side / 6));
    });
    const kept = keptBetween(this.space, from, to);
    if (kept.length > 0) this.#ring(context, x, y, side, colours.colour(category(kept[0].n).colour));
    if (this.bins.bad[cell] > 0) {
      context.fillStyle = colours.colour("problem");
      context.beginPath();
      context.moveTo(x + side, y);
      context.lineTo(x + side, y + Math.max(6, side / 2));
      context.lineTo(x + side - Math.max(6, side / 2), y);
      context.fill();
    }
    if (single && side >= 27) this.#name(context, from, x, y, side, level, colours);
  }

  /** Marks a value, or a block with one, that is kept for a Service. */
  #ring(context, x, y, side, colour) {
    const width = Math.max(1, side / 10);
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(side >= 12 ? [side / 5, side / 8] : []);
    context.strokeRect(x + width / 2, y + width / 2, side - width, side - width);
    context.setLineDash([]);
  }

  #hatch(context, x, y, side, colour) {
    context.save();
    context.beginPath();
    context.rect(x, y, side, side);
    context.clip();
    context.strokeStyle = colour;
    context.globalAlpha = side >= 27 ? 0.45 : 0.8;
    context.lineWidth = 1;
    context.beginPath();
    for (let d = -side; d < side; d += Math.max(5, side / 4)) {
      context.moveTo(x + d, y + side);
      context.lineTo(x + d + side, y);
    }
    context.stroke();
    context.restore();
  }

  #name(context, offset, x, y, side, level, colours) {
    context.fillStyle = level >= 3 ? colours.colour("on-density") : colours.colour("muted");
    context.font = `${level >= 3 ? 600 : 400} 10px ${colours.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(this.space.shortName(offset), x + side / 2, y + side / 2, side - 2);
  }

  #describe(cell) {
    const [from, to] = [this.#offset(cell), this.#end(cell)];
    const where = this.#notes(from, to).join(", ");
    const taken = this.bins.counts[cell];
    if (to - from === 1n) {
      const holder = taken ? this.space.holders[this.bins.start[cell]] : null;
      const what = holder ? ownersText(holder) : this.space.isUsable(from) ? "free" : "never given away";
      return `${this.space.nameOf(from)}: ${what}${where ? ` (${where})` : ""}`;
    }
    const some = taken ? `, first ${ownersText(this.space.holders[this.bins.start[cell]])}` : "";
    return `${this.space.nameOf(from)} to ${this.space.nameOf(to - 1n)}: ${number(taken)} of ${number(to - from)} taken${some}${where ? ` (${where})` : ""}`;
  }

  #notes(from, to) {
    const { band, parts } = this.space;
    const notes = [];
    if (from < band.to && to > band.from) notes.push("lower band");
    for (const part of parts) if (from < part.to && to > part.from && !notes.includes(`pool ${part.name}`)) notes.push(`pool ${part.name}`);
    const kept = keptBetween(this.space, from, to);
    if (to - from === 1n) for (const one of kept) notes.push(`kept for ${one.ns}/${one.name}`);
    else if (kept.length > 0) notes.push(`${number(kept.length)} kept for single Services`);
    return notes;
  }

  #next(cell, step) {
    for (let at = cell + step; at >= 0 && at < this.view.cells; at += step) if (this.bins.counts[at] > 0) return at;
    return -1;
  }

  #open(cell) {
    const [from, to] = [this.#offset(cell), this.#end(cell)];
    if (to - from > 1n) {
      this.moved(from, to - from);
      return;
    }
    this.panel.querySelector("a,button")?.focus();
  }

  #up() {
    const buttons = this.path.querySelectorAll("button");
    buttons[buttons.length - 1]?.click();
  }

  #chosen(cell) {
    const [from, to] = [this.#offset(cell), this.#end(cell)];
    const { space } = this;
    const start = lowerBound(space.holders, space.base + from);
    const holders = space.holders.slice(start, start + Math.min(this.bins.counts[cell], OWNERS_SHOWN));
    const single = to - from === 1n;
    const title = single ? space.nameOf(from) : `${space.nameOf(from)} – ${space.nameOf(to - 1n)}`;
    const notes = this.#notes(from, to);
    const more = this.bins.counts[cell] - holders.length;
    set(this.panel,
      h("h3", null, title),
      notes.length > 0 && h("p", { class: "tags" }, notes.map((note) => h("span", { class: "tag" }, note))),
      !single && h("p", null, `${number(this.bins.counts[cell])} of ${number(to - from)} taken`),
      !single && h("button", { type: "button", onclick: () => this.#open(cell) }, "Open this block"),
      single && holders.length === 0 && h("p", { class: "muted" }, space.isUsable(from) ? "Free." : "Never given away."),
      h("ul", { class: "holders" }, holders.map((holder) => holderItem(holder, space, single))),
      keptList(keptBetween(space, from, to), space),
      more > 0 && h("p", { class: "muted" }, `and ${number(more)} more`));
  }
}

/** What pools keep for single Services, with a way to them. */
function keptList(kept, space) {
  if (kept.length === 0) return null;
  const until = (one) => (one.until ? ` until ${new Date(one.until).toLocaleString()}` : "");
  const items = kept.slice(0, OWNERS_SHOWN).map((one) => h("li", null, h("div", null,
    h("span", { class: "mono" }, space.nameOf(one.at)), " for ", objectLink("services", one.ns, one.name),
    h("span", { class: "muted" }, ` by pool ${one.pool}${until(one)}`))));
  const more = kept.length - items.length;
  return [h("h4", null, "Kept"), h("ul", { class: "holders" }, items), more > 0 && h("p", { class: "muted" }, `and ${number(more)} more`)];
}

function ownersText(holder) {
  const owners = holder.owners.length > 0 ? holder.owners : [holder.record];
  const text = owners.map((owner) => `${owner.of ? `${owner.of} ` : ""}${owner.ns ? `${owner.ns}/` : ""}${owner.name}`).join(", ");
  return holder.problem ? `${text}; ${PROBLEMS[holder.problem]}` : text;
}

/** Who holds a value, with a way to them and to why. */
export function holderItem(holder, space, single) {
  const owners = holder.owners.length > 0 ? holder.owners : [holder.record];
  const kind = space.kind === "servicecidrs" ? "ipaddresses" : "nodeports";
  return h("li", null, h("div", null,
    !single && [h("span", { class: "mono" }, holder.value), " "],
    owners.map((owner) => [objectLink(owner.of ? null : "services", owner.ns, owner.name), " "]),
    holder.detail && [h("span", { class: "muted" }, holder.detail), " "],
    holder.problem && h("p", { class: "problem" }, PROBLEMS[holder.problem]),
    single && holder.created && h("p", { class: "muted" }, `taken ${age(holder.created)} ago`)),
  explainButton(kind, "", String(holder.value)));
}

/** What the colours of a map mean. */
export function legend(space) {
  const parts = [...new Map(space.parts.map((part) => [part.name, part])).values()];
  const swatch = (name, ...text) => h("li", null, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text);
  return h("ul", { class: "legend", "aria-label": "Colours of the map" },
    swatch("density-0", "free"), h("li", null, [1, 2, 3, 4, 5].map((n) => h("span", { class: `swatch density-${n}`, "aria-hidden": "true" })), "taken: few to all"),
    space.band.to > space.band.from && swatch("band", "lower band: chosen automatically only when the rest is full"),
    parts.map((part) => swatch(category(part.n).colour, `pool ${part.name}`)),
    space.kept.length > 0 && swatch("kept", "kept by a pool for one Service"),
    swatch("problem-corner", "something is wrong"));
}

/** A bar of how full a range is, and the numbers beside it. */
export function fillBar(space) {
  const use = usage(space);
  const share = (part, whole) => (whole === 0n ? 0 : Number((BigInt(part) * 10000n) / whole) / 100);
  const percent = share(use.taken, space.usable);
  const bar = h("div", { class: "bar", "aria-hidden": "true" }, h("div", { class: "bar-fill" }));
  bar.firstChild.style.width = `max(${percent}%, ${use.taken > 0 ? 3 : 0}px)`;
  bar.classList.toggle("full", percent >= 90);
  const band = use.band > 0n ? `; lower band ${number(use.lower)} of ${number(use.band)}` : "";
  return h("div", { class: "fill" }, bar, h("p", null, h("strong", null, number(use.taken)), ` of ${number(space.usable)} taken`, h("span", { class: "muted" }, band)));
}
