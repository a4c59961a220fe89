// The same request as code, in tabs.
import { write } from "./copy.js";
import { $, h } from "./dom.js";
import { key } from "./key.js";
import { snippets } from "./snippets.js";

let language = "curl";
let found = {};

/** Show the code of `body`, a request of POST /v1/audio/speech. */
export function showCode(body) {
  found = snippets(body, location.origin, Boolean(key()));
  $("copied").textContent = "";
  $("code").textContent = found[language];
  $("code").setAttribute("aria-labelledby", `tab-${language}`);
  const names = Object.keys(found);
  if (!$("tabs").children.length) {
    $("tabs").append(...names.map((name) => h("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "code", onclick: () => choose(name),
      onkeydown: ({ key: pressed }) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[pressed];
        if (step) choose(names[(names.indexOf(name) + step + names.length) % names.length], true);
      },
    }, name)));
  }
  for (const tab of $("tabs").children) {
    const selected = tab.textContent === language;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    if (selected) $("code").setAttribute("aria-labelledby", tab.id);
  }
  return found;
}

let latest = () => ({});

/** `body()` gives the request whose code is shown. */
export function setUpCode(body) {
  latest = body;
}

function choose(name, focus = false) {
  language = name;
  showCode(latest());
  if (focus) $(`tab-${name}`).focus();
}

$("copy").addEventListener("click", async () => {
  if (await write($("code").textContent)) {
    $("copied").textContent = "Copied.";
    return;
  }
  // Not allowed, or not a secure page: select it, so that one key does it.
  getSelection().selectAllChildren($("code"));
  $("copied").textContent = "Selected; copy it with Ctrl+C.";
});
