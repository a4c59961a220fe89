// The page of transcription: a microphone or a recording in, its text out.
import { getJson, whenLoaded } from "./api.js";
import { dressCopy } from "./copy.js";
import { $, duration, h } from "./dom.js";
import { onDrop } from "./drop.js";
import { showError } from "./errors.js";
import { protocols, renewed, request, setUpKey } from "./key.js";
import { Microphone } from "./microphone.js";
import { offerModels } from "./models.js";


let session = null;
let lines = [];

/** A microphone that is listened to, over Deepgram's protocol: it takes samples of any rate. */
class Session {
  constructor(microphone) {
    this.microphone = microphone;
  }

  open() {
    const address = new URL("/v1/listen", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const form = { encoding: "linear16", sample_rate: this.microphone.rate, interim_results: true };
    address.search = new URLSearchParams({ ...form, ...chosen() });
    this.socket = new WebSocket(address, protocols());
    this.socket.onopen = () => this.begin();
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.socket.onclose = (event) => this.closed(event);
  }

  begin() {
    this.opened = true;
    say("Speak now.");
    this.microphone.feed(this.socket, () => !this.stopping, (piece) => this.socket.send(piece), (error) => {
      this.failed = true;
      showError($("error"), error);
      this.socket.close(1000);
    });
  }

  take(message) {
    if (message.type === "Metadata") this.ended = true;
    if (message.type === "Error") {
      this.failed = true;
      showError($("error"), { message: message.err_msg, code: message.err_code.toLowerCase(), request_id: message.request_id });
    }
    if (message.type === "Warning") showError($("error"), { message: message.description });
    if (message.type !== "Results") return;
    const text = message.channel.alternatives[0].transcript;
    $("hearing").textContent = message.is_final ? "" : text;
    if (message.is_final && text) add({ start: message.start, end: message.start + message.duration, text });
  }

  /** Have the last words written, then end. */
  stop() {
    this.stopping = true;
    say("The last words are being written…");
    this.microphone.close();
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "CloseStream" }));
    else this.socket.close();
  }

  async closed({ code, reason }) {
    if (session !== this) return;
    session = null;
    if (!this.stopping) this.microphone.close();
    rest();
    if (this.ended || this.failed || (this.stopping && !this.opened)) return;
    if (!this.opened && await renewed()) return;
    const told = this.opened ? null : await refusal();
    showError($("error"), told ?? { message: reason || "The connection was closed before the end.", code });
  }
}

/** Why a handshake fails, which says no reason to a page: the same request without a socket does. */
async function refusal() {
  const reply = await request(`/v1/listen?${new URLSearchParams(chosen())}`, { method: "POST" }).catch(() => null);
  const { err_msg: message, err_code: code } = (await reply?.json().catch(() => null)) ?? {};
  return message ? { message, code: code.toLowerCase() } : null;
}

function chosen() {
  const fields = { model: $("recognizer").value, language: $("language").value };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
}

function say(text) {
  $("state").textContent = text;
}

function add(line) {
  lines.push(line);
  const entry = h("li", {}, h("span", { class: "quiet" }, duration(line.start)), h("p", { class: "target" }, line.text.trim()));
  $("said").append(entry);
  entry.scrollIntoView({ block: "nearest" });
  $("copy").disabled = $("save").disabled = false;
}

function prepare() {
  showError($("error"), null);
  lines = [];
  $("said").replaceChildren();
  for (const id of ["start", "open", "copy", "save"]) $(id).disabled = true;
}

function rest() {
  $("hearing").textContent = "";
  $("start").disabled = $("open").disabled = false;
  $("stop").disabled = true;
  say("");
}

async function start() {
  prepare();
  try {
    session = new Session(await Microphone.open());
    session.open();
    $("stop").disabled = false;
  } catch (error) {
    rest();
    showError($("error"), error);
  }
}

async function read(file) {
  prepare();
  say(`Writing down ${file.name}…`);
  const body = new FormData();
  for (const [name, value] of Object.entries({ model: "whisper-1", ...chosen(), response_format: "verbose_json" })) body.set(name, value);
  body.set("file", file);
  try {
    const ask = () => getJson("/v1/audio/transcriptions", { method: "POST", body });
    const { segments, warning } = await whenLoaded(ask, () => say("Loading the recognition model…"));
    segments.forEach(add);
    if (warning) showError($("error"), { message: warning });
    else if (!segments.length) showError($("error"), { message: "Nothing was said in this recording." });
  } catch (error) {
    showError($("error"), error);
  }
  rest();
}

/** The lines as SubRip subtitles. */
function subtitles() {
  const time = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 23).replace(".", ",");
  return lines.map(({ start: from, end, text }, k) => `${k + 1}\n${time(from)} --> ${time(end)}\n${text.trim()}\n`).join("\n");
}

function save() {
  const address = URL.createObjectURL(new Blob([subtitles()], { type: "application/x-subrip" }));
  h("a", { href: address, download: "transcript.srt" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

async function fillChoices() {
  const { data: models } = await getJson("/v1/models");
  const usable = offerModels($("recognizer"), models, "speech-recognition", $("error"));
  const tags = [...new Set(usable.flatMap(({ languages }) => languages ?? []))];
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  const named = (tag) => { try { return names.of(tag); } catch { return tag; } };
  const options = tags.map((tag) => [tag, named(tag)]).sort(([, a], [, b]) => a.localeCompare(b));
  $("language").append(...options.map(([tag, name]) => h("option", { value: tag }, name)));
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); start(); });
$("stop").addEventListener("click", () => { $("stop").disabled = true; session?.stop(); });
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => $("file").files[0] && read($("file").files[0]));
$("save").addEventListener("click", save);
dressCopy($("copy"), () => lines.map(({ text }) => text.trim()).join("\n"), "Copy the transcript");
onDrop((file) => !$("open").disabled && (read(file), true), $("form"));
setUpKey(() => location.reload());
fillChoices().catch((error) => showError($("error"), error));
