// Requests of the pages: answers as objects, errors as the API's error objects, and models that are still loading.
import { request } from "./key.js";

// Milliseconds between two tries while a model loads.
const AGAIN = 1000;

/** The JSON that `path` answers. Throws the API's error object. */
export async function getJson(path, options = {}) {
  const reply = await request(path, options);
  const body = await reply.json().catch(() => null);
  if (!reply.ok) throw failure(reply, body);
  return body;
}

/** The error object of an answer that is not OK; `body` is its JSON, or null. */
export function failure(reply, body) {
  return body?.error ?? { message: `The server answered with status ${reply.status}.`, code: String(reply.status) };
}

/** One line about a model that loads; `models` are the entries of GET /v1/models. `done` of `total` steps are past. */
export function loadingLine(models, { model, done, total }) {
  const kind = models.find(({ id }) => id === model)?.kind === "translation" ? "translation" : "speech";
  return `Loading the ${kind} model${model ? ` ${model}` : ""}${total ? `: ${done} of ${total}` : ""}…`;
}

/** What an error of the code model_loading says of the model: {model, done, total}. */
export function progressOf({ message }) {
  const [, done, total] = /(\d+) of (\d+)/.exec(message) ?? [];
  return { model: /'([^']+)'/.exec(message)?.[1], done, total };
}

/** Call `act` until no model has to load for it. `wait(error)` is called before and after each pause; where it returns
 * false, the error is thrown. */
export async function whenLoaded(act, wait) {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (error.code !== "model_loading" || wait(error) === false) throw error;
      await new Promise((go) => setTimeout(go, AGAIN));
      if (wait(error) === false) throw error;
    }
  }
}
