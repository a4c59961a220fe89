// A voice from a recording, where a model of this server can make one.
import { $ } from "./dom.js";
import { onDrop } from "./drop.js";
import { showError } from "./errors.js";
import { getJson } from "./api.js";

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
  showError($("clone-error"), null);
  try {
    await getJson(`/v1/audio/voices/${encodeURIComponent(chosen.id)}`, { method: "DELETE" });
    $("clone-state").textContent = `Deleted: ${chosen.name}.`;
  } catch (error) {
    showError($("clone-error"), error);
  }
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
  showError($("clone-error"), null);
  $("clone-state").textContent = "Sending…";
  try {
    const answer = await getJson("/v1/audio/voices", { method: "POST", body });
    $("clone-state").textContent = `Made: ${answer.name ?? answer.id}.`;
    $("drop").reset();
    changed(answer.id);
  } catch (error) {
    $("clone-state").textContent = "";
    showError($("clone-error"), error);
  }
}

$("drop").addEventListener("submit", (event) => { event.preventDefault(); upload(); });
$("forget").addEventListener("click", forget);
$("recording").addEventListener("change", () => $("recording").files[0] && choose($("recording").files[0]));
onDrop((file) => !$("cloning").hidden && (choose(file), true), $("drop"));
