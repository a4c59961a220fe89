// The dashboard: /metrics and the last requests, read every second and drawn.
import { $, bytes, duration, h, svg } from "./dom.js";
import { followWithKey, request, setUpKey } from "./key.js";
import { histograms, parse, quantile, share, since, total } from "./metrics.js";
import { bar, inOrder, stageColor } from "./stages.js";
import { watchState } from "./state.js";

const EVERY = 1000;
// Of what is needed for the longest window; the courses show two minutes.
const KEPT = 301;
const SHOWN = 120;
const REQUESTS = 15;
// Stages of a request that are named under its bar.
const MAX_STAGES = 3;
// A listener does not notice a shorter wait; it is an edge of nightingale_underrun_seconds.
const GAP = 0.05;

const samples = [];
let paused = false;

function filters() {
  return Object.fromEntries(["model", "surface"].filter((id) => $(id).value).map((id) => [id, $(id).value]));
}

/** The sample that figures are counted from; null: the server's beginning. */
function base() {
  const window_ = Number($("window").value);
  if (!window_) return null;
  const from = samples.at(-1).at - window_ * 1000;
  return samples.find(({ at }) => at >= from)?.metrics ?? null;
}

function grown(name, by = [], wanted = filters()) {
  const then = base() ? histograms(base(), name, by, wanted) : new Map();
  const now = histograms(samples.at(-1).metrics, name, by, wanted);
  return new Map([...now].map(([key, found]) => [JSON.parse(key), since(found, then.get(key))]));
}

/** A histogram over all that was chosen. */
function whole(name) {
  return [...grown(name).values()][0] ?? { edges: [], counts: [], sum: 0, count: 0 };
}

function increase(name, wanted) {
  const metrics = samples.at(-1).metrics;
  const now = total(metrics, name, wanted) ?? 0;
  const then = base() ? total(base(), name, wanted) ?? 0 : 0;
  return then > now ? now : now - then;
}

const percent = (value) => (Number.isNaN(value) ? "–" : `${(100 * value).toFixed(value > 0.9995 || value < 0.0005 ? 0 : 1)} %`);
const number = (value, digits = 0) => (value === null || Number.isNaN(value) ? "–" : value.toFixed(digits));

function figure(name, value, about = "") {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value, about ? h("small", {}, about) : null));
}

function showFigures() {
  const { metrics } = samples.at(-1);
  const first = whole("nightingale_ttfa_seconds");
  const rtf = whole("nightingale_rtf");
  const gauge = (name) => total(metrics, name);
  $("figures").replaceChildren(
    figure("First audio, p50", duration(quantile(0.5, first)), `p95 ${duration(quantile(0.95, first))}, p99 ${duration(quantile(0.99, first))}`),
    figure("Real-time factor, p50", number(quantile(0.5, rtf), 3), `p95 ${number(quantile(0.95, rtf), 3)}`),
    figure("Without a gap", percent(share(GAP, whole("nightingale_underrun_seconds"))), "streams, nowhere over 50 ms"),
    figure("Active streams", number(gauge("nightingale_active_streams"))),
    figure("Waiting", number(gauge("nightingale_queue_depth")), "utterances, for the model thread"),
    figure("Heartbeat", duration(gauge("nightingale_worker_heartbeat_age_seconds")), "age of the model thread's"),
    figure("Event loop", duration(quantile(0.99, [...grown("nightingale_event_loop_lag_seconds", [], {}).values()][0] ?? { edges: [], counts: [] })), "late, p99"),
    figure("Arrays", bytes(gauge("nightingale_mlx_active_memory_bytes")), `${bytes(gauge("nightingale_mlx_cache_memory_bytes"))} kept for reuse`),
    figure("Resident", bytes(gauge("process_resident_memory_bytes") ?? NaN), "memory of the process"),
  );
}

/** Fill the body `id` of a table; where there are no rows, one says `nothing`. Narrow, each cell bears its column's name. */
function fill(id, rows, nothing) {
  const names = [...$(id).parentElement.querySelectorAll("thead th")].map(({ textContent }) => textContent);
  const cell = (content, i) => (i ? h("td", { role: "cell", "data-name": names[i] }, content) : h("th", { role: "rowheader", scope: "row" }, content));
  $(id).replaceChildren(...(rows.length
    ? rows.map((cells) => h("tr", { role: "row" }, ...cells.map(cell)))
    : [h("tr", { role: "row", class: "nothing" }, h("td", { role: "cell", colspan: names.length }, nothing))]));
}

