// The text as it is spoken: sentences come with their sound, words light up when they are heard.
import { h } from "./dom.js";

export class Words {
  constructor(place) {
    this.place = place;
    this.clear();
  }

  clear() {
    this.place.replaceChildren();
    this.timed = [];
    this.sentence = null;
    this.lit = null;
    this.next = 0;
  }

  /** A `chunk` event. Sentences that come in several pieces repeat their text; words are found in it one by one. */
  add({ text, source_text: source, words, start, duration }) {
    if (!text) return;
    const goesOn = this.sentence?.text === text && !this.sentence.complete;
    if (!goesOn) {
      this.finish();
      if (source) this.place.append(h("p", { class: "source" }, source));
      this.sentence = { text, cursor: 0, line: h("p"), start, complete: false };
      this.place.append(this.sentence.line);
    }
    const { sentence } = this;
    for (const word of words ?? []) {
      const found = text.indexOf(word.text, sentence.cursor);
      if (found >= 0) {
        sentence.line.append(text.slice(sentence.cursor, found));
        sentence.cursor = found + word.text.length;
      }
      const span = h("span", { class: "ahead", "data-start": word.start, "data-end": word.end }, word.text);
      sentence.line.append(span);
      this.timed.push({ span, start: word.start, end: word.end });
    }
    sentence.complete = sentence.cursor >= text.trimEnd().replace(/[\p{P}\s]+$/u, "").length;
    if (!(words ?? []).length && !sentence.cursor && !goesOn) {
      // No word timings from this model: the sentence lights up as one.
      const span = h("span", { class: "ahead" }, text);
      sentence.line.append(span);
      this.timed.push({ span, start, end: start + duration });
      sentence.whole = this.timed.at(-1);
      sentence.cursor = text.length;
    } else if (goesOn && sentence.whole) {
      sentence.whole.end = start + duration;
    }
  }

  finish() {
    if (this.sentence) this.sentence.line.append(this.sentence.text.slice(this.sentence.cursor) + " ");
    this.sentence = null;
  }

  /** Light up what is heard at `position` seconds; Infinity: all was heard. */
  show(position) {
    if (this.next > 0 && this.timed[this.next - 1].start > position) this.rewind();
    while (this.next < this.timed.length && this.timed[this.next].start <= position) {
      this.lit?.span.classList.replace("lit", "heard");
      this.lit = this.timed[this.next++];
      this.lit.span.className = "lit";
      const box = this.place.getBoundingClientRect(), own = this.lit.span.getBoundingClientRect();
      if (own.bottom > box.bottom || own.top < box.top) this.place.scrollTop += own.top - box.top - box.height / 3;
    }
    if (this.lit && position >= this.lit.end) {
      this.lit.span.className = "heard";
      this.lit = null;
    }
  }

  rewind() {
    for (const { span } of this.timed) span.className = "ahead";
    this.lit = null;
    this.next = 0;
  }
}
