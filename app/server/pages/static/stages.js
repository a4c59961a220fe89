// Stages and their colors, the same wherever they are drawn.
import { duration, h, svg } from "./dom.js";

// In the order in which a request passes them; models/timeline.py has the same.
export const STAGES = [
  "queue", "audio_decode", "vad", "boundary", "detect", "mel", "encode", "decode", "align", "translate_encode",
  "translate_decode", "llm_prefill", "llm_decode", "g2p", "voice", "bert", "text_encoder", "predictor", "decoder",
  "condition", "t3_prefill", "t3_decode", "s3gen_encode", "s3gen_flow", "vocoder", "watermark", "audio_encode",
];

// Degrees round the wheel: stages of one model lie far from each other. Waiting is gray.
const HUES = {
  audio_decode: 190, vad: 110, mel: 40, encode: 230, decode: 300, align: 150, detect: 50, translate_encode: 25, translate_decode: 5, llm_prefill: 270, llm_decode: 320, g2p: 335, voice: 95, bert: 240, text_encoder: 35,
  predictor: 160, decoder: 285, condition: 80, t3_prefill: 225, t3_decode: 260, s3gen_encode: 140, s3gen_flow: 175,
  vocoder: 300, watermark: 60, audio_encode: 200,
};

/** A color for a stage, legible on light and dark. */
export function stageColor(stage) {
  if (stage === "queue" || stage === "boundary") return stage === "queue" ? "#8b929c" : "#b3b8bf";
  return `hsl(${HUES[stage] ?? 0} 55% ${STAGES.indexOf(stage) % 2 ? 42 : 58}%)`;
}

export function inOrder(stages) {
  const place = (name) => (STAGES.indexOf(name) + 1 || STAGES.length + 1);
  return [...stages].sort((a, b) => place(a) - place(b));
}

/** Rows of a table: stage, bar, seconds. `stages` maps names to seconds. */
export function stageRows(stages, whole = Math.max(...Object.values(stages), 1e-9)) {
  return inOrder(Object.keys(stages)).map((name) =>
    h("tr", {},
      h("th", { scope: "row" }, name.replaceAll("_", " ")),
      h("td", {}, bar([{ stage: name, start: 0, seconds: stages[name] }], whole)),
      h("td", { class: "number" }, duration(stages[name]))));
}

/** Spans in their places between 0 and `whole` seconds; `mark` draws a line there. */
export function bar(spans, whole, mark = null) {
  const percent = (seconds) => `${(Math.max(0, Math.min(1, seconds / whole)) * 100).toFixed(3)}%`;
  const drawing = svg("svg", { class: "bar", "aria-hidden": "true" });
  // Waiting lies below: one sentence waits while another is computed.
  const waits = ({ stage }) => (stage === "queue" || stage === "boundary" ? 0 : 1);
  for (const { stage, start, seconds } of [...spans].sort((a, b) => waits(a) - waits(b))) {
    const from = Math.max(0, start);
    // A stage of microseconds is still seen.
    const width = Math.max(0.002 * whole, start + seconds - from);
    if (start + seconds < 0) continue;
    drawing.append(svg("rect", { x: percent(from), width: percent(width), y: "0", height: "100%", fill: stageColor(stage), "data-stage": stage }));
  }
  if (mark !== null && mark !== undefined) {
    drawing.append(svg("line", { x1: percent(mark), x2: percent(mark), y1: "0", y2: "100%", stroke: "currentColor", "stroke-width": "2" }));
  }
  return drawing;
}
