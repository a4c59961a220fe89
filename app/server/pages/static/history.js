// What was spoken since the page was opened, newest first. It stays in this page's memory, within a bound.
import { $, duration, h } from "./dom.js";
import { dress, icon } from "./icons.js";

const MAX_ENTRIES = 10;
// Samples, of all entries together: about ten minutes.
const MAX_SAMPLES = 600 * 24_000;

const entries = [];
let on = { play() {}, download() {} };

/** `play(result)` and `download(result)` are called with a result that was chosen. */
export function setUpHistory(actions) {
  on = actions;
}

const size = ({ pieces }) => pieces.reduce((sum, piece) => sum + piece.length, 0);

/** Keep a finished result. */
export function remember(result) {
  if (!result.pieces.length) return;
  entries.unshift(result);
  while (entries.length > MAX_ENTRIES || (entries.length > 1 && entries.reduce((sum, entry) => sum + size(entry), 0) > MAX_SAMPLES)) entries.pop();
  // The only one is in the player.
  $("history").hidden = entries.length < 2;
  $("history-list").replaceChildren(...entries.map((entry) => {
    const save = h("button", { type: "button", onclick: () => on.download(entry) });
    dress(save, "download", `Download “${start(entry.text)}”`);
    return h("li", {},
      h("button", { type: "button", class: "entry", onclick: () => on.play(entry) },
        icon("play"), h("span", { class: "said" }, start(entry.text)),
        h("span", { class: "quiet" }, `${entry.about}, ${duration(size(entry) / entry.rate)}`)),
      save);
  }));
}

function start(text) {
  const characters = [...text.trim().replace(/\s+/g, " ")];
  return characters.length > 100 ? `${characters.slice(0, 99).join("")}…` : characters.join("");
}
