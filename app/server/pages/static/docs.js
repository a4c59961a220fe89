// The API as a page: what OpenAPI says of each path, an example, and a way to try it.
import { dressCopy } from "./copy.js";
import { $, h } from "./dom.js";
import { key, setUpKey } from "./key.js";
import { fieldList, paragraphs, prose, resolve } from "./schema.js";
import { sockets } from "./sockets.js";
import { exampleOf, tryForm } from "./try.js";

const description = await (await fetch("/openapi.json")).json();
const messages = await (await fetch("/docs/messages")).json();

const slug = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

function example(text) {
  const button = h("button", { type: "button" }, "Copy");
  dressCopy(button, () => text, "Copy the example");
  return h("div", { class: "example" }, h("pre", { tabindex: "0", role: "group", "aria-label": "Example" }, text), button);
}

/** The request as a line of curl. */
function curl(method, path, body, kinds) {
  const parts = [`curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} ${location.origin}${path}`];
  if (key()) parts.push('-H "Authorization: Bearer $API_KEY"');
  if (body?.kind === "application/json") {
    parts.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(exampleOf(body.schema)).replaceAll("'", "'\\''")}'`);
  }
  if (body?.kind === "multipart/form-data") {
    for (const name of body.schema.required) parts.push(`-F ${name}=${{ audio_sample: "@recording.wav", file: "@recording.wav", consent: "true" }[name] ?? "Ann"}`);
  }
  if (kinds.some((kind) => kind.startsWith("audio/"))) parts.push("-o speech");
  return parts.join(" \\\n  ");
}

function card(id, method, path, summary, parts) {
  return h("details", { class: "panel operation", id },
    h("summary", {}, h("span", { class: `method ${method}` }, method.toUpperCase()), h("h3", {}, h("code", {}, path)), h("span", { class: "quiet" }, ...prose(summary))),
    h("div", {}, ...parts));
}

function operationCard(path, method, operation) {
  const parameters = operation.parameters ?? [];
  const [kind, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const body = kind ? { kind, schema: resolve(media.schema, description) } : null;
  const answers = operation.responses?.["200"]?.content ?? {};
  const answer = resolve(answers["application/json"]?.schema, description);
  const [summary, ...more] = (operation.description ?? operation.summary ?? "").split(/\n\s*\n/);
  const { form, suggest } = tryForm({ method: method.toUpperCase(), path, parameters, body, root: description });
  const described = Object.fromEntries(parameters.map((given) => [given.name, { ...given.schema, description: given.description }]));
  const made = card(slug(`${method} ${path}`), method, path, summary, [
    ...more.flatMap(paragraphs),
    body?.schema?.description ? h("div", {}, ...paragraphs(body.schema.description)) : null,
    fieldList("Parameters", described, parameters.filter(({ required }) => required).map(({ name }) => name), description),
    body && fieldList(`Body, ${kind}`, body.schema.properties, body.schema.required, description),
    h("h4", {}, "Example"), example(curl(method, path, body, Object.keys(answers))),
    form,
    fieldList("Answer", answer?.properties, [], description),
    answer || !Object.keys(answers).length ? null
      : h("div", {}, h("h4", {}, "Answer"), h("p", { class: "quiet" }, ...prose(Object.keys(answers).map((each) => `\`${each}\``).join(", ")))),
  ]);
  made.addEventListener("toggle", () => made.open && suggest());
  return made;
}

const groups = new Map();
const add = (name, made) => groups.set(name, [...(groups.get(name) ?? []), made]);
for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(methods)) add(operation.tags?.[0] ?? "Others", operationCard(path, method, operation));
}
for (const { path, summary, parts } of sockets(messages)) add("WebSockets", card(slug(`ws ${path}`), "ws", path, summary, parts));

$("paths").append(...[...groups].map(([name, cards]) =>
  h("section", { class: "group", id: slug(name), "aria-labelledby": `title-${slug(name)}` }, h("h2", { id: `title-${slug(name)}` }, name), ...cards)));
$("groups").append(...[...groups.keys()].map((name) => h("a", { href: `#${slug(name)}` }, name)));

// Links into the page.

function follow() {
  const place = $(location.hash.slice(1));
  if (place?.matches("details")) place.open = true;
  place?.scrollIntoView();
}

for (const each of document.querySelectorAll(".operation")) {
  each.addEventListener("toggle", () => {
    if (each.open) history.replaceState(null, "", `#${each.id}`);
  });
}
addEventListener("hashchange", follow);

// What is looked for.

$("filter").addEventListener("input", () => {
  const wanted = $("filter").value.trim().toLowerCase();
  let count = 0;
  for (const group of document.querySelectorAll("section.group")) {
    for (const each of group.querySelectorAll(".operation")) {
      each.hidden = !each.textContent.toLowerCase().includes(wanted);
      count += !each.hidden;
    }
    group.hidden = !group.querySelector(".operation:not([hidden])");
  }
  $("found").textContent = wanted ? (count ? `${count} found` : "Nothing found. Try “voice” or “wav”.") : "";
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  $("filter").focus();
});

setUpKey();
follow();
