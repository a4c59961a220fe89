// The little that pages need to make elements and numbers.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

/** An element; text is always set as text. Properties that begin with "on" are listeners, others attributes. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Seconds as people read them: 0.4 ms, 23 ms, 1.25 s, 2:05. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (!Number.isFinite(seconds)) return "> 10 s";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${(seconds * 1000).toFixed(2)} ms`;
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(2)} s`;
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, number)) / 10)));
  return `${(number / 1024 ** power).toFixed(power && number / 1024 ** power < 100 ? 1 : 0)} ${units[power]}`;
}

const probe = document.body.appendChild(h("i", { hidden: true }));

/** A color of the style sheet as a canvas takes it: of the scheme that is shown. */
export function color(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
