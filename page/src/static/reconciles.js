// What the controllers did, newest first, with search; a line opens to all of its fields.

import { calmly, count, h, number, set } from "./dom.js";
import { explainButton, objectLink, tree } from "./explain.js";
import { List } from "./list.js";

/** Fields that have a column of their own. */
const COLUMNS = new Set(["controller", "namespace", "service", "object", "trigger", "decision", "writes", "message"]);

/** The object of a line, as far as its fields say which. */
function objectOf(fields) {
  if (fields.namespace && fields.service) return { kind: "services", ns: fields.namespace, name: fields.service };
  const named = /^(?:service )?([a-z0-9-]+)\/([a-z0-9-]+)$/.exec(fields.object ?? fields.key ?? "");
  if (named) return { kind: "services", ns: named[1], name: named[2] };
  if (fields.servicecidr) return { kind: "servicecidrs", ns: "", name: fields.servicecidr };
  return fields.object ? { kind: null, ns: "", name: fields.object } : null;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

/** The view of all lines. */
export class ReconcilesView {
  constructor(store, _, go) {
    this.store = store;
    this.go = go;
    this.paused = null;
    this.words = h("input", { type: "search", id: "filter-lines", autocomplete: "off", spellcheck: "false", placeholder: "object, controller, trigger, decision", oninput: () => this.#filtered() });
    this.controller = h("select", { id: "controller-lines", onchange: () => this.#render() });
    this.pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#pause() }, "Pause");
    this.summary = h("p", { class: "muted" });
    this.details = h("section", { class: "card", hidden: true, "aria-label": "Chosen line" });
    this.list = new List(this.#columns(), { label: "Reconciles, newest first", empty: "The controllers have written nothing that is like this.", height: 40, narrow: 104, class: "lines-list" });
    this.element = h("div", null, h("h1", { tabindex: "-1" }, "Reconciles"), this.summary,
      h("section", { class: "card", "aria-label": "Lines" },
        h("div", { class: "find wide" }, h("label", { for: this.words.id }, "Search"), this.words, h("label", { for: this.controller.id }, "Controller"), this.controller, this.pause),
        this.list.element),
      this.details);
    this.update = calmly(200, () => this.#render());
  }

  destroy() {
    this.list.destroy();
  }

  concerns() {
    return false;
  }

  show(route) {
    this.words.value = route.get("search") ?? "";
    this.#render();
  }

  #filtered() {
    this.go(this.words.value ? `#/reconciles?${new URLSearchParams({ search: this.words.value })}` : "#/reconciles", true);
    this.update();
  }

  #pause() {
    this.paused = this.paused ? null : [...this.store.lines];
    this.pause.setAttribute("aria-pressed", String(this.paused !== null));
    this.#render();
  }

  #columns() {
    return [
      { label: "Time", class: "mono", cell: ({ line }) => h("button", { type: "button", class: "link", "aria-label": `Details of the line of ${clock.format(line.at)}`, onclick: () => this.#open(line) }, clock.format(line.at)) },
      { label: "Object", class: "wide", cell: ({ object }) => (object ? objectLink(object.kind, object.ns, object.name) : "") },
      { label: "What", class: "wide", cell: ({ line }) => [line.level === "INFO" ? "" : h("span", { class: "problem" }, `${line.level} `), line.fields.decision ?? line.fields.message ?? ""] },
      { label: "Trigger", cell: ({ line }) => line.fields.trigger ?? "" },
      { label: "Controller", cell: ({ line }) => h("span", { class: "muted" }, (line.fields.controller ?? "").replace(/-controller$/, "")) },
      { label: "Why", class: "narrow", cell: ({ object }) => (object?.kind ? explainButton(object.kind, object.ns, object.name) : "") },
    ];
  }

  #open(line) {
    const rest = Object.fromEntries(Object.entries(line.fields).filter(([name]) => !COLUMNS.has(name)));
    const main = Object.fromEntries(Object.entries(line.fields).filter(([name]) => COLUMNS.has(name)));
    this.details.hidden = false;
    set(this.details, h("div", { class: "head" }, h("h2", { tabindex: "-1" }, `Line ${number(line.n)}`), h("button", { type: "button", onclick: () => { this.details.hidden = true; } }, "Close")),
      tree({ time: new Date(line.at).toISOString(), level: line.level, ...main, ...rest }));
    this.details.querySelector("h2").focus();
  }

  #render() {
    const lines = this.paused ?? this.store.lines;
    const controllers = [...new Set(lines.map((line) => line.fields.controller).filter(Boolean))].sort();
    const known = [...this.controller.options].slice(1).map((option) => option.value);
    if (known.join() !== controllers.join()) {
      const chosen = this.controller.value;
      set(this.controller, h("option", { value: "" }, "all"), controllers.map((name) => h("option", { value: name }, name)));
      this.controller.value = controllers.includes(chosen) ? chosen : "";
    }
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [];
    for (let at = lines.length - 1; at >= 0; at -= 1) {
      const line = lines[at];
      if (this.controller.value && line.fields.controller !== this.controller.value) continue;
      line.text ??= Object.values(line.fields).join(" ").toLowerCase() + ` ${line.fields.namespace ?? ""}/${line.fields.service ?? ""}`;
      if (words.every((word) => line.text.includes(word))) rows.push(line.row ??= { key: line.n, line, object: objectOf(line.fields) });
    }
    set(this.summary, this.paused ? "Paused. " : "", rows.length === lines.length ? count(lines.length, "line") : `${number(rows.length)} shown of ${count(lines.length, "line")}`, ".");
    this.list.show(rows);
  }
}
