// Elements, made from names, properties and children. Text becomes text: there is no markup in a string.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && typeof value !== "string" && !(element instanceof SVGElement)) element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element. */
export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element. */
export function s(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Puts other children into an element. */
export function set(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

const whole = new Intl.NumberFormat("en");

/** A number for people; a bigint too. */
export function number(value) {
  return whole.format(value);
}

/** A number and what is counted. */
export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 || value === 1n ? one : many}`;
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const themes = new Map();

/** The colours and the font of the style sheet, for canvases; they change with the theme. */
export function theme() {
  if (!themes.has(dark.matches)) {
    const style = getComputedStyle(document.documentElement);
    const read = new Map();
    const colour = (name) => {
      if (!read.has(name)) read.set(name, style.getPropertyValue(`--${name}`).trim());
      return read.get(name);
    };
    themes.set(dark.matches, { colour, density: [0, 1, 2, 3, 4, 5].map((n) => colour(`density-${n}`)), font: colour("sans") });
  }
  return themes.get(dark.matches);
}

/** Calls back when the theme changes; gives what ends it. */
export function onTheme(callback) {
  const query = dark;
  query.addEventListener("change", callback);
  return () => query.removeEventListener("change", callback);
}

/** The colour of the n-th zone or pool, and its letter. */
export function category(n) {
  return { colour: `category-${n % 8}`, letter: String.fromCharCode(65 + (n % 26)) };
}

/** How long ago, or when. */
export function age(milliseconds, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - milliseconds) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** A function that is carried out at most once in so many milliseconds, the last call always. */
export function calmly(milliseconds, work) {
  let timer = null;
  let last = -Infinity;
  return () => {
    if (timer !== null) return;
    const wait = Math.max(0, last + milliseconds - performance.now());
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      work();
    }, wait);
  };
}
