// Buttons that copy a text, and say so.

/** Have `button` copy what `text()` gives; `label` is its name for readers of the screen. */
export function dressCopy(button, text, label) {
  button.setAttribute("aria-label", label);
  button.addEventListener("click", async () => {
    button.textContent = (await write(text())) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

/** Put `text` on the clipboard. Returns false where the browser forbids it. */
export async function write(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
