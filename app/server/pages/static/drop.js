// Files that are dropped anywhere on the page: one of the takers takes them; none replaces the page.

const takers = [];

/** `take(file)` says whether it takes a file; `place` is marked while one is dragged over the page. */
export function onDrop(take, place) {
  takers.push({ take, place });
}

for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    for (const { place } of takers) place.classList.toggle("over", kind === "dragover");
    const [file] = kind === "drop" ? event.dataTransfer.files : [];
    if (file) takers.some(({ take }) => take(file));
  });
}
