// What the rows mean: addresses as numbers, ranges as spaces, who holds what, what is wrong. No elements, no requests.

const parsed = new Map();
const MOST_PARSED = 200000;

/** An address as a number; null for what is none. What was asked before is known: rows come again with each change. */
export function parseAddress(text) {
  if (!parsed.has(text)) {
    if (parsed.size >= MOST_PARSED) parsed.clear();
    parsed.set(text, text.includes(":") ? parseV6(text) : parseV4(text));
  }
  return parsed.get(text);
}

function parseV4(text) {
  const parts = text.split(".");
  if (parts.length !== 4 || parts.some((part) => !/^\d{1,3}$/.test(part) || Number(part) > 255)) return null;
  return { family: 4, number: parts.reduce((sum, part) => sum * 256n + BigInt(part), 0n) };
}

function parseV6(text) {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const words = (half) => (half === "" ? [] : half.split(":"));
  const [head, tail] = [words(halves[0]), words(halves[1] ?? "")];
  const missing = 8 - head.length - tail.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  const all = [...head, ...Array(halves.length === 2 ? missing : 0).fill("0"), ...tail];
  if (all.some((word) => !/^[0-9a-f]{1,4}$/i.test(word))) return null;
  return { family: 6, number: all.reduce((sum, word) => sum * 65536n + BigInt(`0x${word}`), 0n) };
}

/** The address of a number, as Kubernetes writes it. */
export function formatAddress(family, number) {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (number >> shift) & 255n).join(".");
  const words = Array.from({ length: 8 }, (_, n) => Number((number >> BigInt(112 - 16 * n)) & 65535n));
  let best = { at: -1, length: 1 };
  for (let at = 0; at < 8; at += 1) {
    let length = 0;
    while (at + length < 8 && words[at + length] === 0) length += 1;
    if (length > best.length) best = { at, length };
    at += length;
  }
  const text = (part) => part.map((word) => word.toString(16)).join(":");
  if (best.at < 0) return text(words);
  return `${text(words.slice(0, best.at))}::${text(words.slice(best.at + best.length))}`;
}

/** A CIDR: its family, first number and size. */
export function parseCidr(text) {
  const [address, length] = text.split("/");
  const parsed = parseAddress(address ?? "");
  if (!parsed || !/^\d+$/.test(length ?? "")) return null;
  const bits = (parsed.family === 4 ? 32 : 128) - Number(length);
  return bits < 0 ? null : { family: parsed.family, base: parsed.number, size: 1n << BigInt(bits) };
}

/** By what an object is known among its kind. */
export const keyOf = {
  services: (row) => `${row.ns}/${row.name}`,
  endpointslices: (row) => `${row.ns}/${row.name}`,
  ipaddresses: (row) => row.ip,
  servicecidrs: (row) => row.name,
  nodeports: (row) => row.name,
  nodeportranges: (row) => row.name,
  servicepools: (row) => row.name,
  nodes: (row) => row.name,
};

/** What is wrong with a value, in words. */
export const PROBLEMS = {
  unowned: "no Service has it: it is recorded, and free in truth",
  unrecorded: "a Service has it, and no object records it",
  clash: "more than one Service has it, or another than the one recorded",
  outside: "it lies outside of every range",
};

/** The order of numbers: those that a double holds exactly are compared as such, which is ten times as fast. */
const byAt = (a, b) => a.near - b.near || (a.at < b.at ? -1 : a.at > b.at ? 1 : 0);

/** Puts together who claims a value and who is recorded for it. */
function holdings(claims, records, recorded) {
  const all = new Map();
  const of = (value) => {
    if (!all.has(value)) all.set(value, { value, owners: [], record: null, detail: "" });
    return all.get(value);
  };
  for (const { value, owner, detail } of claims) {
    const holding = of(value);
    const again = holding.owners.length > 0 && holding.owners.some((known) => known.ns === owner.ns && known.name === owner.name);
    if (!again) holding.owners.push(owner);
    holding.detail = detail ?? holding.detail;
  }
  for (const { value, owner, created } of records) {
    const holding = of(value);
    holding.record = owner;
    holding.created = created;
  }
  for (const holding of all.values()) holding.problem = problemOf(holding, recorded);
  return all;
}

function problemOf({ owners, record }, recorded) {
  if (owners.length > 1) return "clash";
  if (!recorded) return null;
  if (record === null) return "unrecorded";
  if (record.of) return null;
  if (owners.length === 0) return "unowned";
  return record.ns === owners[0].ns && record.name === owners[0].name ? null : "clash";
}

