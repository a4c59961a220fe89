// The voices of a model as cards: who speaks, in which language, and a sample to hear.
import { $, h } from "./dom.js";
import { failure, whenLoaded } from "./api.js";
import { dress } from "./icons.js";
import { request } from "./key.js";

const GENDERS = { female: "woman", male: "man" };
// More than these are looked for by name.
const FEW = 8;
// A sentence by language, the first part of its tag.
const SENTENCES = {
  en: "Hello! This is how I sound when I read to you.",
  es: "¡Hola! Así suena mi voz cuando te leo.",
  fr: "Bonjour ! Voici ma voix quand je vous lis un texte.",
  hi: "नमस्ते! मैं आपके लिए ऐसे पढ़ती हूँ।",
  it: "Ciao! Questa è la mia voce quando leggo per te.",
  ja: "こんにちは。これが私の声です。",
  pt: "Olá! É assim que soa a minha voz quando leio para você.",
  zh: "你好！这就是我朗读时的声音。",
};

const samples = new Map();
const audio = new Audio();
let sounding = null;
let on = { change() {}, error() {}, wait() {}, begin() {} };
let names = new Map();

/** `change()`: another voice was chosen; `error(error)`: a sample failed, null before one; `wait(error)`: its model loads;
 * `begin()`: a sample is about to be heard. */
export function setUpVoices(actions) {
  on = actions;
}

export const chosenVoice = () => $("voice").querySelector("input:checked")?.value ?? "";

/** The name of a language by its tag, in the server's words if it has them. */
export function languageName(tag) {
  if (names.has(tag)) return names.get(tag);
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag);
  } catch {
    return tag;
  }
}

export function nameLanguages(languages) {
  names = new Map(languages.map(({ tag, name }) => [tag, name]));
}

function about(voice) {
  const parts = [GENDERS[voice.gender] ?? voice.gender, voice.language && languageName(voice.language), voice.kind === "cloned" && "cloned"];
  const line = parts.filter(Boolean).join(" · ");
  return line.charAt(0).toUpperCase() + line.slice(1);
}

/** Show the voices of `model`, with `chosen` (an id, or "") chosen. */
export function showVoices(voices, model, chosen = "") {
  hush();
  $("voice-find").hidden = voices.length <= FEW;
  $("voice-filter").value = "";
  const automatic = { id: "", name: "Automatic", language: null };
  $("voice").replaceChildren(...[automatic, ...voices].map((voice) => {
    const sample = h("button", { type: "button", class: "sample" });
    sample.addEventListener("click", () => toggle(sample, voice, model));
    rest(sample, voice.name);
    return h("div", { class: "card" },
      h("label", {},
        h("input", { type: "radio", name: "voice", value: voice.id, checked: voice.id === chosen, onchange: () => on.change() }),
        h("span", {}, h("b", {}, voice.name), h("span", { class: "quiet" }, voice.id ? about(voice) : "The model’s choice"))),
      sample);
  }));
  if (!chosenVoice()) $("voice").querySelector("input").checked = true;
  $("voice-none").hidden = true;
}

const rest = (button, name) => dress(button, "play", name === "Automatic" ? "Hear the model’s choice" : `Hear ${name}`);

/** Stop the sample that is heard. */
export function hush() {
  audio.pause();
  if (sounding) rest(sounding.button, sounding.name);
  sounding = null;
}

async function toggle(button, voice, model) {
  const again = sounding?.button === button;
  hush();
  if (again) return;
  sounding = { button, name: voice.name };
  dress(button, "stop", `Stop ${voice.name}`);
  on.error(null);
  const own = sounding;
  try {
    const address = await sample(voice, model, () => sounding === own);
    if (sounding !== own) return;
    on.begin();
    audio.src = address;
    await audio.play();
  } catch (error) {
    // Another one was begun, or this one was stopped.
    if (sounding !== own || error.name === "AbortError") return;
    hush();
    on.error(error);
  }
}

/** The address of a sample's sound, which is asked for once. */
function sample(voice, model, wanted) {
  const name = JSON.stringify([model, voice.id]);
  if (!samples.has(name)) {
    const coming = fetchSample(voice, model, wanted);
    samples.set(name, coming);
    coming.catch(() => samples.delete(name));
  }
  return samples.get(name);
}

async function fetchSample(voice, model, wanted) {
  const input = SENTENCES[voice.language?.split("-")[0]] ?? SENTENCES.en;
  const body = JSON.stringify({ input, model, ...(voice.id && { voice: voice.id }), response_format: "wav" });
  let waited = false;
  const sound = await whenLoaded(async () => {
    const reply = await request("/v1/audio/speech", { method: "POST", headers: { "content-type": "application/json" }, body });
    if (!reply.ok) throw failure(reply, await reply.json().catch(() => null));
    return reply.blob();
  }, (error) => {
    waited = true;
    return wanted() && on.wait(error);
  }).finally(() => waited && on.wait(null));
  return URL.createObjectURL(sound);
}

const parts = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

audio.addEventListener("ended", hush);
// Enter would send the form, and speak.
$("voice-filter").addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
$("voice-filter").addEventListener("input", () => {
  const wanted = parts($("voice-filter").value);
  let found = 0;
  for (const card of $("voice").children) {
    const own = parts([...card.querySelectorAll("label span span, b")].map(({ textContent }) => textContent).join(" "));
    // By the beginnings of words: “man” is not within “woman”.
    card.hidden = !wanted.every((part) => own.some((word) => word.startsWith(part)));
    found += !card.hidden;
  }
  $("voice-none").hidden = found > 0;
});
