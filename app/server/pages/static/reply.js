// An answer of the API as a page shows it: status, time, headers; sound to hear, JSON in lines, other text as it is.
import { bytes, duration, h } from "./dom.js";

// Characters of a text; more of them make a page slow.
const MAX_CHARACTERS = 20_000;
const PLAYABLE = /^audio\/(wav|x-wav|mpeg|mp3|ogg|opus|flac|aac|mp4)/;

/** A player for `sound`, a blob. Its address is given back when another answer takes its place. */
export function player(sound) {
  return h("audio", { controls: true, autoplay: true, src: URL.createObjectURL(sound) });
}

/** Show `reply` in `place` as it comes; `started` is when it was asked for. */
export async function showReply(place, reply, started) {
  const first = performance.now() - started;
  const body = await reply.blob();
  const all = performance.now() - started;
  const kind = reply.headers.get("content-type") ?? "";
  const headers = [...reply.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  clear(place);
  place.append(
    h("p", { class: "status", role: "status" }, `Status ${reply.status}, headers after ${duration(first / 1000)}, all ${bytes(body.size)} after ${duration(all / 1000)}`),
    h("details", {}, h("summary", {}, "Headers"), h("pre", { tabindex: "0", role: "group", "aria-label": "Headers" }, headers)));
  if (kind.startsWith("audio/") || kind === "application/octet-stream") {
    if (PLAYABLE.test(kind)) place.append(player(body));
    place.append(h("p", {}, h("a", { href: URL.createObjectURL(body), download: `speech.${ending(kind)}` }, `Download (${kind})`)));
    return;
  }
  const text = await body.text();
  if (text) place.append(h("pre", { tabindex: "0", role: "group", "aria-label": "Body of the answer" }, cut(kind.includes("json") ? indented(text) : text)));
}

const ending = (kind) => ({ "audio/mpeg": "mp3", "audio/ogg": "ogg", "audio/flac": "flac", "audio/aac": "aac" })[kind.split(";")[0]] ?? (kind.includes("wav") ? "wav" : "raw");

export const cut = (text) => (text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}\n… (${bytes(text.length)} in all)` : text);

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Several documents, one a line.
    return text;
  }
}

/** Empty `place`, and give back the memory of what was heard there. */
export function clear(place) {
  for (const each of place.querySelectorAll("[src^='blob:'], [href^='blob:']")) URL.revokeObjectURL(each.src ?? each.href);
  place.replaceChildren();
}