/** Who holds which address: sorted, with its family and number. */
export function addressHolders(rows, recorded) {
  const claims = [];
  for (const service of rows.services.values()) {
    for (const value of service.ips ?? []) if (value !== "None") claims.push({ value, owner: { ns: service.ns, name: service.name } });
  }
  const records = [...rows.ipaddresses.values()].map((row) => ({ value: row.ip, owner: row.holder, created: row.created }));
  const holders = [];
  for (const holding of holdings(claims, records, recorded).values()) {
    const parsed = parseAddress(holding.value);
    if (parsed) holders.push(Object.assign(holding, { family: parsed.family, at: parsed.number, near: Number(parsed.number) }));
  }
  return holders.sort(byAt);
}

/** Who holds which node port: sorted. Protocols that share a port are one holding. */
export function portHolders(rows, recorded) {
  const claims = [];
  for (const service of rows.services.values()) {
    const owner = { ns: service.ns, name: service.name };
    for (const port of service.ports ?? []) {
      if (port.node) claims.push({ value: port.node, owner, detail: `${port.protocol} ${port.name ?? port.port}` });
    }
    if (service.health) claims.push({ value: service.health, owner, detail: "health check" });
  }
  const records = [...rows.nodeports.values()].map((row) => ({ value: Number.parseInt(row.name, 10), owner: row.holder, created: row.created }));
  const holders = [...holdings(claims, records, recorded).values()];
  return holders.map((holding) => Object.assign(holding, { at: BigInt(holding.value), near: holding.value })).sort(byAt);
}

