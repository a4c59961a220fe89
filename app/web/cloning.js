// A voice from a recording, where a model of this server can make one.
import { $ } from "./dom.js";
import { request } from "./key.js";

let changed = () => {};
let chosen = null;

/** Show the form if one of `models` makes voices; `onChange(id)` is called with a new voice, and with "" after a deletion. */
export function setUpCloning(models, onChange) {
  changed = onChange;
  const able = models.filter((model) => model.cloning && model.status !== "absent");
  $("cloning").hidden = !able.length;
}

/** A cloned voice can be deleted where it is chosen; `voice` is its entry, or null. */
export function offerDeletion(voice) {
  chosen = voice;
  $("forget").hidden = !voice;
  if (voice) $("forget").textContent = `Delete “${voice.name}”`;
}

async function forget() {
  const reply = await request(`/v1/audio/voices/${encodeURIComponent(chosen.id)}`, { method: "DELETE" });
  $("clone-state").textContent = reply.ok ? `Deleted: ${chosen.name}.` : `The server answered ${reply.status}.`;
  changed("");
}

function choose(file) {
  const transfer = new DataTransfer();
  transfer.items.add(file);
  $("recording").files = transfer.files;
  if (!$("clone-name").value) $("clone-name").value = file.name.replace(/\.\w+$/, "").slice(0, 100);
}

async function upload() {
  const body = new FormData();
  body.set("name", $("clone-name").value);
  body.set("file", $("recording").files[0]);
  body.set("consent", String($("consent").checked));
  $("clone-error").hidden = true;
  $("clone-state").textContent = "Sending…";
  try {
    const reply = await request("/v1/audio/voices", { method: "POST", body });
    const answer = await reply.json().catch(() => ({}));
    if (!reply.ok) throw new Error(answer.error?.message ?? `The server answered ${reply.status}.`);
    $("clone-state").textContent = `Made: ${answer.name ?? answer.id}.`;
    $("drop").reset();
    changed(answer.id);
  } catch (error) {
    $("clone-state").textContent = "";
    $("clone-error").hidden = false;
    $("clone-error").textContent = error.message;
  }
}

$("drop").addEventListener("submit", (event) => { event.preventDefault(); upload(); });
$("forget").addEventListener("click", forget);
$("recording").addEventListener("change", () => $("recording").files[0] && choose($("recording").files[0]));
// Anywhere on the page: a dropped file would otherwise replace it.
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    const [file] = kind === "drop" ? event.dataTransfer.files : [];
    if (file && !$("cloning").hidden) choose(file);
  });
}
