// The ranges of addresses and of node ports: which there are, one of them as a map, and all that is taken as a table.

import { calmly, count, h, number, set } from "./dom.js";
import { explainButton, objectLink } from "./explain.js";
import { List } from "./list.js";
import { RangeMap, fillBar, legend } from "./map.js";
import { PROBLEMS, addressHolders, addressSpace, portHolders, portSpace } from "./model.js";

const byPriority = (a, b) => (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || (a.name < b.name ? -1 : 1);

/** What each of the two views is about. */
const SUBJECTS = {
  addresses: {
    title: "Addresses", kind: "ipaddresses", noun: "address", nouns: "addresses", find: "Find an address",
    kinds: ["services", "ipaddresses", "servicecidrs", "servicepools"],
    none: "There is no ServiceCIDR.",
    holders: (store) => store.derive("addressHolders", ["services", "ipaddresses"], (rows) => addressHolders(rows, store.has("ipaddresses"))),
    spaces: (store, holders, pools) => [...store.rows.servicecidrs.values()].flatMap((cidr) => cidr.ranges.map((range) => addressSpace(cidr.name, range, cidr, holders, pools))),
  },
  ports: {
    title: "Node ports", kind: "nodeports", noun: "port", nouns: "ports", find: "Find a port",
    kinds: ["services", "nodeports", "nodeportranges", "servicepools"],
    none: "There is no range of node ports.",
    holders: (store) => store.derive("portHolders", ["services", "nodeports"], (rows) => portHolders(rows, store.has("nodeports"))),
    spaces: (store, holders, pools) => {
      const ranges = [...store.rows.nodeportranges.values()].sort((a, b) => a.first - b.first);
      return (ranges.length > 0 ? ranges : [{ ...store.about.nodePorts, role: "Dynamic" }]).map((range) => portSpace(range, holders, pools));
    },
  },
};

/** The spaces of a subject, as they are now. */
function spacesOf(store, subject) {
  const pools = [...store.rows.servicepools.values()].sort(byPriority);
  return subject.spaces(store, subject.holders(store), pools);
}

/** In which space of a subject a value is, and where in it; null if in none. */
export function locate(store, name, text) {
  for (const space of spacesOf(store, SUBJECTS[name])) {
    const at = space.find(text);
    if (at !== null) return { space, at };
  }
  return null;
}

/** The view of a subject. `route` says which range and which part of it; `go` asks for another. */
export class RangesView {
  constructor(store, subject, go) {
    this.store = store;
    this.subject = SUBJECTS[subject];
    this.name = subject;
    this.go = go;
    this.map = new RangeMap((from, length) => this.#go({ range: this.space.id, from, length }));
    this.cards = h("ul", { class: "cards", "aria-label": "Ranges" });
    this.legend = h("div");
    this.summary = h("p", { class: "muted" });
    this.list = new List(this.#columns(), { label: `${this.subject.title} that are taken`, empty: "Nothing is taken.", height: 40, narrow: 78, class: "holders-list" });
    this.title = h("h2", null, "Map");
    this.tools = this.#tools();
    this.mapPart = h("section", { class: "card", "aria-label": "Map" }, h("div", { class: "head" }, this.title, this.tools), this.map.element, this.legend);
    this.tablePart = h("section", { class: "card", "aria-label": "Table" }, h("div", { class: "head" }, h("h2", null, "All that is taken"), this.#filter()), this.list.element);
    this.element = h("div", null, h("h1", { tabindex: "-1" }, this.subject.title), this.summary, this.cards, this.mapPart, this.tablePart);
    this.update = calmly(200, () => this.#render());
    this.words = "";
  }

  destroy() {
    this.map.destroy();
    this.list.destroy();
  }

  concerns(kinds) {
    return this.subject.kinds.some((kind) => kinds.has(kind));
  }

  /** Shows what a route says. */
  show(route) {
    this.route = route;
    this.#render();
  }

  #tools() {
    const input = h("input", { type: "search", id: `find-${this.name}`, autocomplete: "off", spellcheck: "false", placeholder: this.name === "ports" ? "30080" : "10.96.0.1" });
    const found = h("span", { class: "problem", role: "status" });
    const find = (event) => {
      event.preventDefault();
      const text = input.value.trim();
      const place = locate(this.store, this.name, text);
      found.textContent = place || !text ? "" : `${text} is in none of the ranges`;
      if (place) this.#go({ range: place.space.id, at: place.at });
    };
    return h("form", { class: "find", onsubmit: find }, h("label", { for: input.id }, this.subject.find), input, h("button", { type: "submit" }, "Find"), found);
  }

  #filter() {
    const input = h("input", { type: "search", id: `filter-${this.name}`, autocomplete: "off", spellcheck: "false", oninput: () => {
      this.words = input.value.toLowerCase();
      this.update();
    } });
    this.wrongOnly = h("input", { type: "checkbox", id: `wrong-${this.name}`, onchange: () => this.update() });
    return h("div", { class: "find" }, h("label", { for: input.id }, "Filter"), input, this.wrongOnly, h("label", { for: this.wrongOnly.id }, "only what is wrong"));
  }

  #columns() {
    const owners = (holder) => (holder.owners.length > 0 ? holder.owners : [holder.record]);
    return [
      { label: this.name === "ports" ? "Port" : "Address", class: "mono", sort: (row) => row.at, cell: ({ value, offset, space }) => [space
        ? h("button", { type: "button", class: "link", "aria-label": `Show ${value} on the map`, onclick: () => this.#go({ range: space.id, at: offset }, true) }, String(value)) : String(value)] },
      { label: "Held by", sort: (row) => owners(row).map((owner) => `${owner.ns}/${owner.name}`)[0], cell: (row) => owners(row).map((owner) => [objectLink(owner.of ? null : "services", owner.ns, owner.name), " "]) },
      { label: "Range", cell: ({ space, detail }) => [space?.title ?? "none", detail ? h("span", { class: "muted" }, ` ${detail}`) : ""] },
      { label: "State", sort: (row) => row.problem ?? "", cell: (row) => (row.problem ? h("span", { class: "problem" }, PROBLEMS[row.problem]) : h("span", { class: "muted" }, "in order")) },
      { label: "Why", class: "narrow", cell: ({ value }) => explainButton(this.subject.kind, "", String(value)) },
    ];
  }

  #go(part, scroll) {
    if (scroll) this.mapPart.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    const query = new URLSearchParams({ range: part.range });
    if (part.at !== undefined) query.set("at", String(part.at));
    if (part.from !== undefined && part.length !== this.space.size) query.set("part", `${part.from},${part.length}`);
    this.go(`#/${this.name}?${query}`);
  }

  #render() {
    const holders = this.subject.holders(this.store);
    this.spaces = spacesOf(this.store, this.subject);
    const wanted = this.route.get("range");
    this.space = this.spaces.find((space) => space.id === wanted) ?? this.spaces[0];
    this.#sum(holders);
    this.#drawCards();
    this.mapPart.hidden = !this.space;
    if (this.space) this.#drawMap();
    this.#drawTable(holders);
  }

  #sum(holders) {
    const wrong = holders.filter((holder) => holder.problem).length;
    const reading = this.store.reading ? "Still reading. " : "";
    set(this.summary, reading, `${count(holders.length, this.subject.noun, this.subject.nouns)} taken in ${count(this.spaces.length, "range")}`,
      wrong > 0 ? h("span", { class: "problem" }, `; something is wrong with ${number(wrong)}`) : "; all in order", ".");
  }

  #drawCards() {
    if (this.spaces.length === 0) {
      set(this.cards, h("li", { class: "nothing" }, this.store.reading ? "Reading…" : this.subject.none));
      return;
    }
    const focused = [...this.cards.querySelectorAll("a,button")].indexOf(document.activeElement);
    set(this.cards, this.spaces.map((space) => h("li", { class: space === this.space ? "card chosen" : "card" },
      h("div", { class: "head" },
        h("a", { href: `#/${this.name}?${new URLSearchParams({ range: space.id })}`, class: "mono range", "aria-current": space === this.space ? "true" : null }, space.title),
        space.kind && explainButton(space.kind, "", space.object)),
      h("p", { class: "tags" }, h("span", { class: `tag ${space.state.word === "ready" ? "good" : "bad"}` }, space.state.word),
        space.role && space.role !== "Dynamic" && h("span", { class: "tag" }, space.role), h("span", { class: "muted" }, space.object ?? "of the command line")),
      space.state.why && h("p", { class: "problem" }, space.state.why),
      fillBar(space))));
    if (focused >= 0) this.cards.querySelectorAll("a,button")[focused]?.focus();
  }

  #drawMap() {
    const { space } = this;
    set(this.title, "Map of ", h("span", { class: "mono" }, space.title));
    const at = this.route.get("at");
    if (at !== null && /^\d+$/.test(at)) this.#drawAround(BigInt(at));
    else {
      const part = /^(\d+),(\d+)$/.exec(this.route.get("part") ?? "");
      const [from, length] = part ? [BigInt(part[1]), BigInt(part[2])] : [0n, space.size];
      const inside = length > 0n && from + length <= space.size;
      this.map.show(space, inside ? from : 0n, inside ? length : space.size);
    }
    set(this.legend, legend(space));
  }

  /** Shows the smallest part with a value, and chooses it; later changes leave the choice alone. */
  #drawAround(at) {
    const { space } = this;
    let [from, length] = [0n, space.size];
    while (length > space.limit) {
      let bits = 0n;
      while ((length + (1n << bits) - 1n) >> bits > space.limit) bits += 1n;
      const end = from + length;
      from += ((at - from) >> bits) << bits;
      length = end - from < 1n << bits ? end - from : 1n << bits;
    }
    const told = `${space.id} ${at}`;
    this.map.show(space, from, length, this.told === told ? undefined : at);
    this.told = told;
  }

  #drawTable(holders) {
    const words = this.words.split(/\s+/).filter(Boolean);
    const rows = [];
    for (const holder of holders) {
      if (this.wrongOnly.checked && !holder.problem) continue;
      const owners = holder.owners.length > 0 ? holder.owners : [holder.record];
      const text = `${holder.value} ${owners.map((owner) => `${owner.ns}/${owner.name}`).join(" ")} ${holder.detail}`.toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
      const space = this.spaces.find((one) => (holder.family === undefined || one.title.includes(":") === (holder.family === 6)) && holder.at >= one.base && holder.at < one.base + one.size);
      rows.push({ ...holder, key: String(holder.value), space, offset: space ? holder.at - space.base : null });
    }
    this.list.show(rows);
  }
}
