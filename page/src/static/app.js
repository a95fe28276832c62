// The page as a whole: who may look, which view is shown, and what stands above all views.

import { h, set } from "./dom.js";
import { ServiceView } from "./endpoints.js";
import { dismiss, install } from "./explain.js";
import { parseAddress } from "./model.js";
import { RangesView, locate } from "./ranges.js";
import { ReconcilesView } from "./reconciles.js";
import { ServicesView } from "./services.js";
import { Store, ask } from "./store.js";

const VIEWS = [
  { name: "addresses", label: "Addresses", make: RangesView },
  { name: "ports", label: "Node ports", make: RangesView },
  { name: "services", label: "Services", make: ServicesView },
  { name: "service", label: "Service", make: ServiceView, of: "services" },
  { name: "reconciles", label: "Reconciles", make: ReconcilesView },
];
const TITLES = { servicecidrs: "ServiceCIDRs", ipaddresses: "IPAddresses", endpointslices: "EndpointSlices", services: "Services", nodes: "Nodes", nodeports: "NodePorts", nodeportranges: "NodePortRanges", servicepools: "ServicePools" };
/** Kinds that a cluster may do without. */
const OPTIONAL = new Set(["nodeports", "nodeportranges", "servicepools"]);

const [main, views, state, trouble] = ["main", "views", "state", "trouble"].map((id) => document.getElementById(id));
const store = new Store();
let shown = null;

/** The view that the address asks for, its parts, and its query. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...parts] = path.split("/").map(decodeURIComponent);
  return { name: name || "addresses", parts, query: new URLSearchParams(query ?? "") };
}

function go(hash, quietly = false) {
  if (quietly) history.replaceState(null, "", hash);
  else if (location.hash === hash) show();
  else location.hash = hash;
}

function show() {
  const { name, parts, query } = route();
  if (name === "find") {
    find(parts[0], parts[1] ?? "");
    return;
  }
  const view = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
  const key = [view.name, ...parts].join("/");
  dismiss();
  if (shown?.key !== key) {
    const first = shown === null;
    shown?.instance.destroy();
    const Make = view.make;
    shown = { key, view, instance: new Make(store, view.name, go) };
    set(main, shown.instance.element);
    mark(view);
    shown.instance.show(query, parts);
    scrollTo(0, 0);
    if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
  } else shown.instance.show(query, parts);
  document.title = `${main.querySelector("h1")?.textContent.replace("why?", "").trim() ?? view.label} – ${store.about.title || "Services"}`;
}

/** The range that an address or port is in, and its place there. */
function find(kind, text) {
  const subject = kind === "port" ? "ports" : "addresses";
  if (store.reading) {
    store.addEventListener("change", show, { once: true });
    return;
  }
  const found = locate(store, subject, text);
  location.replace(found ? `#/${subject}?${new URLSearchParams({ range: found.space.id, at: String(found.at) })}` : `#/${subject}`);
}

function mark(view) {
  set(views, h("ul", null, VIEWS.filter((one) => !one.of).map((one) => h("li", null,
    h("a", { href: `#/${one.name}`, "aria-current": one.name === (view.of ?? view.name) ? "page" : null }, one.label)))));
}

function tellState() {
  const words = { connecting: "connecting…", live: "live", lost: "connection lost, trying again…" };
  state.className = store.state;
  state.textContent = words[store.state];
}

/** What cannot be read, and what a cluster does without. */
function tellTrouble() {
  const told = Object.entries(store.kinds).map(([kind, { state: how, why }]) => {
    if (how === "failing") return h("p", { class: "problem" }, `${TITLES[kind]} cannot be read: ${why}`);
    if (how === "absent" && !OPTIONAL.has(kind)) return h("p", { class: "problem" }, `This server has no ${TITLES[kind]}.`);
    return null;
  });
  const text = told.map((one) => one?.textContent ?? "").join();
  if (trouble.dataset.text === text) return;
  trouble.dataset.text = text;
  set(trouble, told);
}

/** Asks for a token, or for another link. */
function signIn(why) {
  shown?.instance.destroy();
  shown = null;
  set(views);
  const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const said = h("p", { class: "problem", role: "alert" }, why ?? "");
  const enter = async (event) => {
    event.preventDefault();
    try {
      await ask("session", { Authorization: `Bearer ${input.value.trim()}` });
      begin();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  set(main, h("div", { class: "card sign-in" }, h("h1", { tabindex: "-1" }, "Who looks?"),
    h("p", null, "This page shows the Services of a cluster to those who may see them. Open it by the link that ", h("code", null, "lab"), " prints when it starts: it works once. Whoever has a kubeconfig of the lab gets another by ",
      h("code", null, "kubectl get --raw /page/link"), "."),
    h("p", null, "Or show a bearer token. It goes to this server alone, and the browser does not keep it."),
    h("form", { class: "find wide", onsubmit: enter }, h("label", { for: "token" }, "Token"), input, h("button", { type: "submit" }, "Look")), said));
  state.textContent = "";
  main.querySelector("h1").focus();
}

/** Follows the link that the page was opened by, if it was. */
async function redeem() {
  const key = /^#key=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (!key) return;
  history.replaceState(null, "", location.pathname);
  // A link that was followed before is no harm if the browser has a session.
  await ask("session", { "Page-Key": key });
}

async function begin() {
  set(main, h("p", { class: "muted" }, "Reading…"));
  try {
    await ask("reconciles?after=9007199254740991");
  } catch (error) {
    if (error.status === 401 || error.status === 403) {
      signIn(error.message);
      return;
    }
  }
  store.start();
  show();
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const input = document.getElementById("go-to");
  const text = input.value.trim();
  input.value = "";
  if (parseAddress(text)) go(`#/find/address/${encodeURIComponent(text)}`);
  else if (/^\d{1,5}$/.test(text)) go(`#/find/port/${text}`);
  else if (store.rows.services.has(text)) go(`#/service/${text.split("/").map(encodeURIComponent).join("/")}`);
  else if (text) go(`#/services?${new URLSearchParams({ search: text })}`);
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  document.getElementById("go-to").focus();
});
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#key=")) location.reload();
  else if (location.hash !== "#main") show();
});
store.addEventListener("state", tellState);
store.addEventListener("change", (event) => {
  tellTrouble();
  if (shown?.instance.concerns(event.detail)) shown.instance.update();
});
store.addEventListener("lines", () => {
  if (shown?.view.name === "reconciles") shown.instance.update();
});
store.addEventListener("signedout", (event) => {
  if (!document.getElementById("token")) signIn(event.detail.message);
});
install(document.body, () => store.about.explains);
tellState();
redeem().catch(() => {}).then(begin);
