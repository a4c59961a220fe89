// What can be chosen: models, their voices and languages, translation, and what a model takes besides.
import { getJson, whenLoaded } from "./api.js";
import { offerDeletion, setUpCloning } from "./cloning.js";
import { $, h } from "./dom.js";
import { dressCopy } from "./copy.js";
import { lexicon } from "./reading.js";
import { chosenVoice, languageName, nameLanguages, showVoices } from "./voices.js";

export let settings = { languages: [], sampling: {}, max_input_characters: 20000 };
export let models = [];
let voices = [];
// The languages that the chosen voice was made for.
let spoken = [];
let on = { change() {}, error() {}, wait() {} };

/** `change()`: something else may be chosen now; `error(error)`: the server said no, null: not any more;
 * `wait(error)`: a model loads, null: it does not any more. */
export function setUpOptions(actions) {
  on = actions;
}

const usable = ({ status }) => status !== "absent" && status !== "failed";
const NOTES = { absent: "not installed", failed: "failed", loading: "loading", unloading: "being unloaded", available: "loads when used" };

function modelOption(model, selected) {
  const notes = [NOTES[model.status], model.commercial_use ? "" : "no commercial use"].filter(Boolean).join(", ");
  return h("option", { value: model.id, selected, disabled: !usable(model), title: model.error ?? model.description }, notes ? `${model.id} (${notes})` : model.id);
}

const option = (value, label, selected = false) => h("option", { value, selected }, label);

/** Ask the server what there is, and show it. */
export async function loadOptions() {
  settings = await getJson("/playground/settings");
  ({ models } = await getJson("/v1/models"));
  nameLanguages(settings.languages);
  const speaking = models.filter(({ kind }) => kind === "text-to-speech");
  const translating = models.filter(({ kind }) => kind === "translation");
  const first = translating.find((model) => model.default && usable(model)) ?? translating.find(usable);
  $("model").replaceChildren(...speaking.map((model) => modelOption(model, model.default)));
  $("translator").replaceChildren(...translating.map((model) => modelOption(model, model === first)));
  showAbsent(models.filter(({ status }) => status === "absent"));
  await loadVoices();
  setUpCloning(models, (voice) => {
    // A new voice is heard at once, by a model that can.
    const able = models.find((model) => model.cloning && usable(model));
    if (voice && able && !current()?.cloning) $("model").value = able.id;
    loadVoices(voice);
  });
}

const current = () => models.find(({ id }) => id === $("model").value);

/** Show the voices of the chosen model. One that is not loaded begins to load when it is asked for. */
export async function loadVoices(chosen = "") {
  const model = $("model").value;
  const left = () => model !== $("model").value;
  on.error(null);
  try {
    const listed = await whenLoaded(() => getJson(`/v1/audio/voices?model=${encodeURIComponent(model)}`), (error) => !left() && on.wait(error));
    if (left()) return;
    ({ voices } = listed);
    // What a model takes is known once it is loaded.
    ({ models } = await getJson("/v1/models"));
  } catch (error) {
    if (left()) return;
    voices = [];
    on.error(error);
  }
  on.wait(null);
  showVoices(voices, model, chosen);
  showTuning();
  onVoice();
}

/** The chosen voice changed. */
export function onVoice() {
  const voice = voices.find(({ id }) => id === chosenVoice());
  offerDeletion(voice?.kind === "cloned" ? voice : null);
  showLanguages(voice);
  on.change();
}

/** Offer the languages that the voice speaks, or the model; a translation may be into others, with an accent. */
function showLanguages(voice) {
  const own = voices.map(({ language }) => language).filter(Boolean);
  spoken = [...new Set(voice?.languages ?? current()?.languages ?? own)];
  const rest = settings.languages.map(({ tag }) => tag).filter((tag) => !spoken.includes(tag));
  const offered = (tags) => tags.map((tag) => option(tag, languageName(tag)));
  const [lang, translate] = [$("lang").value, $("translate").value];
  $("lang").replaceChildren(option("", "Automatic"), ...offered(spoken));
  $("translate").replaceChildren(option("", "None"), ...offered(spoken),
    ...(rest.length && spoken.length ? [h("optgroup", { label: "With a foreign accent" }, ...offered(rest))] : offered(rest)));
  // What was chosen stays, where it is still there.
  if (spoken.includes(lang)) $("lang").value = lang;
  $("translate").value = translate;
}

/** A field for each parameter that the model takes; an empty one leaves it to the model. */
function showTuning() {
  for (const field of [...$("tuning").children].slice(1)) field.remove();
  for (const name of (current()?.parameters ?? []).filter((each) => settings.sampling[each])) {
    const [low, high] = settings.sampling[name];
    $("tuning").append(h("div", {}, h("label", { for: name }, name.replaceAll("_", " ")),
      h("input", { id: name, name, type: "number", min: low, max: high, step: "any", placeholder: `${low} to ${high}` })));
  }
}

/** Models that are known and not on this machine, each with how it gets here. */
function showAbsent(absent) {
  $("more-models").hidden = !absent.length;
  $("absent").replaceChildren(...absent.map((model) => {
    const button = h("button", { type: "button" }, "Copy");
    const command = model.install_command && h("div", { class: "command" }, h("code", {}, model.install_command), button);
    if (command) dressCopy(button, () => model.install_command, `Copy the command for ${model.id}`);
    const use = model.commercial_use ? "commercial use is allowed" : "no commercial use";
    return h("li", {}, h("b", {}, model.id), h("p", { class: "quiet" }, `${model.description}. License: ${model.license}; ${use}.`),
      command || h("p", { class: "quiet" }, model.install_hint ?? ""));
  }));
}

export const speed = () => Number((2 ** Number($("speed").value)).toFixed(2));

/** The options that were chosen, without those left as they are. */
export function chosen() {
  const found = {};
  const given = { model: $("model").value, voice: chosenVoice(), lang: $("lang").value, translate_to: $("translate").value };
  for (const [name, value] of Object.entries(given)) if (value) found[name] = value;
  if (found.translate_to && $("translator").value) found.translate_model = $("translator").value;
  // Chosen among those with an accent: the server refuses them unless told.
  if (found.translate_to && !spoken.includes(found.translate_to)) found.any_language = true;
  if (speed() !== 1) found.speed = speed();
  if (Number($("seed").value)) found.seed = Number($("seed").value);
  for (const { name, value } of $("tuning").querySelectorAll("input[name]")) if (value !== "") found[name] = Number(value);
  const readings = lexicon();
  if (Object.keys(readings).length) found.lexicon = readings;
  return found;
}
