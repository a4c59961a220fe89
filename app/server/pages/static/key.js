// The API key, where the server wants one: asked for once, kept for this tab or in this browser, sent with every request.
import { h } from "./dom.js";

const NAME = "nightingale-key";
// Sends the key to be judged, and costs nothing.
const PROBE = "/playground/settings";

// Where a browser keeps nothing for pages, for as long as the page is there.
let own = null;
let asking = null;
let declined = false;
let onChange = () => {};

function each(act) {
  for (const kind of ["sessionStorage", "localStorage"]) {
    try {
      const found = act(globalThis[kind], kind);
      if (found) return found;
    } catch {
      // Reading the property alone raises where storing is forbidden.
    }
  }
  return null;
}

/** The key, or null. */
export const key = () => each((place) => place.getItem(NAME)) ?? own;

function keep(value, remember) {
  own = value;
  each((place) => place.removeItem(NAME));
  if (value) each((place, kind) => (kind === "localStorage") === remember && place.setItem(NAME, value));
  declined = false;
  showButton();
}

/** fetch(), with the key. Where one is missing or wrong, people are asked for it; once, if they decline. */
export async function request(path, options = {}) {
  for (;;) {
    const used = key();
    const headers = { ...options.headers, ...(used && { authorization: `Bearer ${used}` }) };
    const reply = await fetch(path, { ...options, headers });
    if (reply.status !== 401) return reply;
    if (key() === used && !(await ask(used))) return reply;
  }
}

/** What `new WebSocket(address, protocols())` needs: handshakes of pages have no other header that they may set. */
export function protocols() {
  const used = key();
  if (!used) return [];
  // A subprotocol may not hold every character that a key may.
  return ["token", `base64url.${btoa(used).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`];
}

/** After a handshake that failed, which says no reason to pages: whether it is worth another try, with a new key. */
export async function renewed() {
  const used = key();
  declined = false;
  const reply = await request(PROBE).catch(() => null);
  if (!reply?.ok || key() === used) return false;
  onChange();
  return true;
}

function ask(used) {
  showButton(true);
  if (declined) return false;
  asking ??= open(used ? "The server does not know this key." : "").finally(() => { asking = null; });
  return asking;
}

function open(complaint) {
  const field = h("input", { id: "key-field", type: "password", autocomplete: "off", spellcheck: "false", required: true,
    pattern: "[\\x21-\\x7e]+", title: "Letters, digits and signs, without spaces" });
  const remember = h("input", { id: "key-remember", type: "checkbox" });
  const form = h("form", {},
    h("h2", { id: "key-title" }, "API key"),
    h("p", { id: "key-about" }, "This server asks for a key. Whoever runs it can give you one."),
    h("label", { for: "key-field" }, "Key"), field,
    h("p", {}, h("label", {}, remember, " Remember it in this browser, not only in this tab.")),
    h("div", { class: "alert", id: "key-error", role: "alert", hidden: !complaint }, complaint),
    h("div", { class: "actions" },
      h("button", { class: "main", type: "submit" }, "Use it"),
      h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      key() && h("button", { type: "button", onclick: () => { keep(null); dialog.close(); } }, "Forget the key")));
  const dialog = h("dialog", { id: "key-dialog", "aria-labelledby": "key-title", "aria-describedby": "key-about" }, form);
  document.body.append(dialog);
  return new Promise((answer) => {
    let given = "";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      given = field.value;
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      if (given) keep(given, remember.checked);
      else declined = true;
      // With what was typed.
      dialog.remove();
      answer(Boolean(given));
    });
    dialog.showModal();
  });
}

const button = h("button", { type: "button", id: "key", hidden: !key(), onclick: change }, "API key");

function showButton(wanted = false) {
  button.hidden = !(wanted || key() || !button.hidden);
}

async function change() {
  declined = false;
  asking ??= open("").finally(() => { asking = null; });
  if (await asking && (await request(PROBE)).ok) onChange();
}

/** Have a link's page fetched with the key, where one is wanted: a browser that follows a link sends none. */
export function followWithKey(link) {
  link.addEventListener("click", async (event) => {
    if (button.hidden) return;
    event.preventDefault();
    declined = false;
    const reply = await request(link.href).catch(() => null);
    // In this tab, as the link: a new one might be blocked by now.
    if (reply?.ok) location.assign(URL.createObjectURL(await reply.blob()));
  });
}

/** Give the page a button for the key; `changed` is called when what was refused may be asked for again. */
export function setUpKey(changed = () => {}) {
  onChange = changed;
  document.querySelector("header nav").after(button);
}