/** Where in sorted holders a number would stand. */
export function lowerBound(holders, number) {
  let [low, high] = [0, holders.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holders[middle].at < number) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What pools keep for single Services, by offset; `valueOf` gives the offset of a reservation in the range, or null. */
function reservations(pools, valueOf, size) {
  const kept = [];
  pools.forEach((pool, n) => {
    for (const one of pool.spec.reservations ?? []) {
      const at = valueOf(one);
      const over = one.until && Date.parse(one.until) <= Date.now();
      if (at === null || at < 0n || at >= size || over) continue;
      kept.push({ at, near: Number(at), pool: pool.name, n, ns: one.namespace, name: one.name, until: one.until });
    }
  });
  return kept.sort(byAt);
}

/** What is kept for single Services between two offsets of a space. */
export function keptBetween(space, from, to) {
  return space.kept.slice(lowerBound(space.kept, from), lowerBound(space.kept, to));
}

/** A range of addresses as a space of cells. */
export function addressSpace(name, range, cidr, holders, pools) {
  const { family, base, size } = parseCidr(range.cidr);
  const ours = holders.filter((holder) => holder.family === family);
  const parts = [];
  pools.forEach((pool, n) => {
    for (const part of pool.parts) {
      const where = parseCidr(part.cidr);
      if (where && where.family === family && where.base >= base && where.base < base + size) {
        parts.push({ name: pool.name, n, from: where.base - base, to: where.base - base + where.size });
      }
    }
  });
  return {
    id: range.cidr, kind: "servicecidrs", object: name, title: range.cidr, state: rangeState(cidr), limit: 2048n, unit: "address", units: "addresses",
    base, size, usable: BigInt(range.usable), band: { from: 1n, to: 1n + BigInt(range.band) }, parts,
    kept: reservations(pools, (one) => {
      const parsed = one.address ? parseAddress(one.address) : null;
      return parsed?.family === family ? parsed.number - base : null;
    }, size),
    holders: between(ours, base, base + size),
    nameOf: (offset) => formatAddress(family, base + offset),
    shortName: (offset) => (family === 4 ? `.${(base + offset) & 255n}` : `:${((base + offset) & 65535n).toString(16)}`),
    isUsable: (offset) => offset > 0n && (family === 6 || offset < size - 1n || size < 2n),
    find: (text) => {
      const parsed = parseAddress(text);
      return parsed && parsed.family === family && parsed.number >= base && parsed.number < base + size ? parsed.number - base : null;
    },
  };
}

/** A range of node ports as a space of cells. */
export function portSpace(range, holders, pools) {
  const [base, size] = [BigInt(range.first), BigInt(range.last - range.first + 1)];
  const parts = [];
  pools.forEach((pool, n) => {
    for (const span of pool.spec.nodePorts ?? []) {
      if (span.firstPort <= range.last && span.lastPort >= range.first) {
        parts.push({ name: pool.name, n, from: BigInt(span.firstPort) - base, to: BigInt(span.lastPort) + 1n - base });
      }
    }
  });
  return {
    id: `${range.first}-${range.last}`, kind: range.name ? "nodeportranges" : null, object: range.name, title: `${range.first}–${range.last}`,
    state: rangeState(range), role: range.role, limit: 4096n, unit: "port", units: "ports",
    base, size, usable: size, band: { from: 0n, to: BigInt(range.band) }, parts,
    kept: reservations(pools, (one) => (one.nodePort ? BigInt(one.nodePort) - base : null), size),
    holders: between(holders, base, base + size),
    nameOf: (offset) => String(base + offset),
    shortName: (offset) => String(base + offset),
    isUsable: () => range.role !== "Excluded",
    find: (text) => {
      if (!/^\d{1,5}$/.test(text)) return null;
      const offset = BigInt(text) - base;
      return offset >= 0n && offset < size ? offset : null;
    },
  };
}

function between(holders, from, to) {
  return holders.slice(lowerBound(holders, from), lowerBound(holders, to));
}

function rangeState(range) {
  if (range?.deleting) return { word: "deleting", why: range.notReady };
  return range?.notReady === undefined ? { word: "ready" } : { word: "not ready", why: range.notReady };
}

/** How much is taken in both bands. */
export function usage(space) {
  const lower = lowerBound(space.holders, space.base + space.band.to) - lowerBound(space.holders, space.base + space.band.from);
  const band = space.band.to - space.band.from;
  const upper = space.holders.length - lower;
  return { taken: space.holders.length, lower, band, upper, above: space.usable > band ? space.usable - band : 0n };
}

/** The part of a space that a map shows: so many cells of 2^bits values each. */
export function window_(space, from = 0n, length = space.size) {
  let bits = 0n;
  while (((length + (1n << bits) - 1n) >> bits) > space.limit) bits += 1n;
  return { from, length, bits, cells: Number((length + (1n << bits) - 1n) >> bits) };
}

/** How many values of each cell are taken, how many of them are wrong, and where its holders begin. */
export function bins(space, view) {
  const counts = new Uint32Array(view.cells);
  const bad = new Uint32Array(view.cells);
  const start = new Uint32Array(view.cells);
  const first = space.base + view.from;
  for (let at = lowerBound(space.holders, first); at < space.holders.length; at += 1) {
    const offset = space.holders[at].at - first;
    if (offset >= view.length) break;
    const cell = Number(offset >> view.bits);
    if (counts[cell] === 0) start[cell] = at;
    counts[cell] += 1;
    if (space.holders[at].problem) bad[cell] += 1;
  }
  return { counts, bad, start };
}

/** How dark a cell is, from 0 for an empty one to 5 for a full one. */
export function density(taken, bits) {
  if (taken === 0) return 0;
  if (bits === 0n) return 4;
  return Math.min(5, 1 + Math.floor((4 * Math.log2(taken)) / Number(bits) + 1e-9));
}

/** Endpoints of Services, added up over their slices: ready, serving while they go, terminating, not ready. */
export function endpointCounts(slices) {
  const all = new Map();
  for (const slice of slices.values()) {
    if (!slice.service) continue;
    const key = `${slice.ns}/${slice.service}`;
    const sum = all.get(key) ?? { counts: [0, 0, 0, 0], slices: 0, hinted: 0, versions: "" };
    slice.counts.forEach((n, at) => { sum.counts[at] += n; });
    sum.slices += 1;
    sum.hinted += slice.hinted ?? 0;
    sum.versions += `${slice.name}@${slice.version},`;
    all.set(key, sum);
  }
  return all;
}

/** What a person should look at about a Service; null if nothing. */
export function serviceProblem(service, endpoints) {
  if (service.deleting) return "is being deleted";
  if (service.type !== "ExternalName" && (service.ips ?? []).length === 0) return "has no cluster IP yet";
  if (!service.selector) return null;
  if (!endpoints || endpoints.counts.every((n) => n === 0)) return "has no endpoints";
  return endpoints.counts[0] === 0 ? "has no ready endpoint" : null;
}

/** A Service's ports in one line. */
export function portsText(service) {
  return (service.ports ?? []).map((port) => `${port.port}${port.node ? `:${port.node}` : ""}/${port.protocol}`).join(", ");
}

/** Services whose name, type, addresses or ports have all words of a search. */
export function searchText(service) {
  return `${service.ns}/${service.name} ${service.type} ${(service.ips ?? []).join(" ")} ${portsText(service)} ${service.externalName ?? ""}`.toLowerCase();
}

/** From which zone how much of the endpoints' hints goes where. */
export function hintFlows(endpoints) {
  const flows = new Map();
  for (const endpoint of endpoints) {
    for (const to of endpoint.zones ?? []) {
      const from = endpoint.zone ?? "";
      const key = JSON.stringify([from, to]);
      flows.set(key, { from, to, count: (flows.get(key)?.count ?? 0) + 1 });
    }
  }
  return [...flows.values()];
}
