// Icons of the buttons, drawn in a box of 24.
import { svg } from "./dom.js";

const PATHS = {
  play: "M8 5v14l11-7z",
  pause: "M6 5h4v14H6zM14 5h4v14h-4z",
  stop: "M6 6h12v12H6z",
  download: "M11 4h2v8l3-3 1.4 1.4L12 15.8 6.6 10.4 8 9l3 3zM5 18h14v2H5z",
  volume: "M4 9v6h4l5 4V5L8 9zm12.5 3A4.5 4.5 0 0 0 14 8v8a4.5 4.5 0 0 0 2.5-4z",
};

export const icon = (name) => svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));

/** Give `button` an icon and a name; a `text` is shown beside the icon. */
export function dress(button, name, label, text = "") {
  button.setAttribute("aria-label", label);
  button.title = label;
  button.replaceChildren(icon(name), ...(text ? [` ${text}`] : []));
}
