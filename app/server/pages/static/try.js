// A form that sends a request of the API from the page, with the key that the page has.
import { h } from "./dom.js";
import { showError } from "./errors.js";
import { key, request } from "./key.js";
import { clear, showReply } from "./reply.js";
import { inOrder, resolve } from "./schema.js";

let forms = 0;

/** An example of a body: the schema's own. */
export function exampleOf(schema) {
  return schema?.examples?.[0] ?? {};
}

/** The parts of the form of one operation; `body` is {kind, schema} or null. */
export function tryForm({ method, path, parameters, body, root }) {
  forms += 1;
  const id = (name) => `try-${forms}-${name}`;
  const inputs = parameters.map((parameter) => ({ parameter, input: field(id(parameter.name), parameter.name, parameter.schema, root, parameter.required) }));
  const editor = body?.kind === "application/json" && h("textarea", { id: id("body"), spellcheck: "false", rows: Object.keys(exampleOf(body.schema)).length + 3 },
    JSON.stringify(exampleOf(body.schema), null, 2));
  const parts = body?.kind === "multipart/form-data"
    ? inOrder(body.schema.properties, body.schema.required).map((name) => ({ name, input: field(id(name), name, body.schema.properties[name], root, body.schema.required?.includes(name)) }))
    : [];
  const send = h("button", { class: "main", type: "submit" }, "Send");
  const trouble = h("div", { class: "alert", role: "alert", hidden: true });
  const answer = h("div", {});
  const form = h("form", { class: "try" }, h("h4", {}, "Try it"),
    inputs.length || parts.length ? h("div", { class: "fields" }, ...[...inputs, ...parts].map(({ input }) => input.place)) : null,
    editor && h("div", {}, h("label", { for: editor.id }, "Body, as JSON"), editor),
    h("div", { class: "actions" }, send), trouble, answer);
  let running = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) {
      running.abort();
      return;
    }
    running = new AbortController();
    send.textContent = "Cancel";
    showError(trouble, null);
    clear(answer);
    try {
      const started = performance.now();
      const reply = await request(address(path, inputs), { method, signal: running.signal, ...payload(editor, parts) });
      await showReply(answer, reply, started);
    } catch (error) {
      if (error.name !== "AbortError") showError(trouble, error);
    }
    running = null;
    send.textContent = "Send";
  });
  return { form, suggest: () => inputs.forEach(({ parameter, input }) => suggest(parameter, input.control)) };
}

function field(id, name, schema, root, required) {
  const own = resolve(schema, root) ?? {};
  const values = own.enum ?? own.anyOf?.find((each) => each.enum)?.enum;
  if (own.const !== undefined) {
    const control = h("input", { id, type: "checkbox", value: own.const, required });
    return { control, place: h("label", { class: "consent", for: id }, control, h("code", {}, name)), get: () => control.checked && own.const };
  }
  let control;
  if (values) control = h("select", { id, required }, h("option", { value: "" }, ""), ...values.filter((value) => value !== null).map((value) => h("option", {}, value)));
  else control = h("input", { id, type: own.format === "binary" ? "file" : "text", required, placeholder: own.default ?? null });
  return { control, place: h("div", {}, h("label", { for: id }, name, required ? " (required)" : ""), control), get: () => (control.type === "file" ? control.files[0] : control.value) };
}

function address(path, inputs) {
  const query = new URLSearchParams();
  let whole = path;
  for (const { parameter: { name, in: place }, input } of inputs) {
    const value = input.get();
    if (place === "path") whole = whole.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) query.set(name, value);
  }
  return query.size ? `${whole}?${query}` : whole;
}

function payload(editor, parts) {
  if (editor) {
    try {
      JSON.parse(editor.value);
    } catch (error) {
      throw { message: `The body is not valid JSON: ${error.message}.` };
    }
    return { headers: { "content-type": "application/json" }, body: editor.value };
  }
  if (!parts.length) return {};
  const body = new FormData();
  for (const { name, input } of parts) if (input.get()) body.set(name, input.get());
  return { body };
}

const SOURCES = {
  voice_id: ["/v1/audio/voices", ({ voices }) => voices[0]?.id],
  name: ["/v1/models", ({ models }) => models.find((model) => model.default)?.id],
};

/** Fill in a value that this server knows, where the field is still empty. Nobody is asked for a key for that. */
async function suggest({ name, in: place }, control) {
  if (place !== "path" || control.value || !SOURCES[name]) return;
  const [source, choose] = SOURCES[name];
  const reply = await fetch(source, { headers: key() ? { authorization: `Bearer ${key()}` } : {} }).catch(() => null);
  if (reply?.ok && !control.value) control.value = choose(await reply.json()) ?? "";
}
