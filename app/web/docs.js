// The OpenAPI description as a page: paths, what they take, what they answer.
import { $, h } from "./dom.js";

const description = await (await fetch("/openapi.json")).json();

const resolve = (schema) => schema?.$ref ? description.components.schemas[schema.$ref.split("/").at(-1)] : schema;

function type(schema) {
  if (!schema) return "";
  if (schema.$ref) return type(resolve(schema));
  if (schema.anyOf) return schema.anyOf.map(type).filter((name) => name !== "null").join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.type === "array") return `list of ${type(schema.items)}`;
  const { minimum, maximum, exclusiveMaximum } = schema;
  const range = [
    minimum !== undefined && (maximum === undefined ? `from ${minimum}` : `${minimum} to ${maximum}`),
    exclusiveMaximum !== undefined && `below ${exclusiveMaximum}`,
  ].filter(Boolean).map((part) => ` ${part}`).join(",");
  return `${schema.type ?? "any"}${range}`;
}

function list(title, fields, required = []) {
  if (!fields || !Object.keys(fields).length) return null;
  return h("div", {}, h("p", {}, title), h("dl", { class: "fieldlist" }, ...Object.entries(fields).flatMap(([name, schema]) => {
    const standard = schema.default === undefined || schema.default === null ? "" : `, ${JSON.stringify(schema.default)} unless given`;
    return [
      h("dt", {}, h("code", {}, name), " ", h("span", { class: "quiet" }, `${type(schema)}${required.includes(name) ? ", required" : standard}`)),
      h("dd", {}, schema.description ?? resolve(schema)?.description ?? ""),
    ];
  })));
}

for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const parameters = Object.fromEntries((operation.parameters ?? []).map((given) => [given.name, { ...given.schema, description: given.description }]));
    const content = Object.entries(operation.requestBody?.content ?? {});
    const answer = resolve(operation.responses?.["200"]?.content?.["application/json"]?.schema);
    $("paths").append(h("details", { class: "panel" },
      h("summary", {}, h("code", {}, `${method.toUpperCase()} ${path}`), " ", h("span", { class: "quiet" }, operation.description ?? operation.summary ?? "")),
      list("Parameters", parameters),
      ...content.map(([kind, { schema }]) => list(`Body, ${kind}`, resolve(schema)?.properties, resolve(schema)?.required)),
      list("Answer", answer?.properties, answer?.required)));
  }
}
