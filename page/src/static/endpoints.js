// One Service: what it is, its slices with every endpoint, and from where to where the hints send traffic.

import { Cells } from "./cells.js";
import { calmly, category, count, h, number, s, set } from "./dom.js";
import { explainButton } from "./explain.js";
import { List } from "./list.js";
import { hintFlows, portsText, serviceProblem } from "./model.js";
import { CONDITIONS, addressLinks, typeOf } from "./services.js";
import { ask } from "./store.js";

const LABELS = Object.fromEntries(CONDITIONS.map(({ name, label }) => [name, label]));

/** Zones in the order of their names, with colours and letters; endpoints without one are of "no zone". */
function zonesOf(store, endpoints) {
  const names = new Set([...store.rows.nodes.values()].map((node) => node.zone).filter(Boolean));
  for (const endpoint of endpoints) {
    if (endpoint.zone) names.add(endpoint.zone);
    (endpoint.zones ?? []).forEach((zone) => names.add(zone));
  }
  return new Map([...names].sort().map((name, n) => [name, { name, ...category(n) }]));
}

/** The view of one Service. */
export class ServiceView {
  constructor(store, _, go) {
    this.store = store;
    this.go = go;
    this.slices = [];
    this.grids = [];
    this.title = h("h1", { tabindex: "-1" });
    this.facts = h("section", { class: "card", "aria-label": "The Service" });
    this.flow = h("section", { class: "card", "aria-label": "Zones and hints" });
    this.grid = h("section", { class: "card", "aria-label": "Slices" });
    this.words = h("input", { type: "search", id: "filter-endpoints", autocomplete: "off", spellcheck: "false", placeholder: "address, pod, node, zone, condition", oninput: () => this.#table() });
    this.list = new List(this.#columns(), { label: "Endpoints", empty: "There is no such endpoint.", height: 40, narrow: 104, class: "endpoints-list" });
    const table = h("section", { class: "card", "aria-label": "Endpoints" }, h("div", { class: "head" }, h("h2", null, "Endpoints"), h("div", { class: "find" }, h("label", { for: this.words.id }, "Filter"), this.words)), this.list.element);
    this.status = h("p", { class: "muted", role: "status" });
    this.element = h("div", null, h("p", { class: "up" }, h("a", { href: "#/services" }, "All Services")), this.title, this.status, this.facts, this.flow, this.grid, table);
    this.update = calmly(1000, () => this.#read());
  }

  destroy() {
    this.list.destroy();
    this.grids.forEach((grid) => grid.destroy());
  }

  /** Whether this Service, one of its slices, or a node changed. */
  concerns(kinds) {
    if (kinds.has("nodes")) return true;
    if (!kinds.has("services") && !kinds.has("endpointslices")) return false;
    return this.#stamp() !== this.stamp;
  }

  #stamp() {
    const parts = [JSON.stringify(this.store.rows.services.get(this.key) ?? null)];
    for (const [key, slice] of this.store.rows.endpointslices) if (slice.ns === this.ns && slice.service === this.name) parts.push(`${key}@${slice.version}`);
    return parts.join();
  }

  show(_, [ns, name]) {
    [this.ns, this.name, this.key] = [ns, name, `${ns}/${name}`];
    set(this.title, h("span", { class: "muted" }, `${ns}/`), name, " ", explainButton("services", ns, name));
    this.#read();
  }

  async #read() {
    const { key } = this;
    this.stamp = this.#stamp();
    if (this.slices.length === 0) this.status.textContent = "Reading…";
    try {
      const view = await ask(`service/${encodeURIComponent(this.ns)}/${encodeURIComponent(this.name)}`);
      if (this.key !== key) return;
      this.status.textContent = view.object ? "" : "There is no such Service.";
      this.slices = view.slices;
      this.object = view.object;
      this.#render();
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  #render() {
    this.endpoints = this.slices.flatMap((slice) => slice.endpoints.map((endpoint, at) => ({ ...endpoint, slice, key: `${slice.name} ${at}` })));
    this.zones = zonesOf(this.store, this.endpoints);
    this.#drawFacts();
    this.#drawFlow();
    this.#drawSlices();
    this.#table();
  }

  #drawFacts() {
    const service = this.store.rows.services.get(this.key);
    if (!service) {
      set(this.facts, h("p", { class: "muted" }, "The Service is not there."));
      return;
    }
    const counts = CONDITIONS.map(({ name }) => this.endpoints.filter((endpoint) => endpoint.condition === name).length);
    const problem = serviceProblem(service, { counts });
    const fact = (name, value) => (value ? h("div", null, h("dt", null, name), h("dd", null, value)) : null);
    const nodes = (service.ports ?? []).filter((port) => port.node).map((port) => port.node);
    if (service.health) nodes.push(service.health);
    const selector = service.selector ? Object.entries(service.selector).map(([name, value]) => h("code", null, `${name}=${value} `)) : "none: its endpoints are not the controller's";
    set(this.facts, h("h2", { class: "visually-hidden" }, "The Service"), problem && h("p", { class: "problem" }, `This Service ${problem}.`), h("dl", { class: "facts" },
      fact("Type", typeOf(service)), fact("Cluster IPs", addressLinks(service).length ? h("span", { class: "mono" }, addressLinks(service)) : null),
      fact("Ports", portsText(service)), fact("Node ports", nodes.length ? nodes.map((port, at) => [at ? ", " : "", h("a", { class: "mono", href: `#/find/port/${port}` }, String(port))]) : null),
      fact("Selector", service.type === "ExternalName" ? null : selector), fact("External name", service.externalName), fact("Load balancer", service.ingress?.join(", ")),
      fact("External traffic", service.external && `${service.external}: a node without a ready endpoint drops it`), fact("Internal traffic", service.internal && `${service.internal}: a node without an endpoint drops it`),
      fact("Traffic distribution", service.distribution), fact("Affinity", service.affinity), fact("Publishes", service.notReadyToo && "endpoints that are not ready, too")));
  }

  #drawFlow() {
    const zones = [...this.zones.values()];
    this.flow.hidden = zones.length === 0 || this.endpoints.length === 0;
    if (this.flow.hidden) return;
    const flows = hintFlows(this.endpoints);
    const hinted = this.endpoints.filter((endpoint) => endpoint.zones?.length).length;
    const toNodes = this.endpoints.filter((endpoint) => endpoint.nodes?.length).length;
    const said = hinted === 0 ? "No endpoint has a hint for a zone: traffic of every zone goes to all ready endpoints." : `${number(hinted)} of ${count(this.endpoints.length, "endpoint")} have hints: each arrow is how many endpoints of a zone get the traffic of another.`;
    set(this.flow, h("h2", null, "Zones and hints"), h("p", { class: "muted" }, said, toNodes ? ` ${number(toNodes)} have hints for nodes.` : ""), flows.length > 0
      ? h("div", { class: "beside" }, flowPicture(zones, flows, this.endpoints), flowTable(flows, this.zones))
      : h("p", { class: "tags" }, zones.map((zone) => [zoneTag(zone), h("span", { class: "muted" }, readyIn(zone, this.endpoints))])));
  }

  #drawSlices() {
    const cursors = this.grids.map((grid) => grid.cursor);
    const focused = this.grids.findIndex((grid) => grid.element === document.activeElement);
    this.grids.forEach((grid) => grid.destroy());
    this.grids = [];
    set(this.grid, h("div", { class: "head" }, h("h2", null, count(this.slices.length, "slice")), conditionLegend(this.zones)),
      this.slices.map((slice, at) => this.#sliceCard(slice, cursors[at] ?? 0)));
    if (focused >= 0) this.grids[focused]?.element.focus();
  }

  #sliceCard(slice, cursor) {
    const said = h("p", { class: "muted said" });
    const grid = new Cells({
      label: `Endpoints of slice ${slice.name}`, hint: "Arrow keys choose an endpoint, Enter finds it in the table.",
      cells: () => slice.endpoints.length, columns: (width) => Math.max(1, Math.floor(width / 26)), size: () => 26,
      paint: (context, cell, x, y, side, colours) => paintEndpoint(context, slice.endpoints[cell], this.zones, x, y, side, colours),
      describe: (cell) => describe(slice.endpoints[cell]), chosen: (cell) => { said.textContent = slice.endpoints[cell] ? describe(slice.endpoints[cell]) : "no endpoints"; },
      opened: (cell) => { this.words.value = slice.endpoints[cell].address; this.#table(); this.words.focus(); },
    });
    this.grids.push(grid);
    grid.cursor = Math.min(cursor, Math.max(0, slice.endpoints.length - 1));
    said.textContent = slice.endpoints.length ? describe(slice.endpoints[grid.cursor]) : "This slice has no endpoints.";
    const ports = slice.ports.map((port) => `${port.name ? `${port.name} ` : ""}${port.port ?? "any"}/${port.protocol ?? "TCP"}`).join(", ");
    return h("article", { class: "slice", "aria-label": slice.name },
      h("div", { class: "head" }, h("h3", { class: "mono" }, slice.name), explainButton("endpointslices", this.ns, slice.name)),
      h("p", { class: "tags" }, h("span", { class: "tag" }, slice.family), h("span", { class: "tag" }, count(slice.endpoints.length, "endpoint")), ports && h("span", { class: "tag mono" }, ports), slice.manager && h("span", { class: "muted" }, slice.manager)),
      slice.endpoints.length > 0 && grid.element, said);
  }

  #columns() {
    const pod = (target) => /^([^/]+)\/([^/]+)$/.exec(target ?? "");
    return [
      { label: "Address", class: "mono", sort: (row) => row.address, cell: (row) => row.address },
      { label: "Condition", sort: (row) => row.condition, cell: (row) => [h("span", { class: `dot condition-${row.condition}`, "aria-hidden": "true" }), LABELS[row.condition]] },
      { label: "Pod", class: "wide", sort: (row) => row.target ?? "", cell: (row) => row.target ?? "" },
      { label: "Node", sort: (row) => row.node ?? "", cell: (row) => row.node ?? "" },
      { label: "Zone", sort: (row) => row.zone ?? "", cell: (row) => (row.zone ? zoneTag(this.zones.get(row.zone)) : h("span", { class: "muted" }, "none")) },
      { label: "Hints", cell: (row) => [(row.zones ?? []).map((zone) => zoneTag(this.zones.get(zone))), row.nodes?.length ? ` ${row.nodes.join(", ")}` : ""] },
      { label: "Why", class: "narrow", cell: (row) => (pod(row.target) ? explainButton("pods", pod(row.target)[1], pod(row.target)[2]) : "") },
    ];
  }

  #table() {
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${row.address} ${row.condition} ${LABELS[row.condition]} ${row.target ?? ""} ${row.node ?? ""} ${row.zone ?? ""}`.toLowerCase();
    this.list.show((this.endpoints ?? []).filter((row) => words.every((word) => text(row).includes(word))));
  }
}

function describe(endpoint) {
  const hints = [...(endpoint.zones ?? []), ...(endpoint.nodes ?? [])];
  return [endpoint.address, LABELS[endpoint.condition], endpoint.target, endpoint.zone && `zone ${endpoint.zone}`, hints.length && `for traffic of ${hints.join(", ")}`].filter(Boolean).join(", ");
}

/** The colour is the zone, the filling is the condition, the letter says the zone again. */
function paintEndpoint(context, endpoint, zones, x, y, side, colours) {
  const zone = zones.get(endpoint.zone);
  const colour = colours.colour(zone ? zone.colour : "category-none");
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = 2;
  context.strokeRect(x + 2, y + 2, side - 4, side - 4);
  if (endpoint.condition === "ready") context.fillRect(x + 1, y + 1, side - 2, side - 2);
  if (endpoint.condition === "serving") {
    context.beginPath();
    context.moveTo(x + 1, y + side - 1);
    context.lineTo(x + side - 1, y + 1);
    context.lineTo(x + side - 1, y + side - 1);
    context.fill();
  }
  if (endpoint.condition === "terminating") {
    context.beginPath();
    context.moveTo(x + 2, y + 2);
    context.lineTo(x + side - 2, y + side - 2);
    context.stroke();
  }
  context.fillStyle = endpoint.condition === "ready" ? colours.colour("on-category") : colours.colour("ink");
  context.font = `600 11px ${colours.font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(zone ? zone.letter : "·", x + side / 2, y + side / 2 + 0.5);
}

function zoneTag(zone) {
  return zone ? h("span", { class: "tag zone" }, h("span", { class: `swatch ${zone.colour}`, "aria-hidden": "true" }, zone.letter), zone.name) : null;
}

function conditionLegend(zones) {
  return h("ul", { class: "legend", "aria-label": "Colours of endpoints" },
    CONDITIONS.map(({ name, label }) => h("li", null, h("span", { class: `swatch endpoint-${name}`, "aria-hidden": "true" }), label)),
    [...zones.values()].map((zone) => h("li", null, zoneTag(zone))));
}

/** Zones with endpoints to the left, zones that send traffic to the right, hints as arrows from the traffic to the endpoints. */
function flowPicture(zones, flows, endpoints) {
  const [row, width, top] = [56, 640, 34];
  const height = top + zones.length * row;
  const y = (name) => top + zones.findIndex((zone) => zone.name === name) * row + 18;
  const most = Math.max(1, ...flows.map((flow) => flow.count));
  const words = flows.map((flow) => `traffic of ${flow.to} to ${count(flow.count, "endpoint")} in ${flow.from || "no zone"}`).join("; ");
  const picture = s("svg", { viewBox: `0 0 ${width} ${height}`, class: "flow", role: "img", "aria-label": words || "no hints" },
    s("defs", null, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: "7", refY: "4", markerWidth: "9", markerHeight: "9", markerUnits: "userSpaceOnUse", orient: "auto" }, s("path", { d: "M0 0 L8 4 L0 8 z" }))),
    s("text", { x: 0, y: 12, class: "flow-head" }, "traffic of zone"), s("text", { x: width, y: 12, class: "flow-head end" }, "endpoints in zone"));
  // Arrows of one zone begin and end beside each other, in the order of the zones at their other ends.
  const order = (name) => zones.findIndex((zone) => zone.name === name);
  const placed = (mine, other, flow) => {
    const beside = flows.filter((one) => one.from && one[mine] === flow[mine]).sort((a, b) => order(a[other]) - order(b[other]));
    return y(flow[mine]) + (beside.indexOf(flow) - (beside.length - 1) / 2) * Math.min(13, 34 / beside.length);
  };
  for (const flow of flows) {
    if (!flow.from) continue;
    const [from, to] = [placed("to", "from", flow), placed("from", "to", flow)];
    const zone = zones.find((one) => one.name === flow.from);
    picture.append(s("path", { d: `M224 ${from} C 310 ${from}, 340 ${to}, 444 ${to}`, class: `flow-arrow ${zone.colour}${flow.from === flow.to ? "" : " across"}`, "stroke-width": 1.5 + (5 * flow.count) / most, "marker-end": "url(#arrow)" },
      s("title", null, `traffic of ${flow.to} to ${count(flow.count, "endpoint")} in ${flow.from}`)),
    s("text", { x: 220, y: from + 4, class: "flow-count" }, number(flow.count)));
  }
  for (const zone of zones) {
    const box = (x, text) => s("g", null, s("rect", { x, y: y(zone.name) - 18, width: 190, height: 36, rx: 6, class: `flow-box ${zone.colour}` }), s("text", { x: x + 12, y: y(zone.name) + 5, class: "flow-text" }, text));
    picture.append(box(0, shorten(zone.name, 22)), box(450, `${shorten(zone.name, 10)}: ${readyIn(zone, endpoints)}`));
  }
  return picture;
}

function readyIn(zone, endpoints) {
  const mine = endpoints.filter((endpoint) => endpoint.zone === zone.name);
  return `${number(mine.filter((endpoint) => endpoint.condition === "ready").length)} of ${number(mine.length)} ready`;
}

function shorten(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function flowTable(flows, zones) {
  if (flows.length === 0) return null;
  const sorted = [...flows].sort((a, b) => (a.to + a.from < b.to + b.from ? -1 : 1));
  return h("details", { open: flows.length <= 9 }, h("summary", null, "The hints as a table"), h("table", null,
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Traffic of"), h("th", { scope: "col" }, "goes to endpoints in"), h("th", { scope: "col" }, "Endpoints"))),
    h("tbody", null, sorted.map((flow) => h("tr", null, h("td", null, zoneTag(zones.get(flow.to))), h("td", null, flow.from ? zoneTag(zones.get(flow.from)) : "no zone"), h("td", null, number(flow.count)))))));
}
