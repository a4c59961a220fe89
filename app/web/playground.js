// The playground: options from the server, speech over the WebSocket, and what is seen of it.
import { watchState } from "./state.js";
import { offerDeletion, setUpCloning } from "./cloning.js";
import { $, duration, h } from "./dom.js";
import { key, request, setUpKey } from "./key.js";
import { Picture } from "./picture.js";
import { Player } from "./player.js";
import { snippets } from "./snippets.js";
import { stageRows } from "./stages.js";
import { SpeechStream } from "./stream.js";
import { wav } from "./wav.js";
import { Words } from "./words.js";

const picture = new Picture($("wave"), $("spectrum"));
const words = new Words($("words"));
let settings = { languages: [], sampling: {}, max_input_characters: 20000 };
let models = [];
let voices = [];
let stream = null;
let player = null;
let pieces = [];
let rate = 24000;

// For tests, and for whoever is curious: what was received, and what is being played.
globalThis.playground = {
  get samples() { return pieces.reduce((sum, piece) => sum + piece.length, 0); },
  get peak() { return pieces.reduce((peak, piece) => piece.reduce((high, sample) => Math.max(high, Math.abs(sample)), peak), 0); },
  get position() { return player?.position ?? 0; },
  get starved() { return player?.starved ?? 0; },
  get pieces() { return pieces; },
  heardNow() {
    const samples = new Float32Array(2048);
    player?.analyser.getFloatTimeDomainData(samples);
    return samples.reduce((high, sample) => Math.max(high, Math.abs(sample)), 0);
  },
};

async function getJson(path) {
  const reply = await request(path);
  const body = await reply.json().catch(() => null);
  if (!reply.ok) throw body?.error ?? { message: `${path} answered ${reply.status}.` };
  return body;
}

function showError(error) {
  const place = $("error");
  place.hidden = !error;
  place.replaceChildren();
  if (!error) return;
  place.append(error.message ?? String(error));
  if (error.request_id) place.append(" ", h("code", {}, `${error.code ?? ""} ${error.request_id}`.trim()));
}

function option(value, label, chosen = false) {
  return h("option", { value, selected: chosen }, label);
}

const speed = () => Number((2 ** Number($("speed").value)).toFixed(2));

// Options.

async function loadOptions() {
  settings = await getJson("/playground/settings");
  ({ models } = await getJson("/v1/models"));
  const speaking = models.filter(({ kind }) => kind === "text-to-speech");
  const translating = models.filter(({ kind }) => kind === "translation");
  const usable = ({ status }) => status !== "absent" && status !== "failed";
  $("model").replaceChildren(...speaking.map((model) =>
    h("option", { value: model.id, selected: model.default, disabled: !usable(model), title: model.description },
      model.status === "ready" ? model.id : `${model.id} (${model.status})`)));
  const first = translating.find((model) => model.default && usable(model)) ?? translating.find(usable);
  $("translator").replaceChildren(...translating.map((model) =>
    h("option", { value: model.id, selected: model === first, disabled: !usable(model), title: model.description },
      usable(model) ? model.id : `${model.id} (${model.status})`)));
  $("translate").replaceChildren(option("", "–"), ...settings.languages.map(({ tag, name }) => option(tag, name)));
  $("lang").replaceChildren(option("", "the voice's own"), ...settings.languages.map(({ tag, name }) => option(tag, name)));
  await loadVoices();
  setUpCloning(models, (voice) => {
    // A new voice is heard at once, by a model that can.
    const able = models.find((model) => model.cloning && usable(model));
    if (voice && able && !models.find(({ id }) => id === $("model").value).cloning) $("model").value = able.id;
    loadVoices(voice);
  });
}

async function loadVoices(chosen = "") {
  const model = $("model").value;
  // A model that is not loaded begins to load when it is asked for.
  try {
    const listed = await getJson(`/v1/audio/voices?model=${encodeURIComponent(model)}`);
    if (model !== $("model").value) return;
    ({ voices } = listed);
    $("voice").replaceChildren(option("", "default"), ...voices.map((voice) => {
      const about = [voice.language, voice.gender, voice.kind === "cloned" && "cloned"].filter(Boolean).join(", ");
      return option(voice.id, about ? `${voice.name} (${about})` : voice.name, voice.id === chosen);
    }));
    showError(null);
    // What a model takes is known once it is loaded.
    ({ models } = await getJson("/v1/models"));
    showTuning();
  } catch (error) {
    voices = [];
    $("voice").replaceChildren(option("", "default"));
    showError(error);
    if (error.code === "model_loading") setTimeout(() => model === $("model").value && loadVoices(chosen), 1000);
  }
  onVoice();
}

function onVoice() {
  offerDeletion(voices.find(({ id, kind }) => id === $("voice").value && kind === "cloned") ?? null);
  showCode();
}

/** A field for each parameter that the model takes; an empty one leaves it to the model. */
function showTuning() {
  const taken = models.find(({ id }) => id === $("model").value)?.parameters ?? [];
  for (const field of [...$("tuning").children].slice(1)) field.remove();
  for (const name of taken.filter((each) => settings.sampling[each])) {
    const [low, high] = settings.sampling[name];
    $("tuning").append(h("div", {}, h("label", { for: name }, name.replaceAll("_", " ")),
      h("input", { id: name, name, type: "number", min: low, max: high, step: "any", placeholder: `${low} to ${high}` })));
  }
}

