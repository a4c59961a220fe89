// JSON schemas as people read them: types, ranges, accepted values, required fields first.
import { h } from "./dom.js";

/** Nodes of `text`, whose backticks mark code. */
export function prose(text) {
  return (text ?? "").split(/`+([^`]+)`+/).map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** Paragraphs of a description. */
export function paragraphs(text) {
  return (text ?? "").split(/\n\s*\n/).filter(Boolean).map((part) => h("p", {}, ...prose(part)));
}

/** The schema that `schema` stands for: references point into `root`. */
export function resolve(schema, root) {
  return schema?.$ref ? schema.$ref.split("/").slice(1).reduce((found, name) => found?.[name], root) : schema;
}

/** The type of `schema` in words, with backticks around what is code. */
export function type(schema, root) {
  if (!schema) return "";
  if (schema.$ref) return type(resolve(schema, root), root);
  if (schema.enum) return `one of ${schema.enum.filter((value) => value !== null).map((value) => `\`${value}\``).join(", ")}`;
  if (schema.anyOf) return [...new Set(schema.anyOf.map((each) => type(each, root)).filter((name) => name !== "null"))].join(" or ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  if (schema.type === "array") return `list of ${type(schema.items, root) || "anything"}`;
  if (schema.format === "binary") return "file";
  const { minimum, maximum, exclusiveMaximum } = schema;
  const range = [
    minimum !== undefined && (maximum === undefined ? `from ${minimum}` : `${minimum} to ${maximum}`),
    exclusiveMaximum !== undefined && `below ${exclusiveMaximum}`,
  ].filter(Boolean).map((part) => ` ${part}`).join(",");
  return `${schema.type ?? "any"}${range}`;
}

/** Names of the fields, those in `required` first. */
export function inOrder(fields, required = []) {
  const names = Object.keys(fields);
  return [...names.filter((name) => required.includes(name)), ...names.filter((name) => !required.includes(name))];
}

/** A list of fields under a title; null where there are none. */
export function fieldList(title, fields, required, root) {
  if (!fields || !Object.keys(fields).length) return null;
  return h("div", {}, h("h4", {}, title), list(fields, required, root, [fields]));
}

/** The schema of an object that is in a field, by itself or in a list; undefined where none is. */
function inside(schema, root) {
  const whole = resolve(schema, root);
  if (whole?.properties) return whole;
  return [whole?.items, ...(whole?.anyOf ?? [])].filter(Boolean).map((each) => inside(each, root)).find(Boolean);
}

/** `above` holds the fields of the objects around: a schema may contain itself. */
function list(fields, required, root, above = []) {
  return h("dl", { class: "fieldlist" }, ...inOrder(fields, required).flatMap((name) => {
    const schema = fields[name];
    const standard = schema.default === undefined || schema.default === null || schema.default === "" ? "" : `; default \`${JSON.stringify(schema.default).replaceAll('"', "")}\``;
    const whole = resolve(schema, root);
    const own = inside(schema, root);
    return [
      h("dt", {}, h("code", {}, name), " ", required?.includes(name) ? h("span", { class: "required" }, "required ") : null,
        h("span", { class: "quiet" }, ...prose(type(schema, root) + standard))),
      h("dd", {}, ...prose(schema.description ?? whole?.description ?? ""), own && !above.includes(own.properties) ? list(own.properties, [], root, [...above, own.properties]) : null),
    ];
  }));
}
