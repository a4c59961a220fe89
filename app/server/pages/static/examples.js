// Texts to begin with: examples to click, and text files that are opened or dropped.
import { $, h } from "./dom.js";
import { onDrop } from "./drop.js";

const EXAMPLES = {
  Greeting: "Good morning! It is lovely to meet you. Shall we have a cup of tea?",
  Question: "Have you ever wondered why the sky turns red in the evening?",
  Numbers: "On March 3rd, 2026 at 7:05 pm, Dr. Lee paid $1,249.50 for 3 tickets, about 12% less than last year.",
  // Names that mean a woman's and a man's voice of any model.
  Dialogue: "[voice:nova] Is anybody there? [voice:echo] Only me. [voice:nova] And who are you? [voice:echo] I am the nightingale.",
  Pause: "Close your eyes. [pause:1s] Now listen.",
  Story: "Once upon a time, in a garden by the sea, there lived a nightingale. All day it was silent. But when the moon "
    + "rose, it sang so sweetly that the fishermen forgot their nets, and even the waves grew still to hear it.",
};
const ENDINGS = /\.(txt|text|md|markdown)$/i;

/** `use(text)` is called with a chosen text, `refuse(error)` with the reason why a file is not taken; `most()` is how
 * many characters the server takes. */
export function setUpExamples(use, refuse, most) {
  $("examples").append(...Object.entries(EXAMPLES).map(([name, text]) =>
    h("button", { type: "button", class: "chip", onclick: () => use(text) }, name)));
  const read = async (file) => {
    // No character takes more bytes than four.
    const text = file.size <= 4 * most() ? await file.text() : null;
    if (text === null || [...text].length > most()) refuse({ message: `${file.name} is too long: this server speaks at most ${most().toLocaleString()} characters at once.` });
    else use(text);
  };
  const isText = (file) => ENDINGS.test(file.name) || file.type.startsWith("text/");
  $("text-file").addEventListener("change", () => {
    const [file] = $("text-file").files;
    if (file) read(file);
    // The same file can be opened again.
    $("text-file").value = "";
  });
  $("open-file").addEventListener("click", () => $("text-file").click());
  onDrop((file) => isText(file) && (read(file), true), $("form"));
}