const swatch = (stage) => svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { width: 10, height: 10, rx: 2, fill: stageColor(stage) }));

function showStages() {
  const found = new Map([...grown("nightingale_stage_duration_seconds", ["stage"])].map(([[stage], counted]) => [stage, counted]));
  const all = [...found.values()].reduce((sum, counted) => sum + counted.sum, 0);
  fill("stages", inOrder(found.keys()).filter((stage) => found.get(stage).count).map((stage) => {
    const counted = found.get(stage);
    const name = h("span", { class: "named" }, swatch(stage), stage.replaceAll("_", " "));
    return [name, ...[0.5, 0.95, 0.99].map((q) => duration(quantile(q, counted))), duration(counted.sum / counted.count), percent(counted.sum / all)];
  }), "Nothing was spoken in this time.");
}

function showModels() {
  const by = ["model", "surface"];
  const rtf = new Map([...grown("nightingale_rtf", by)].map(([key, counted]) => [String(key), counted]));
  const gaps = new Map([...grown("nightingale_underrun_seconds", by)].map(([key, counted]) => [String(key), counted]));
  const none = { edges: [], counts: [] };
  fill("models", [...grown("nightingale_ttfa_seconds", by)].filter(([, counted]) => counted.count).map(([key, counted]) =>
    [key.join(", "), number(counted.count), ...[0.5, 0.95, 0.99].map((q) => duration(quantile(q, counted))),
      number(quantile(0.95, rtf.get(String(key)) ?? none), 3), percent(share(GAP, gaps.get(String(key)) ?? none))]), "Nothing was spoken in this time.");
  const outcomes = ["ok", "cancelled", "rejected", "failed"].map((outcome) => [outcome, increase("nightingale_requests_total", { ...filters(), outcome })]);
  const all = outcomes.reduce((sum, [, count]) => sum + count, 0);
  fill("outcomes", all ? outcomes.map(([outcome, count]) => [outcome, number(count), percent(count / all)]) : [], "No request came in this time.");
}

function showErrors() {
  const codes = [...new Set((samples.at(-1).metrics.get("nightingale_errors_total") ?? []).map(({ labels }) => labels.code))];
  const counts = codes.map((code) => [code, increase("nightingale_errors_total", { code })]).filter(([, count]) => count).sort((a, b) => b[1] - a[1]);
  fill("errors", counts.map(([code, count]) => [code, number(count)]), "None. All is well.");
}

function showResident() {
  const { metrics } = samples.at(-1);
  // A model that was unloaded keeps its series, with 0 bytes.
  const loaded = (metrics.get("nightingale_warmup_seconds") ?? []).filter(({ labels: { model } }) => total(metrics, "nightingale_model_memory_bytes", { model }) !== 0);
  fill("resident", loaded.map(({ labels: { model }, value }) =>
    [model, bytes(total(metrics, "nightingale_model_memory_bytes", { model }) ?? NaN), duration(value)]), "No model is loaded yet.");
}

function showRequests(requests) {
  const { model, surface } = filters();
  const chosen = requests.filter((request) => (!model || request.model === model) && (!surface || request.surface === surface)).slice(0, REQUESTS);
  const longest = Math.max(...chosen.map(({ total: seconds }) => seconds), 0.001);
  const seen = new Set(chosen.flatMap(({ spans }) => spans.map(({ stage }) => stage)));
  $("legend-stages").replaceChildren(...inOrder(seen).map((stage) => h("li", {}, swatch(stage), stage.replaceAll("_", " "))),
    h("li", {}, h("span", { class: "mark", "aria-hidden": "true" }), "first byte of audio"));
  $("legend").hidden = !chosen.length;
  $("longest").textContent = duration(longest);
  $("no-requests").hidden = chosen.length > 0;
  $("requests").replaceChildren(...chosen.map((request) => {
    const slowest = Object.entries(request.stages).sort((a, b) => b[1] - a[1]).slice(0, MAX_STAGES);
    return h("li", { class: request.outcome },
      h("div", { class: "title" },
        h("b", {}, request.outcome === "ok" ? duration(request.first_audio ?? request.total) : request.outcome),
        h("span", {}, `${request.model}, ${request.surface}${request.streaming ? ", streamed" : ""}`),
        h("span", { class: "quiet" }, request.audio ? `${duration(request.total)} for ${duration(request.audio)} of audio` : duration(request.total)),
        h("span", { class: "quiet" }, new Date(request.started * 1000).toLocaleTimeString()),
        h("span", { class: "id" }, request.request_id ?? "")),
      bar(request.spans, longest, request.first_audio),
      h("ul", { class: "key", "aria-label": "Its slowest stages" }, ...slowest.map(([stage, seconds]) =>
        h("li", {}, swatch(stage), `${stage.replaceAll("_", " ")} ${duration(seconds)}`))));
  }));
}

