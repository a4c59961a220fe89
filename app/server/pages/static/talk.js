// The page of conversations: OpenAI's realtime protocol with a microphone, captions, interruption and one tool.
import { getJson } from "./api.js";
import { $, duration, h } from "./dom.js";
import { showError } from "./errors.js";
import { protocols, renewed, setUpKey } from "./key.js";
import { Microphone } from "./microphone.js";
import { offerModels } from "./models.js";
import { Player } from "./player.js";

// Hz of the protocol's samples.
const RATE = 24_000;
// Messages that stay on the page.
const MAX_MESSAGES = 200;
const TOOLS = {
  current_time: {
    description: "Return the date and the time of day where the user is.",
    run: () => new Date().toLocaleString("en", { dateStyle: "full", timeStyle: "short" }),
  },
};

let session = null;
let wordsInterrupt = false;

class Session {
  constructor(microphone) {
    this.microphone = microphone;
    this.player = null;
    // The messages on the page, and where in the sound of the player those of the model begin, by the item's id.
    this.messages = new Map();
    this.begins = new Map();
    this.calls = [];
    this.ended = false;
  }

  open() {
    const address = new URL("/v1/realtime", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    address.searchParams.set("model", $("model").value);
    this.socket = new WebSocket(address, protocols());
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.socket.onclose = (event) => this.closed(event);
    say("Loading the models…");
  }

  send(type, fields = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, ...fields }));
  }

  take(event) {
    const act = {
      "session.created": () => this.send("session.update", { session: chosen() }),
      "session.updated": () => this.player || this.begin(),
      "input_audio_buffer.speech_started": () => this.spoken(),
      "input_audio_buffer.speech_stopped": () => { this.stoppedAt = performance.now(); say("Thinking…"); },
      "conversation.item.input_audio_transcription.delta": () => this.write(event.item_id, "you", event.delta),
      "conversation.item.input_audio_transcription.failed": () => showError($("error"), event.error),
      "conversation.item.deleted": () => { this.messages.get(event.item_id)?.remove(); this.messages.delete(event.item_id); },
      "conversation.item.truncated": () => { if (wordsInterrupt) this.silence(); },
      "response.created": () => { this.response = event.response.id; $("interrupt").disabled = false; },
      "response.output_audio_transcript.delta": () => this.write(event.item_id, "model", event.delta),
      "response.output_audio.delta": () => this.hear(event),
      "response.function_call_arguments.done": () => this.calls.push(event),
      "response.done": () => this.done(event.response),
      // The answer may have ended before the server read that it is to end.
      "error": () => event.error.code === "response_cancel_not_active" || showError($("error"), event.error),
    }[event.type];
    act?.();
  }

  begin() {
    this.player = new Player(RATE);
    for (const id of ["text", "send"]) $(id).disabled = false;
    say("Speak now.");
    const append = (piece) => this.send("input_audio_buffer.append", { audio: base64(piece) });
    this.microphone.feed(this.socket, () => true, append, (error) => {
      showError($("error"), error);
      this.close();
    });
  }

  /** Show more of a message of one side. */
  write(item, side, text) {
    let message = this.messages.get(item);
    if (!message) {
      message = h("li", { class: side }, h("p", { class: "quiet" }, side === "you" ? "You" : "Model"), h("p", { class: "target" }));
      this.messages.set(item, message);
      $("said").append(message);
      while ($("said").children.length > MAX_MESSAGES) $("said").firstChild.remove();
    }
    message.lastChild.textContent += text;
    message.scrollIntoView({ block: "nearest" });
  }

  hear({ item_id: item, delta }) {
    if (!this.player.active) this.player.clear();
    if (!this.begins.has(item)) this.begins.set(item, this.player.queued);
    this.item = item;
    const bytes = Uint8Array.from(atob(delta), (letter) => letter.charCodeAt(0));
    this.player.push(Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768));
    if (this.stoppedAt !== undefined) {
      $("latency").textContent = `${duration((performance.now() - this.stoppedAt) / 1000)} after you, the answer began.`;
      this.stoppedAt = undefined;
    }
    say("");
  }

  /** Somebody speaks: what is being played ends, unless the server waits for words. */
  spoken() {
    say("Listening…");
    if (!wordsInterrupt) this.silence();
  }

  /** Stop the sound, and tell the server what was heard of it. */
  silence() {
    if (!this.player?.active) return;
    const heard = Math.max(0, this.player.position - (this.begins.get(this.item) ?? 0));
    this.player.clear();
    if (!wordsInterrupt) this.send("conversation.item.truncate", { item_id: this.item, content_index: 0, audio_end_ms: Math.round(heard * 1000) });
  }

  interrupt() {
    if (this.response) this.send("response.cancel", { response_id: this.response });
    this.silence();
    this.response = null;
    $("interrupt").disabled = true;
  }

  done(response) {
    this.response = null;
    if (!this.player?.active) $("interrupt").disabled = true;
    if (response.status === "failed") showError($("error"), response.status_details.error);
    if (!this.calls.length) return;
    for (const { call_id, name, arguments: given } of this.calls.splice(0)) {
      const output = TOOLS[name]?.run() ?? `There is no tool ${name}.`;
      $("calls-panel").hidden = false;
      $("calls").append(h("li", {}, h("p", {}, h("code", {}, `${name}(${given})`)), h("p", { class: "quiet" }, output)));
      this.send("conversation.item.create", { item: { type: "function_call_output", call_id, output } });
    }
    this.send("response.create");
  }

  ask(text) {
    this.interrupt();
    this.stoppedAt = performance.now();
    const item = { id: `item_${crypto.randomUUID().replaceAll("-", "").slice(0, 24)}`, type: "message", role: "user" };
    this.write(item.id, "you", text);
    this.send("conversation.item.create", { item: { ...item, content: [{ type: "input_text", text }] } });
    this.send("response.create");
  }

  close() {
    this.ended = true;
    this.player?.clear();
    this.socket.close(1000);
  }

  async closed({ code, reason }) {
    this.microphone.close();
    if (session !== this) return;
    session = null;
    $("start").disabled = false;
    for (const id of ["stop", "interrupt", "text", "send"]) $(id).disabled = true;
    say("");
    if (this.ended) return;
    if (!this.player && await renewed()) return;
    if ($("error").hidden) showError($("error"), { message: reason || "The connection was closed before the end.", code });
  }
}

