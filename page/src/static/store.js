// What the server says: all rows once, changes as they come, lines of the log.

import { keyOf } from "./model.js";

const KINDS = Object.keys(keyOf);
const MOST_LINES = 5000;

/** Asks the server for JSON; throws an error with its words and the status. */
export async function ask(path, headers) {
  const response = await fetch(path, { headers, cache: "no-store" });
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (response.ok) return body;
  throw Object.assign(new Error(body.error ?? `the server answered ${response.status}`), { status: response.status });
}

/** All rows, kept up to date. Says `change` (with the kinds), `lines`, `state` and `signedout`. */
export class Store extends EventTarget {
  rows = Object.fromEntries(KINDS.map((kind) => [kind, new Map()]));
  kinds = {};
  about = { title: "", nodePorts: { first: 30000, last: 32767, band: 86 }, explains: false };
  lines = [];
  state = "connecting";
  #source = null;
  #version = -1;
  #loading = false;
  #again = false;
  #waiting = [];
  #early = null;
  #derived = new Map();
  #retry = 1000;

  /** Begins to follow the server; first reads all. */
  start() {
    this.#source?.close();
    this.#source = new EventSource("events");
    this.#source.addEventListener("anew", () => this.#load());
    this.#source.addEventListener("changes", (event) => this.#take(JSON.parse(event.data)));
    this.#source.addEventListener("reconciles", (event) => this.#add(JSON.parse(event.data)));
    this.#source.onopen = () => {
      this.#retry = 1000;
      this.#catchUp();
    };
    this.#source.onerror = () => this.#lost();
  }

  /** A value made of rows of some kinds: made anew only after one of them changed. */
  derive(name, kinds, make) {
    const known = this.#derived.get(name);
    if (known) return known.value;
    const value = make(this.rows);
    this.#derived.set(name, { kinds, value });
    return value;
  }

  /** Whether the objects of a kind are there to be compared with. */
  has(kind) {
    return this.kinds[kind]?.state === "current";
  }

  /** Whether the first lists are still under way. */
  get reading() {
    return this.#version < 0 || Object.values(this.kinds).some((kind) => kind.state === "reading");
  }

  #set(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #lost() {
    this.#set("lost");
    if (this.#source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => this.#reopen(), this.#retry);
    this.#retry = Math.min(this.#retry * 2, 15000);
  }

  async #reopen() {
    try {
      await ask("reconciles?after=9007199254740991");
      this.start();
    } catch (error) {
      if (error.status === 401 || error.status === 403) this.dispatchEvent(new CustomEvent("signedout", { detail: error }));
      else this.#lost();
    }
  }

  async #load() {
    if (this.#loading) {
      this.#again = true;
      return;
    }
    this.#loading = true;
    try {
      const all = await ask("data");
      // A server that was started anew counts its lines from the beginning again.
      const another = this.about.started !== undefined && this.about.started !== all.started;
      this.about = { title: all.title, started: all.started, nodePorts: all.nodePorts, explains: all.explains };
      if (another) {
        this.lines = [];
        this.#catchUp();
      }
      this.kinds = all.kinds;
      for (const kind of KINDS) this.rows[kind] = new Map(all.rows[kind].map((row) => [keyOf[kind](row), row]));
      this.#version = all.version;
      this.#set("live");
      this.#changed(KINDS);
    } catch (error) {
      if (error.status === 401 || error.status === 403) this.dispatchEvent(new CustomEvent("signedout", { detail: error }));
    }
    this.#loading = false;
    const waiting = this.#waiting.splice(0);
    if (this.#again) {
      this.#again = false;
      await this.#load();
    }
    waiting.forEach((changes) => this.#take(changes));
  }

  #take(changes) {
    if (this.#loading) {
      this.#waiting.push(changes);
      return;
    }
    if (changes.version <= this.#version) return;
    this.#version = changes.version;
    for (const [kind, rows] of Object.entries(changes.set)) for (const row of rows) this.rows[kind].set(keyOf[kind](row), row);
    for (const [kind, keys] of Object.entries(changes.gone)) for (const key of keys) this.rows[kind].delete(key);
    if (changes.kinds) this.kinds = changes.kinds;
    this.#changed(changes.kinds ? KINDS : [...Object.keys(changes.set), ...Object.keys(changes.gone)]);
  }

  #changed(kinds) {
    for (const [name, derived] of this.#derived) if (derived.kinds.some((kind) => kinds.includes(kind))) this.#derived.delete(name);
    this.dispatchEvent(new CustomEvent("change", { detail: new Set(kinds) }));
  }

  /** Reads the lines that were written before the server was followed; those that come meanwhile wait for them. */
  async #catchUp() {
    this.#early = [];
    const lines = await ask(`reconciles?after=${this.lines.at(-1)?.n ?? 0}`).catch(() => []);
    const early = this.#early ?? [];
    this.#early = null;
    this.#add([...lines, ...early]);
  }

  #add(lines) {
    if (this.#early) {
      this.#early.push(...lines);
      return;
    }
    let last = this.lines.at(-1)?.n ?? 0;
    const fresh = [];
    for (const line of lines) {
      if (line.n <= last) continue;
      last = line.n;
      fresh.push(line);
    }
    if (fresh.length === 0) return;
    this.lines.push(...fresh);
    if (this.lines.length > MOST_LINES) this.lines.splice(0, this.lines.length - MOST_LINES);
    this.dispatchEvent(new CustomEvent("lines", { detail: fresh }));
  }
}