/** The options that were chosen, without those left as they are. */
function chosen() {
  const found = {};
  for (const [key, id] of [["model", "model"], ["voice", "voice"], ["lang", "lang"], ["translate_to", "translate"]]) {
    if ($(id).value) found[key] = $(id).value;
  }
  if (found.translate_to && $("translator").value) found.translate_model = $("translator").value;
  // Who chooses such a language here hears how it sounds: with an accent, where the model was not made for it.
  if (found.translate_to || found.lang) found.any_language = true;
  if (speed() !== 1) found.speed = speed();
  if (Number($("seed").value)) found.seed = Number($("seed").value);
  for (const { name, value } of $("tuning").querySelectorAll("input[name]")) if (value !== "") found[name] = Number(value);
  return found;
}

// Speaking.

function speak() {
  stop();
  const text = $("text").value;
  const started = performance.now();
  showError(null);
  clearResult();
  try {
    // Within the click, or browsers let nothing be heard.
    player ??= new Player(rate);
    player.context.resume();
  } catch (error) {
    showError(error);
    return;
  }
  setBusy(true);
  stream = new SpeechStream(chosen(), text, {
    ready(event) {
      $("request-id").textContent = event.request_id ?? "–";
      $("used").textContent = [event.model, event.voice, event.lang, event.watermark === "perth" && "watermarked"].filter(Boolean).join(", ");
      if (event.sample_rate !== rate) {
        rate = event.sample_rate;
        player.context.close();
        player = new Player(rate);
      }
      picture.clear(rate);
    },
    chunk(event) { words.add(event); },
    audio(samples) {
      if (!pieces.length) $("first-here").textContent = duration((performance.now() - started) / 1000);
      pieces.push(samples);
      picture.push(samples);
      player.push(samples);
      animate();
    },
    done(event) {
      setBusy(false);
      words.finish();
      showDone(event);
    },
    error(error) {
      setBusy(false);
      words.finish();
      showError(error);
    },
  });
}

function stop() {
  cancelAnimationFrame(frame);
  stream?.cancel();
  stream = null;
  player?.stop();
  setBusy(false);
}

function again() {
  player.stop();
  words.rewind();
  player.context.resume();
  for (const piece of pieces) player.push(piece);
  animate();
}

function setBusy(busy) {
  $("stop").disabled = !busy && !player?.playing;
  $("again").disabled = $("download").disabled = busy || !pieces.length;
  $("form").setAttribute("aria-busy", String(busy));
}

function clearResult() {
  pieces = [];
  words.clear();
  picture.clear(rate);
  picture.draw(0);
  for (const id of ["first-here", "first-server", "total", "rtf", "starved", "request-id"]) $(id).textContent = "–";
  $("used").textContent = "";
  $("heard").textContent = $("length").textContent = duration(0);
  $("stages").replaceChildren();
}

function showDone({ first_audio, total, real_time_factor, stages }) {
  $("first-server").textContent = duration(first_audio);
  $("total").textContent = duration(total);
  $("rtf").textContent = real_time_factor === null ? "–" : real_time_factor.toFixed(3);
  $("stages").replaceChildren(...stageRows(stages));
}

let frame = 0;

function animate() {
  cancelAnimationFrame(frame);
  const coming = stream !== null && !stream.finished;
  const ended = !player.playing && !coming;
  const position = ended ? player.queued : player.position;
  picture.draw(position);
  words.show(ended ? Infinity : position);
  $("heard").textContent = duration(position);
  $("length").textContent = duration(picture.seconds);
  $("starved").textContent = duration(player.starved);
  $("stop").disabled = ended;
  if (!ended) frame = requestAnimationFrame(animate);
}

// Code.

let language = "curl";

function showCode() {
  const body = { input: $("text").value, ...chosen(), response_format: "wav" };
  const found = snippets(body, location.origin, Boolean(key()));
  $("code").textContent = found[language];
  $("tabs").replaceChildren(...Object.keys(found).map((name) => h("button", {
    type: "button", role: "tab", "aria-selected": String(name === language), "aria-controls": "code",
    tabindex: name === language ? "0" : "-1",
    onclick: () => choose(name),
    onkeydown: (event) => {
      const names = Object.keys(found);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) choose(names[(names.indexOf(name) + step + names.length) % names.length], true);
    },
  }, name)));
}

function choose(name, focus = false) {
  language = name;
  showCode();
  if (focus) $("tabs").querySelector('[aria-selected="true"]').focus();
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("code").textContent);
    $("copied").textContent = "Copied.";
  } catch {
    // Not allowed, or not a secure page: select it, so that one key does it.
    getSelection().selectAllChildren($("code"));
    $("copied").textContent = "Selected; copy it with Ctrl+C.";
  }
}

function onEdit() {
  const count = [...$("text").value].length;
  $("count").textContent = `${count.toLocaleString()} of ${settings.max_input_characters.toLocaleString()} characters`;
  $("speed-shown").textContent = speed().toFixed(2);
  $("translator-field").hidden = !$("translate").value;
  $("copied").textContent = "";
  showCode();
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); speak(); });
$("form").addEventListener("input", onEdit);
$("model").addEventListener("change", () => loadVoices());
$("voice").addEventListener("change", onVoice);
$("stop").addEventListener("click", stop);
$("again").addEventListener("click", again);
$("download").addEventListener("click", () => {
  const link = h("a", { href: URL.createObjectURL(wav(pieces, rate)), download: "nightingale.wav" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
});
$("copy").addEventListener("click", copy);
addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    speak();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => picture.draw(player?.position ?? 0));
addEventListener("resize", () => picture.draw(player?.position ?? 0));

picture.draw(0);
onEdit();
watchState($("state"));
const load = () => loadOptions().catch(showError).finally(onEdit);
setUpKey(load);
load();