function base64(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer)));
}

function chosen() {
  const parameters = { type: "object", properties: {} };
  return {
    type: "realtime",
    instructions: $("instructions").value,
    tools: $("tools").checked ? Object.entries(TOOLS).map(([name, { description }]) => ({ type: "function", name, description, parameters })) : [],
    audio: {
      input: { transcription: $("recognizer").value ? { model: $("recognizer").value } : {} },
      output: $("voice").value ? { voice: $("voice").value } : {},
    },
  };
}

function say(text) {
  $("state").textContent = text;
}

async function start() {
  showError($("error"), null);
  $("start").disabled = true;
  try {
    const microphone = await Microphone.open(RATE);
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
  const [{ interruption, llm }, { data: models }, { voices }] =
    await Promise.all([getJson("/playground/settings"), getJson("/v1/models"), getJson("/v1/audio/voices")]);
  wordsInterrupt = interruption === "words";
  $("voice").append(h("option", { value: "" }, "the default"), ...voices.map(({ id }) => h("option", { value: id }, id)));
  offerModels($("recognizer"), models, "speech-recognition", $("error"));
  if (llm) $("model").append(h("option", { value: llm }, llm));
  else offerModels($("model"), models, "text-generation", $("error"));
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
$("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (text) session?.ask(text);
  $("text").value = "";
});
$("stop").addEventListener("click", () => session?.close());
$("interrupt").addEventListener("click", () => session?.interrupt());
setUpKey(() => location.reload());
fillChoices().catch((error) => showError($("error"), error));
