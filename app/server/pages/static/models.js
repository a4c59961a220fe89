// The choice of a model, and under it the words of the server on the chosen one.
import { h } from "./dom.js";
import { showError } from "./errors.js";

/** Fill `select` with the models of a kind that can be used, and return them; `error` shows that there are none. */
export function offerModels(select, models, kind, error) {
  const known = models.filter((model) => model.kind === kind);
  const usable = known.filter(({ status }) => status !== "absent" && status !== "failed");
  const usual = known.find((model) => model.default);
  const about = h("p", { class: "quiet", id: `${select.id}-about` });
  const describe = () => { about.textContent = usable.find(({ id }) => id === select.value)?.description ?? ""; };
  select.append(...usable.map(({ id, default: first }) => h("option", { value: id, selected: first }, id)));
  select.setAttribute("aria-describedby", about.id);
  select.addEventListener("change", describe);
  select.after(about);
  describe();
  if (!usable.length) showError(error, { message: usual?.install_hint ?? `No model for ${kind} is installed.` });
  return usable;
}
