// The places of the text where the spoken words are not those that are written. Asked for while it is open.
import { getJson, whenLoaded } from "./api.js";
import { $, h } from "./dom.js";
import { words } from "./errors.js";

// Milliseconds without a change of the text before the server is asked.
const PAUSE = 400;
const MAX_WORDS = 100;

let latest = () => ({});
let timer = 0;
let asked = null;

// Name of the readings in the storage of the browser.
const STORAGE_KEY = "nightingale-lexicon";

/** Readings that the person wrote, as `lexicon` of a request takes them. */
export function lexicon() {
  const lines = $("lexicon").value.split("\n").map((line) => /^\s*([^=\t]+?)\s*[=\t]\s*(.+?)\s*$/.exec(line));
  return Object.fromEntries(lines.filter(Boolean).map(([, word, reading]) => [word, reading]));
}

function withStorage(act) {
  try {
    act(localStorage);
  } catch {
    // A browser that may store nothing: the readings end with the page.
  }
}

/** `request()` gives the body of POST /v1/phonemes, or null where it would not tell what is said. */
export function setUpReading(request) {
  latest = request;
  $("reading").addEventListener("toggle", ask);
  withStorage((storage) => { $("lexicon").value = storage.getItem(STORAGE_KEY) ?? ""; });
  $("lexicon").addEventListener("input", () => withStorage((storage) => storage.setItem(STORAGE_KEY, $("lexicon").value)));
}

/** The text or what was chosen may have changed. */
export function changeReading() {
  $("reading").hidden = !latest();
  clearTimeout(timer);
  if ($("reading").open) timer = setTimeout(ask, PAUSE);
}

async function ask() {
  asked?.abort();
  const body = latest();
  if (!$("reading").open || !body) return;
  if (!body.input.trim()) {
    show([], "Write something first.");
    return;
  }
  const own = new AbortController();
  asked = own;
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: own.signal };
  try {
    const { tokens } = await whenLoaded(() => getJson("/v1/phonemes", options), () => !own.signal.aborted);
    const found = rewritten(tokens);
    show(found.slice(0, MAX_WORDS), found.length > MAX_WORDS ? `The first ${MAX_WORDS} of ${found.length}.` : found.length ? "" : "Every word is said as it is written.");
  } catch (error) {
    if (!own.signal.aborted) show([], words(error));
  }
}

/** Tokens that are not said as they are written, and those of the person's readings, equal ones once. */
function rewritten(tokens) {
  const differs = ({ text, spoken, source }) => source === "user-lexicon"
    || (source !== "punctuation" && spoken && text.toLowerCase() !== spoken.toLowerCase());
  return [...new Map(tokens.filter(differs).map((token) => [`${token.text}\n${token.spoken}`, token])).values()];
}

function show(tokens, note) {
  const said = ({ text, spoken, phonemes, source }) =>
    source === "user-lexicon" && spoken.toLowerCase() === text.toLowerCase() ? `/${phonemes}/` : spoken;
  $("reading-list").replaceChildren(...tokens.flatMap((token) => [h("dt", {}, token.text), h("dd", {}, said(token))]));
  $("reading-note").textContent = note;
}
