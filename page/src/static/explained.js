// What `explain` says, for people: what is urgent first, then every pod, value and slice with its reason; the rest as it is.

import { count, h, number } from "./dom.js";

/** Members that are told in their own way, or say nothing to people. */
const TOLD = new Set(["apiVersion", "kind", "message", "findings", "counts", "pods", "nearMisses", "addresses", "ports", "slices", "hints", "endpoints", "trafficPolicies", "changes", "events", "unknown", "origin", "frees"]);
const SHOWN = 200;

/** All of an explanation; `tree` shows what has no way of its own. */
export function explanation(value, tree) {
  const rest = Object.fromEntries(Object.entries(value).filter(([name, member]) => !TOLD.has(name) || isForeign(name, member)));
  return [
    value.message && h("p", { class: "lead" }, value.message),
    value.origin?.message && h("p", null, value.origin.message),
    value.frees && h("p", null, value.frees),
    section("Worth knowing", value.findings, finding),
    section("Pods", pods(value), podLine, value.counts && countsText(value.counts)),
    section("Nearly selected", value.nearMisses, (miss) => [miss.message, ` (${miss.pods.first.join(", ")}${miss.pods.count > miss.pods.first.length ? ", …" : ""})`]),
    section("Addresses", objects(value.addresses), (one) => [h("strong", { class: "mono" }, one.address), ` ${one.origin.message}`]),
    section("Ports", objects(value.ports), portLine),
    section("Slices", objects(value.slices), sliceLine),
    section("Hints", objects(value.hints), (one) => [h("strong", null, `${one.family}: `), one.message]),
    value.endpoints?.message && section("Endpoints object", [value.endpoints.message], (text) => text),
    section("Traffic policies", value.trafficPolicies, (one) => one.message),
    section("Changes", value.changes, textOf),
    section("Events", value.events, textOf),
    section("Cannot be known", value.unknown, textOf),
    Object.keys(rest).length > 0 && h("details", { open: !value.findings }, h("summary", null, "Facts"), tree(rest)),
  ].filter(Boolean);
}

function objects(list) {
  return Array.isArray(list) && list.every((item) => typeof item === "object") ? list : [];
}

/** Whether a member of a name that is told elsewhere is of another shape here, such as a list of names. */
function isForeign(name, member) {
  return ["pods", "ports", "slices", "endpoints", "addresses", "hints"].includes(name) && Array.isArray(member) ? objects(member).length !== member.length || name === "endpoints" : name === "pods" && !Array.isArray(member);
}

function pods(value) {
  const order = { LeftOut: 0, NotReady: 1, Ready: 2 };
  return objects(value.pods).filter((pod) => pod.state).sort((a, b) => order[a.state] - order[b.state]);
}

function section(title, list, line, note) {
  if (!list || list.length === 0) return null;
  const shown = list.slice(0, SHOWN);
  return h("section", { "aria-label": title }, h("h3", null, title), note && h("p", { class: "muted" }, note),
    h("ul", { class: "why-list" }, shown.map((item) => h("li", null, line(item)))),
    list.length > shown.length && h("p", { class: "muted" }, `and ${number(list.length - shown.length)} more`));
}

function finding({ severity, message }) {
  return [h("span", { class: `tag ${severity === "Problem" ? "bad" : severity === "Warning" ? "warn" : ""}` }, severity), " ", message];
}

function countsText({ selected, ready, notReady, leftOut }) {
  return `${count(selected, "pod")} selected: ${number(ready)} ready, ${number(notReady)} not ready, ${number(leftOut)} left out`;
}

function podLine({ name, state, message, zone, families }) {
  const dot = { Ready: "ready", NotReady: "unready", LeftOut: "terminating" }[state];
  const places = (families ?? []).map((family) => family.slice).filter(Boolean);
  return [h("span", { class: `dot condition-${dot}`, "aria-hidden": "true" }), h("strong", { class: "mono" }, name), ` ${message}`,
    h("span", { class: "muted" }, zone ? ` zone ${zone}` : "", places.length > 0 ? ` in ${places.join(", ")}` : "")];
}

function portLine(port) {
  const name = `${port.name ? `${port.name} ` : ""}${port.port}/${port.protocol}`;
  const node = port.nodePort ? ` node port ${port.nodePort}` : "";
  return [h("strong", { class: "mono" }, name), node, port.origin?.message ? ` ${port.origin.message}` : ""];
}

function sliceLine({ name, endpoints, ready, capacity, state, change }) {
  const full = capacity ? ` of at most ${number(capacity)}` : "";
  return [h("strong", { class: "mono" }, name), ` ${count(endpoints, "endpoint")}${full}, ${number(ready)} ready`, state && state !== "Right" ? h("span", { class: "problem" }, ` ${change ?? state}`) : ""];
}

/** A line of members that are not known more closely: its texts, one after another. */
function textOf(item) {
  if (typeof item !== "object" || item === null) return String(item);
  if (typeof item.message === "string") {
    const rest = Object.entries(item).filter(([name, value]) => name !== "message" && typeof value !== "object").map(([, value]) => value);
    return [h("span", { class: "muted" }, `${rest.join(" ")} `), item.message];
  }
  return Object.values(item).filter((value) => typeof value !== "object").join(" ");
}
