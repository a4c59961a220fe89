// Errors in the words of who reads them. The server's own words, its code and the request's id are one click away.
import { h } from "./dom.js";

const WORDS = {
  empty_input: "Write something to speak first.",
  nothing_to_speak: "This text has nothing that can be read aloud. Add some words.",
  text_too_long: "This text is too long. Shorten it, or speak it in parts.",
  overloaded: "The server is busy. Try again in a moment.",
  saturated: "The server is busy. Try again in a moment.",
  draining: "The server is shutting down. Try again when it is back.",
  model_failed: "The model failed on this text. Try again, or choose another model.",
  idle_timeout: "The server waited too long for this page. Try again.",
  unknown_voice: "This model does not have that voice. Choose another one.",
  outside_coverage: "The phrasebook does not know a word of this text. Try a phrase for travelers, such as "
    + "“Where is the train station?”, or choose another translation model.",
  invalid_api_key: "This server wants an API key. Give it one with the button “API key”.",
  1006: "The connection to the server was lost. Check that it is running, then try again.",
};

/** The sentence that people read for `error`: an error object of the API, or what `fetch` throws. */
export function words(error) {
  if (error instanceof TypeError) return "The server does not answer. Check that it is running, then try again.";
  return WORDS[error.code] ?? error.message ?? String(error);
}

/** Show `error` in `place`, a live region; null hides it. */
export function showError(place, error) {
  place.hidden = !error;
  place.replaceChildren();
  if (!error) return;
  const text = words(error);
  place.append(h("p", {}, text));
  const details = [
    error.message && error.message !== text && h("p", {}, error.message),
    error.code && error.request_id && h("p", {}, "Code ", h("code", {}, error.code)),
    error.request_id && h("p", {}, "Request ", h("code", {}, error.request_id)),
  ].filter(Boolean);
  if (details.length) place.append(h("details", {}, h("summary", {}, "Details"), ...details));
}
