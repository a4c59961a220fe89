// The interpreter's page: microphone in, subtitles in both languages, and the translation as sound.
import { getJson } from "./api.js";
import { $, duration, h } from "./dom.js";
import { showError } from "./errors.js";
import { protocols, renewed, setUpKey } from "./key.js";
import { Microphone } from "./microphone.js";
import { offerModels } from "./models.js";
import { Player } from "./player.js";

// Sentences that stay on the page.
const MAX_SENTENCES = 200;

let session = null;

class Session {
  constructor(microphone) {
    this.microphone = microphone;
    this.sentences = new Map();
    this.player = null;
    this.ended = false;
  }

  open() {
    const address = new URL("/v1/audio/interpret", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address, protocols());
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.send({ type: "start", input_rate: this.microphone.rate, ...chosen() });
    this.socket.onmessage = ({ data }) => (data instanceof ArrayBuffer ? this.hear(data) : this.take(JSON.parse(data)));
    this.socket.onclose = (event) => this.closed(event);
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  take(message) {
    const act = {
      loading: () => say(`Loading the model ${message.model}…`),
      ready: () => this.begin(message),
      partial: () => { $("hearing").textContent = message.committed + message.pending; },
      sentence: () => this.sentence(message),
      translation: () => this.translation(message),
      sentence_done: () => this.done(message),
      error: () => { this.failed = message.fatal; showError($("error"), message.error); },
      done: () => { this.ended = true; },
    }[message.type];
    act?.();
  }

  begin(ready) {
    this.player = new Player(ready.sample_rate);
    this.target = ready.target;
    say("Speak now.");
    this.microphone.feed(this.socket, () => !this.stopping, (piece) => this.socket.send(piece), (error) => {
      showError($("error"), error);
      this.close();
    });
  }

  sentence({ number, text }) {
    $("hearing").textContent = "";
    const target = h("p", { class: "target", lang: this.target });
    const entry = h("li", {}, h("p", { class: "quiet source" }, text), target);
    this.sentences.set(number, { entry, target });
    $("said").append(entry);
    while ($("said").children.length > MAX_SENTENCES) $("said").firstChild.remove();
    entry.scrollIntoView({ block: "nearest" });
  }

  translation({ number, text }) {
    const target = this.sentences.get(number)?.target;
    if (target) target.textContent += `${target.textContent ? " " : ""}${text}`;
  }

  done({ number, error, latency }) {
    const { entry } = this.sentences.get(number) ?? {};
    this.sentences.delete(number);
    if (error) entry?.append(h("p", { class: "failed" }, error.message));
    if (latency.spoken !== undefined) $("heard").textContent = `${duration(latency.spoken)} after you, the translation began.`;
  }

  hear(data) {
    const samples = Float32Array.from(new Int16Array(data), (sample) => sample / 32768);
    if (samples.length && !$("muted").checked) this.player?.push(samples);
  }

  mute(muted) {
    this.send({ type: "mute", muted });
    if (muted) this.player?.clear();
  }

  /** Interpret what was said, then end. */
  stop() {
    this.stopping = true;
    say("The last words are being translated…");
    this.microphone.close();
    this.send({ type: "end" });
  }

  close() {
    this.ended = true;
    this.socket.close(1000);
  }

  async closed({ code, reason }) {
    if (session !== this) return;
    session = null;
    if (!this.stopping) this.microphone.close();
    $("hearing").textContent = "";
    $("start").disabled = false;
    $("stop").disabled = true;
    say("");
    if (this.ended || this.failed) return;
    if (!this.player && await renewed()) return;
    showError($("error"), { message: reason || "The connection was closed before the end.", code });
  }
}

function chosen() {
  const value = (id) => $(id).value || null;
  return {
    target: $("target").value,
    source: value("source"),
    recognition_model: value("recognizer"),
    translate_model: value("translator"),
    model: value("speaker"),
    muted: $("muted").checked,
    ...(!$("cloning").hidden && $("clone").checked ? { clone_voice: true, consent: true } : {}),
  };
}

function say(text) {
  $("state").textContent = text;
}

async function start() {
  showError($("error"), null);
  $("start").disabled = true;
  try {
    const microphone = await Microphone.open();
    session?.close();
    session = new Session(microphone);
    session.open();
    $("stop").disabled = false;
  } catch (error) {
    $("start").disabled = false;
    showError($("error"), error);
  }
}

async function fillChoices() {
  const [{ languages }, { data: models }] = await Promise.all([getJson("/playground/settings"), getJson("/v1/models")]);
  for (const place of ["source", "target"]) {
    $(place).append(...languages.map(({ tag, name }) => h("option", { value: tag }, name)));
  }
  const preferred = navigator.languages.map((tag) => tag.split("-")[0]).find((tag) => tag !== "en") ?? "fr";
  $("target").value = languages.find(({ tag }) => tag.split("-")[0] === preferred)?.tag ?? languages[0].tag;
  const kinds = { recognizer: "speech-recognition", translator: "translation", speaker: "text-to-speech" };
  for (const [id, kind] of Object.entries(kinds)) offerModels($(id), models, kind, $("error"));
  const offerCloning = () => { $("cloning").hidden = !models.find(({ id }) => id === $("speaker").value)?.cloning; };
  $("speaker").addEventListener("change", offerCloning);
  offerCloning();
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
$("stop").addEventListener("click", () => {
  $("stop").disabled = true;
  session?.stop();
});
$("muted").addEventListener("change", () => session?.mute($("muted").checked));
setUpKey(() => location.reload());
fillChoices().catch((error) => showError($("error"), error));
