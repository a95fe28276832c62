// The list of Services: search, sort, what is wrong; and the counts of their endpoints.

import { calmly, count, h, number, set } from "./dom.js";
import { explainButton, objectLink } from "./explain.js";
import { List } from "./list.js";
import { endpointCounts, portsText, searchText, serviceProblem } from "./model.js";

const TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Headless"];
export const CONDITIONS = [
  { name: "ready", label: "ready" },
  { name: "serving", label: "terminating, still serving" },
  { name: "terminating", label: "terminating" },
  { name: "unready", label: "not ready" },
];

/** A Service's type for people: a headless one is of no cluster IP. */
export function typeOf(service) {
  return (service.ips ?? [])[0] === "None" ? "Headless" : service.type;
}

/** How many endpoints are in which condition, as a bar and in words. */
export function endpointBar(endpoints) {
  const total = endpoints ? endpoints.counts.reduce((sum, n) => sum + n, 0) : 0;
  if (total === 0) return h("span", { class: "muted" }, "none");
  const parts = CONDITIONS.map(({ name }, at) => {
    const part = h("span", { class: `condition-${name}` });
    part.style.flexGrow = endpoints.counts[at];
    return part;
  }).filter((_, at) => endpoints.counts[at] > 0);
  return [h("span", { class: "stack", "aria-hidden": "true" }, parts), h("span", { class: "mono" }, `${number(endpoints.counts[0])}/${number(total)}`), h("span", { class: "visually-hidden" }, " ready")];
}

/** The view of all Services. */
export class ServicesView {
  constructor(store, _, go) {
    this.store = store;
    this.go = go;
    this.words = h("input", { type: "search", id: "filter-services", autocomplete: "off", spellcheck: "false", placeholder: "namespace, name, address, port", oninput: () => this.#filtered() });
    this.type = h("select", { id: "type-services", onchange: () => this.#filtered() }, h("option", { value: "" }, "all"), TYPES.map((type) => h("option", { value: type }, type)));
    this.wrong = h("input", { type: "checkbox", id: "wrong-services", onchange: () => this.#filtered() });
    this.summary = h("p", { class: "muted", role: "status" });
    this.list = new List(this.#columns(), { label: "Services", empty: "No Service is like this.", height: 44, narrow: 104, class: "services-list" });
    this.element = h("div", null, h("h1", { tabindex: "-1" }, "Services"), this.summary,
      h("section", { class: "card", "aria-label": "All Services" },
        h("div", { class: "find wide" }, h("label", { for: this.words.id }, "Search"), this.words, h("label", { for: this.type.id }, "Type"), this.type, this.wrong, h("label", { for: this.wrong.id }, "only what needs a look")),
        this.list.element));
    this.update = calmly(200, () => this.#render());
  }

  destroy() {
    this.list.destroy();
  }

  concerns(kinds) {
    return kinds.has("services") || kinds.has("endpointslices");
  }

  show(route) {
    this.words.value = route.get("search") ?? "";
    this.type.value = route.get("type") ?? "";
    this.wrong.checked = route.get("look") === "1";
    this.#render();
  }

  /** The filter is part of the address, so that it can be kept and sent on. */
  #filtered() {
    const query = new URLSearchParams();
    if (this.words.value) query.set("search", this.words.value);
    if (this.type.value) query.set("type", this.type.value);
    if (this.wrong.checked) query.set("look", "1");
    this.go(`#/services${query.size ? `?${query}` : ""}`, true);
    this.update();
  }

  #columns() {
    const ready = (row) => row.endpoints?.counts[0] ?? 0;
    return [
      { label: "Service", sort: (row) => row.key, class: "wide", cell: ({ service }) => objectLink("services", service.ns, service.name) },
      { label: "Type", sort: (row) => typeOf(row.service), cell: ({ service }) => typeOf(service) },
      { label: "Cluster IPs", class: "mono", sort: (row) => row.service.ips?.[0] ?? "", cell: ({ service }) => addressLinks(service) },
      { label: "Ports", class: "mono", cell: ({ service }) => portsText(service) || service.externalName || "" },
      { label: "Endpoints", sort: ready, cell: ({ endpoints, problem }) => [endpointBar(endpoints), problem && h("span", { class: "problem" }, ` ${problem}`)] },
      { label: "Why", class: "narrow", cell: ({ service }) => explainButton("services", service.ns, service.name) },
    ];
  }

  #render() {
    const endpoints = this.store.derive("endpoints", ["endpointslices"], (rows) => endpointCounts(rows.endpointslices));
    const texts = this.store.derive("searchTexts", ["services"], (rows) => new Map([...rows.services].map(([key, service]) => [key, searchText(service)])));
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [];
    let wrong = 0;
    for (const [key, service] of this.store.rows.services) {
      const of = endpoints.get(key);
      const problem = serviceProblem(service, of);
      if (problem) wrong += 1;
      if (this.wrong.checked && !problem) continue;
      if (this.type.value && typeOf(service) !== this.type.value) continue;
      if (words.every((word) => texts.get(key).includes(word))) rows.push({ key, service, endpoints: of, problem });
    }
    rows.sort((a, b) => (a.key < b.key ? -1 : 1));
    const all = this.store.rows.services.size;
    const shown = rows.length === all ? "" : `${number(rows.length)} shown of `;
    set(this.summary, this.store.reading ? "Still reading. " : "", `${shown}${count(all, "Service")}`, wrong > 0 ? h("span", { class: "problem" }, `; ${number(wrong)} need a look`) : "", ".");
    this.list.show(rows);
  }
}

/** A Service's addresses, each a link to its place on the map. */
export function addressLinks(service) {
  return (service.ips ?? []).filter((ip) => ip !== "None").map((ip, at) => [at > 0 ? ", " : "", h("a", { href: `#/find/address/${encodeURIComponent(ip)}` }, ip)]);
}
