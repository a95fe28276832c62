// Links to objects, and the drawer that says why one is as it is.

import { h, set } from "./dom.js";
import { explanation } from "./explained.js";
import { ask } from "./store.js";

const WORDS = {
  services: "service", endpointslices: "endpointslice", ipaddresses: "ip", servicecidrs: "servicecidr", nodeports: "node-port", pods: "pod",
};
const NAMES = {
  services: "Service", endpointslices: "EndpointSlice", ipaddresses: "IPAddress", servicecidrs: "ServiceCIDR", nodeports: "NodePort",
  nodeportranges: "NodePortRange", servicepools: "ServicePool", nodes: "Node", pods: "Pod",
};
/** Members of a Kubernetes object that say little; they are folded. */
const FOLDED = new Set(["managedFields", "annotations"]);

let explains = () => false;

/** Where the page's own view of an object is; null if it has none. */
function viewOf(kind, ns, name) {
  return kind === "services" ? `#/service/${encodeURIComponent(ns)}/${encodeURIComponent(name)}` : null;
}

/** An object's name; a link, if it has a view. */
export function objectLink(kind, ns, name) {
  const text = [ns && h("span", { class: "muted" }, `${ns}/`), name];
  const view = viewOf(kind, ns, name);
  return view ? h("a", { href: view, class: "object" }, text) : h("span", { class: "object" }, text);
}

/** A button that says why an object is as it is. */
export function explainButton(kind, ns, name) {
  const what = `${NAMES[kind] ?? kind} ${ns ? `${ns}/` : ""}${name}`;
  return h("button", { type: "button", class: "why", "aria-label": `Explain ${what}`, title: `Explain ${what}`, onclick: () => drawer.open(kind, ns, name) }, "why?");
}

class Drawer {
  constructor() {
    this.title = h("h2", { tabindex: "-1" });
    this.content = h("div", { class: "explained" });
    this.status = h("p", { class: "muted", role: "status" });
    this.close = h("button", { type: "button", onclick: () => this.dialog.close() }, "Close");
    this.dialog = h("dialog", { class: "drawer", "aria-labelledby": "explained-title", onclick: (event) => {
      if (event.target === this.dialog) this.dialog.close();
    } }, h("div", { class: "drawer-inside" }, h("div", { class: "head" }, this.title, this.close), this.status, this.content));
    this.title.id = "explained-title";
  }

  async open(kind, ns, name) {
    const path = ns ? `${encodeURIComponent(ns)}/${encodeURIComponent(name)}` : encodeURIComponent(name);
    const told = Symbol("told");
    this.told = told;
    set(this.title, `${NAMES[kind] ?? kind} `, h("span", { class: "mono" }, ns ? `${ns}/${name}` : name));
    set(this.content);
    this.status.textContent = "Asking…";
    if (!this.dialog.open) this.dialog.showModal();
    this.title.focus();
    try {
      const explained = await this.#explanation(kind, path);
      if (this.told !== told) return;
      this.status.textContent = explained.why ? "" : "The object as it is:";
      set(this.content, explained.why ? explanation(explained.why, tree) : tree(explained.object));
    } catch (error) {
      if (this.told === told) this.status.textContent = error.message;
    }
  }

  async #explanation(kind, path) {
    if (explains() && WORDS[kind]) return { why: await ask(`explain/${WORDS[kind]}/${path}`) };
    return { object: await ask(`object/${kind}/${path}`) };
  }
}

const drawer = new Drawer();

/** Puts the drawer into the page; `can` says whether the server explains. */
export function install(parent, can) {
  explains = can;
  parent.append(drawer.dialog);
}

/** Closes the drawer, as when another view comes. */
export function dismiss() {
  if (drawer.dialog.open) drawer.dialog.close();
}

/** A value as nested lists of names and values. */
export function tree(value) {
  if (Array.isArray(value)) {
    if (value.length === 0) return h("span", { class: "muted" }, "none");
    if (value.every((item) => typeof item !== "object" || item === null)) return h("span", { class: "mono" }, value.join(", "));
    return h("ol", { class: "tree" }, value.map((item) => h("li", null, tree(item))));
  }
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value);
    if (members.length === 0) return h("span", { class: "muted" }, "empty");
    return h("dl", { class: "tree" }, members.map(([name, member]) => {
      const inside = tree(member);
      const folded = FOLDED.has(name) && h("details", null, h("summary", null, "show"), inside);
      return h("div", { class: typeof member === "object" && member !== null && !isFlat(member) ? "deep" : "flat" }, h("dt", null, name), h("dd", null, folded || inside));
    }));
  }
  return h("span", { class: "mono" }, value === null ? "null" : String(value));
}

function isFlat(value) {
  return Array.isArray(value) && value.every((item) => typeof item !== "object" || item === null);
}
