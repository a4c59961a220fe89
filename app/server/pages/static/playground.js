// The playground: a text, options from the server, speech over the WebSocket, and what is seen of it.
import { loadingLine, progressOf, whenLoaded } from "./api.js";
import { setUpBook } from "./book.js";
import { setUpCode, showCode } from "./code.js";
import { $, duration } from "./dom.js";
import { showError } from "./errors.js";
import { setUpExamples } from "./examples.js";
import { remember, setUpHistory } from "./history.js";
import { setUpKey } from "./key.js";
import { chosen, loadOptions, loadVoices, models, onVoice, settings, setUpOptions, speed } from "./options.js";
import { changeReading, setUpReading } from "./reading.js";
import { begin, download, finish, hearAudio, hearChunk, hearReady, isPlaying, pause, replay, result, setUpResult, silence } from "./result.js";
import { watchState } from "./state.js";
import { SpeechStream } from "./stream.js";
import { hush, setUpVoices } from "./voices.js";

let stream = null;
// Counts presses of Speak and Stop: what waits for an older one ends.
let turn = 0;
let busy = false;
// What the server said changes nothing in the speech.
let unused = new Set();

const complain = (error) => showError($("error"), error);
const say = (line) => { $("progress").textContent = line; };
const waitFor = (error) => say(error ? loadingLine(models, progressOf(error)) : "");

async function speak() {
  stop();
  hush();
  complain(null);
  const text = $("text").value;
  if (!text.trim()) {
    complain({ code: "empty_input" });
    $("text").focus();
    return;
  }
  const own = turn;
  const started = performance.now();
  try {
    // Within the click, or browsers let nothing be heard.
    begin(text);
  } catch (error) {
    complain(error);
    return;
  }
  setBusy(true);
  say("Speaking…");
  bringIntoView();
  try {
    const done = await whenLoaded(() => once(text, started, own), (error) => own === turn && (waitFor(error), true));
    finish(done);
    remember(result);
    const told = unused.size ? ` Not used: ${[...unused].join(", ")}.` : "";
    say(`${duration(done.audio_duration)} of speech; first sound after ${duration(result.firstHere)}.${told}`);
  } catch (error) {
    if (own !== turn) return;
    finish();
    say("");
    complain(error);
  }
  if (own === turn) setBusy(false);
}

/** One request; returns its last event. */
function once(text, started, own) {
  return new Promise((done, error) => {
    unused = new Set();
    stream = new SpeechStream(chosen(), text, {
      loading: (event) => say(loadingLine(models, event)),
      ready(event) {
        hearReady(event);
        say("Speaking…");
      },
      warning: ({ ignored }) => ignored.forEach((each) => unused.add(each)),
      chunk: hearChunk,
      audio: (samples) => hearAudio(samples, (performance.now() - started) / 1000),
      done: (event) => own === turn && done(event),
      error,
    });
  });
}

function stop() {
  turn += 1;
  stream?.cancel();
  stream = null;
  if (busy) finish();
  silence();
  setBusy(false);
  say("");
}

function setBusy(now) {
  busy = now;
  $("form").setAttribute("aria-busy", String(busy));
  showStop();
}

function showStop() {
  $("stop").disabled = !busy && !isPlaying();
}

function bringIntoView() {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  $("listen").scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

const body = () => ({ input: $("text").value, ...chosen(), response_format: "wav" });

/** What tells how the text is read; a translation is read in its place. */
function reading() {
  const { model, voice, lang, translate_to, lexicon } = chosen();
  return translate_to || !model ? null : { input: $("text").value, model, voice, lang, lexicon };
}

function onEdit() {
  const count = [...$("text").value].length;
  $("count").textContent = `${count.toLocaleString()} of ${settings.max_input_characters.toLocaleString()} characters`;
  $("speed-shown").textContent = speed().toFixed(2);
  $("translator-field").hidden = !$("translate").value;
  showCode(body());
  changeReading();
}

setUpResult(showStop);
setUpCode(body);
setUpReading(reading);
setUpHistory({
  play(earlier) {
    stop();
    replay(earlier);
    bringIntoView();
  },
  download,
});
setUpVoices({ change: onVoice, error: complain, wait: waitFor, begin: pause });
setUpOptions({ change: onEdit, error: complain, wait: waitFor });
setUpExamples((text) => {
  $("text").value = text;
  complain(null);
  onEdit();
}, complain, () => settings.max_input_characters);

$("form").addEventListener("submit", (event) => { event.preventDefault(); speak(); });
$("form").addEventListener("input", onEdit);
$("model").addEventListener("change", () => loadVoices());
$("stop").addEventListener("click", stop);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) stop();
  else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    speak();
  }
});

// On a phone the result comes soon after the text; what is seldom changed waits behind one line.
$("settings").open = matchMedia("(min-width: 60rem)").matches;
onEdit();
watchState($("state"));
let offered = false;
function offerBook() {
  if (!settings.jobs || offered) return;
  offered = true;
  setUpBook(chosen);
}
const load = () => loadOptions().then(offerBook).catch(complain).finally(onEdit);
setUpKey(load);
load();
