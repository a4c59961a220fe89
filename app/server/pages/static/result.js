// A result as it is seen and heard: the player, the words, the pictures and the times. It grows while it is spoken, and
// can be shown again.
import { $, duration } from "./dom.js";
import { dress } from "./icons.js";
import { Picture } from "./picture.js";
import { Player } from "./player.js";
import { stageRows } from "./stages.js";
import { wav } from "./wav.js";
import { Words } from "./words.js";

const picture = new Picture($("wave"), $("spectrum"));
const words = new Words($("words"));
let player = null;
let frame = 0;
let grows = false;
/** What is shown: {text, about, pieces, chunks, rate, ready, done, firstHere}. */
export let result = null;
let onPlaying = () => {};

/** `change()` is called when playing begins or ends. */
export function setUpResult(change) {
  onPlaying = change;
}

// For tests, and for whoever is curious: what was received, and what is being played.
globalThis.playground = {
  get samples() { return this.pieces.reduce((sum, piece) => sum + piece.length, 0); },
  get peak() { return this.pieces.reduce((peak, piece) => piece.reduce((high, sample) => Math.max(high, Math.abs(sample)), peak), 0); },
  get position() { return player?.position ?? 0; },
  get starved() { return player?.starved ?? 0; },
  get pieces() { return result?.pieces ?? []; },
  heardNow() {
    const samples = new Float32Array(2048);
    player?.analyser.getFloatTimeDomainData(samples);
    return samples.reduce((high, sample) => Math.max(high, Math.abs(sample)), 0);
  },
};

function ready(rate) {
  if (player?.rate !== rate) {
    player?.close();
    player = new Player(rate, Number($("volume").value));
  }
  player.clear();
  picture.clear(rate);
}

/** Begin a result of `text`. Call it within a click, or browsers let nothing be heard. */
export function begin(text) {
  const rate = player?.rate ?? 24000;
  ready(rate);
  result = { text, about: "", pieces: [], chunks: [], rate, ready: null, done: null, firstHere: null };
  grows = true;
  showEmpty();
}

function showEmpty() {
  cancelAnimationFrame(frame);
  words.clear();
  $("result").hidden = $("times").hidden = false;
  $("invitation").hidden = true;
  for (const id of ["first-here", "first-server", "total", "rtf", "starved", "request-id"]) $(id).textContent = "–";
  $("used").textContent = "";
  $("stages").replaceChildren();
  showPosition(0);
  showButtons();
}

function showNothing() {
  $("result").hidden = $("times").hidden = true;
  // The player held the only one of before.
  $("history").hidden = !$("history-list").children.length;
  $("invitation").hidden = !$("history").hidden;
}

export function hearReady(event) {
  result.ready = event;
  result.about = [event.voice, event.model, event.watermark === "perth" && "watermarked"].filter(Boolean).join(", ");
  if (event.sample_rate !== result.rate) {
    result.rate = event.sample_rate;
    ready(result.rate);
  }
  showReady();
}

function showReady() {
  $("request-id").textContent = result.ready?.request_id ?? "–";
  $("used").textContent = result.about;
}

export function hearChunk(event) {
  result.chunks.push(event);
  words.add(event);
}

export function hearAudio(samples, seconds) {
  if (!result.pieces.length) {
    result.firstHere = seconds;
    $("first-here").textContent = duration(seconds);
  }
  result.pieces.push(samples);
  picture.push(samples);
  player.push(samples);
  animate();
}

/** Nothing more comes; `done` is the server's last event, null after an error. */
export function finish(done = null) {
  grows = false;
  if (!result) return;
  result.done = done;
  words.finish();
  // Nothing was heard: an empty player and times without figures say nothing.
  if (!result.pieces.length) showNothing();
  showDone();
  showButtons();
}

function showDone() {
  if (!result.done) return;
  const { first_audio, total, real_time_factor, stages } = result.done;
  $("first-server").textContent = duration(first_audio);
  $("total").textContent = duration(total);
  $("rtf").textContent = real_time_factor === null ? "–" : real_time_factor.toFixed(3);
  $("stages").replaceChildren(...stageRows(stages));
}

/** Show and play a result of before. */
export function replay(earlier) {
  result = earlier;
  grows = false;
  ready(result.rate);
  showEmpty();
  showReady();
  $("first-here").textContent = duration(result.firstHere);
  for (const event of result.chunks) words.add(event);
  words.finish();
  for (const piece of result.pieces) {
    picture.push(piece);
    player.push(piece);
  }
  showDone();
  animate();
}

/** Stop playing; what was received stays. */
export function silence() {
  cancelAnimationFrame(frame);
  player?.begin(0);
  if (!result) return;
  words.rewind();
  showPosition(0);
  showButtons();
}

/** Hold a result that is heard; it goes on where it stopped. */
export function pause() {
  if (isPlaying()) toggle();
}

export const isPlaying = () => Boolean(player?.playing);

function animate() {
  cancelAnimationFrame(frame);
  const ended = !player.active && !grows;
  const position = ended ? player.queued : player.position;
  showPosition(position);
  words.show(ended ? Infinity : position);
  $("starved").textContent = duration(player.starved);
  showButtons();
  if (!ended && !player.paused) frame = requestAnimationFrame(animate);
}

function showPosition(position) {
  picture.draw(position);
  $("heard").textContent = duration(position);
  $("length").textContent = duration(picture.seconds);
  // While it grows, the end of the scale is where the picture ends.
  $("seek").max = Math.max(picture.seconds, 0.01);
  $("seek").value = position;
  $("seek").setAttribute("aria-valuetext", `${duration(position)} of ${duration(picture.seconds)}`);
}

let shown = "";

function showButtons() {
  const playing = isPlaying() || (grows && !player?.paused);
  const state = [playing, grows, result?.pieces.length > 0].join();
  if (state === shown) return;
  shown = state;
  dress($("play"), playing ? "pause" : "play", playing ? "Pause" : "Play");
  $("play").disabled = $("seek").disabled = !result?.pieces.length;
  $("download").disabled = grows || !result?.pieces.length;
  onPlaying();
}

function toggle() {
  if (isPlaying()) player.pause();
  else {
    if (!player.active) words.rewind();
    player.play();
  }
  animate();
}

function seek() {
  const position = Number($("seek").value);
  words.rewind();
  player.seek(Math.min(position, player.queued));
  animate();
}

/** Save the sound of `what` as a file. */
export function download(what = result) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(wav(what.pieces, what.rate)), download: "nightingale.wav" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

$("play").addEventListener("click", toggle);
$("seek").addEventListener("input", seek);
$("volume").addEventListener("input", () => { if (player) player.volume = Number($("volume").value); });
$("download").addEventListener("click", () => download());
dress($("play"), "play", "Play");
dress($("download"), "download", "Download as WAV");
const redraw = () => picture.draw(player?.position ?? 0);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
addEventListener("resize", redraw);
