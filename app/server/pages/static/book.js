// A document to an audiobook: a job of the server, followed until it ends.
import { getJson } from "./api.js";
import { $, bytes, duration, h } from "./dom.js";
import { showError } from "./errors.js";
import { key, request } from "./key.js";

// Milliseconds between two looks at the job.
const AGAIN = 1000;
// Options of speech that a job takes, too.
const OPTIONS = ["model", "voice", "lang", "any_language", "translate_to", "translate_model", "speed", "seed"];
const ENDED = ["completed", "failed", "cancelled", "expired"];

let job = null;

/** Show the form; `options()` are those that are chosen for speech. */
export function setUpBook(options) {
  $("book").hidden = false;
  $("book-form").addEventListener("submit", (event) => { event.preventDefault(); make(options()); });
  $("book-cancel").addEventListener("click", () => getJson(`/v1/jobs/${job.id}/cancel`, { method: "POST" }).catch(complain));
}

const complain = (error) => showError($("book-error"), error);

async function make(options) {
  complain(null);
  $("book-files").replaceChildren();
  const body = new FormData();
  for (const name of OPTIONS) if (options[name] !== undefined) body.set(name, options[name]);
  body.set("format", $("book-format").value);
  body.set("file", $("document").files[0]);
  $("book-state").textContent = "Sending…";
  setBusy(true);
  try {
    job = await getJson("/v1/jobs", { method: "POST", body });
    while (!ENDED.includes(job.status)) {
      show();
      await new Promise((go) => setTimeout(go, AGAIN));
      job = await getJson(`/v1/jobs/${job.id}`);
    }
    show();
    if (job.status === "failed") complain(job.errors.data[0]);
    $("book-files").replaceChildren(...job.files.map((file) => h("li", {}, link(file))));
  } catch (error) {
    $("book-state").textContent = "";
    complain(error);
  }
  setBusy(false);
}

function setBusy(busy) {
  $("book-form").querySelector("button[type=submit]").disabled = busy;
  $("book-progress").hidden = !busy;
  $("book-cancel").hidden = !busy || job === null;
  if (!busy) job = null;
}

function show() {
  const { total, completed, failed } = job.request_counts;
  $("book-cancel").hidden = false;
  $("book-progress").value = job.progress;
  const out = failed ? `, ${failed} left out` : "";
  $("book-state").textContent = `${job.status.replace("_", " ")}: ${completed + failed} of ${total} passages${out}, ${duration(job.audio_seconds)} of audio`;
}

/** A link to a file. Where a key is needed the link cannot send it: the page fetches the file. */
function link(file) {
  const text = `${file.name}, ${bytes(file.bytes)}`;
  if (!key()) return h("a", { href: file.url, download: file.name }, text);
  return h("button", { type: "button", onclick: () => save(file).catch(complain) }, text);
}

async function save(file) {
  const reply = await request(file.url);
  if (!reply.ok) throw (await reply.json()).error;
  const url = URL.createObjectURL(await reply.blob());
  h("a", { href: url, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
