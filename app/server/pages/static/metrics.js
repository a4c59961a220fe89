// Prometheus text format, and what queries do with it: sums by label, rates, percentiles.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Samples by metric name: [{labels, value}]. */
export function parse(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const [, name, inner, number] = match;
    const labels = {};
    for (const [, key, value] of (inner ?? "").matchAll(LABEL)) {
      labels[key] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
    }
    const value = number === "+Inf" ? Infinity : number === "-Inf" ? -Infinity : Number(number);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels, value });
  }
  return found;
}

const matches = (labels, wanted) => Object.entries(wanted).every(([key, value]) => labels[key] === value);

/** Sum of the samples of a metric whose labels are as wanted; null where there are none. */
export function total(metrics, name, wanted = {}) {
  const values = (metrics.get(name) ?? []).filter(({ labels }) => matches(labels, wanted)).map(({ value }) => value);
  return values.length ? values.reduce((sum, value) => sum + value, 0) : null;
}

/** Histograms by the values of the labels `by`: Map of JSON keys to {edges, counts (cumulative), sum, count}. */
export function histograms(metrics, name, by = [], wanted = {}) {
  const groups = new Map();
  const group = (labels) => {
    const key = JSON.stringify(by.map((label) => labels[label]));
    if (!groups.has(key)) groups.set(key, { buckets: new Map(), sum: 0, count: 0 });
    return groups.get(key);
  };
  const each = (suffix, use) => {
    for (const { labels, value } of metrics.get(name + suffix) ?? []) if (matches(labels, wanted)) use(group(labels), labels, value);
  };
  each("_bucket", ({ buckets }, { le }, value) => {
    const edge = le === "+Inf" ? Infinity : Number(le);
    buckets.set(edge, (buckets.get(edge) ?? 0) + value);
  });
  each("_sum", (found, _, value) => { found.sum += value; });
  each("_count", (found, _, value) => { found.count += value; });
  for (const [key, { buckets, sum, count }] of groups) {
    const edges = [...buckets.keys()].sort((a, b) => a - b);
    groups.set(key, { edges, counts: edges.map((edge) => buckets.get(edge)), sum, count });
  }
  return groups;
}

/** What came to `now` since `then`. A count that fell means that the server began anew. */
export function since(now, then) {
  if (!then || then.count > now.count) return now;
  return {
    edges: now.edges,
    counts: now.counts.map((count, i) => count - (then.counts[i] ?? 0)),
    sum: now.sum - then.sum,
    count: now.count - then.count,
  };
}

/** As Prometheus' histogram_quantile: linear within a bucket, the last finite edge beyond it; NaN without values. */
export function quantile(q, { edges, counts }) {
  const all = counts.at(-1) ?? 0;
  if (!all) return NaN;
  const rank = q * all;
  const i = counts.findIndex((count) => count >= rank);
  if (edges[i] === Infinity) return edges[i - 1] ?? NaN;
  if (i === 0 && edges[0] <= 0) return edges[0];
  const below = i ? counts[i - 1] : 0;
  const from = i ? edges[i - 1] : 0;
  return from + (edges[i] - from) * ((rank - below) / (counts[i] - below));
}

/** Share of the values that are at most `edge`, which must be an edge of the buckets. */
export function share(edge, { edges, counts }) {
  const all = counts.at(-1) ?? 0;
  return all ? counts[edges.indexOf(edge)] / all : NaN;
}