const COURSES = [
  ["Active streams", (metrics) => total(metrics, "nightingale_active_streams") ?? 0, (value) => number(value)],
  ["Waiting for the model thread", (metrics) => total(metrics, "nightingale_queue_depth") ?? 0, (value) => number(value)],
  ["Seconds of audio a second", null, (value) => number(value, 1), "nightingale_audio_seconds_total"],
  ["Processors in use", null, (value) => number(value, 2), "process_cpu_seconds_total"],
  ["Memory of the process", (metrics) => total(metrics, "process_resident_memory_bytes") ?? NaN, bytes],
];

function showCourses() {
  const shown = samples.slice(-SHOWN - 1);
  $("courses").replaceChildren(...COURSES.map(([title, read, show, counter]) => {
    const values = read
      ? shown.map(({ metrics }) => read(metrics))
      : shown.slice(1).map(({ at, metrics }, i) =>
        Math.max(0, ((total(metrics, counter) ?? 0) - (total(shown[i].metrics, counter) ?? 0)) / ((at - shown[i].at) / 1000)));
    const top = Math.max(...values.filter(Number.isFinite), 1e-9);
    const points = values.map((value, i) => `${((SHOWN - values.length + 1 + i) / SHOWN) * 100},${(1 - (value || 0) / top) * 30 + 1}`);
    return h("div", {},
      h("div", { class: "times" }, h("span", {}, title), h("span", {}, `${values.length ? show(values.at(-1)) : "–"}`, h("span", { class: "quiet" }, ` at most ${values.length ? show(top > 1e-9 ? top : 0) : "–"}`))),
      svg("svg", { viewBox: "0 0 100 32", preserveAspectRatio: "none", width: "100%", height: "40", role: "img", "aria-label": `${title} over two minutes` },
        svg("polyline", { points: points.join(" "), fill: "none", stroke: "var(--accent)", "stroke-width": "1.5", "vector-effect": "non-scaling-stroke" })));
  }));
}

function offer(id, names) {
  const known = new Set([...$(id).options].map(({ value }) => value));
  for (const name of names) if (name !== "none" && !known.has(name)) $(id).append(h("option", { value: name }, name));
}

let requests = [];

function show() {
  if (!samples.length) return;
  for (const id of ["model", "surface"]) {
    offer(id, new Set((samples.at(-1).metrics.get("nightingale_requests_total") ?? []).map(({ labels }) => labels[id])));
  }
  showFigures();
  showStages();
  showModels();
  showErrors();
  showResident();
  showRequests(requests);
  showCourses();
}

async function read(path) {
  const reply = await request(path);
  if (reply.ok) return reply;
  throw new Error(reply.status === 401 ? "The server wants an API key." : `${path} answered ${reply.status}.`);
}

async function look() {
  try {
    const [text, last] = await Promise.all([
      read("/metrics").then((reply) => reply.text()),
      read("/dashboard/requests").then((reply) => reply.json()),
    ]);
    samples.push({ at: performance.now(), metrics: parse(text) });
    if (samples.length > KEPT) samples.shift();
    requests = last.requests;
    $("error").hidden = true;
    // Nobody looks at a hidden page, but its memory goes on.
    if (!document.hidden) show();
  } catch (error) {
    $("error").hidden = false;
    $("error").textContent = error instanceof TypeError ? `The server does not answer: ${error.message}` : error.message;
  }
}

async function run() {
  if (!paused) await look();
  setTimeout(run, EVERY);
}

for (const id of ["window", "model", "surface"]) $(id).addEventListener("change", show);
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
});
setUpKey(look);
followWithKey($("metrics"));
watchState($("state"));
run();
