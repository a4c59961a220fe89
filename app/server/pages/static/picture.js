// Waveform and spectrogram of a sound that grows: always the whole of it, in a bounded number of columns.
import { color } from "./dom.js";

const SIZE = 512;
const BINS = 128;
const COLUMNS = 2048;

const window_ = Float32Array.from({ length: SIZE }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / SIZE));

/** Magnitudes of the first half of the spectrum, in place (radix 2, decimation in time). */
export function spectrum(samples) {
  const size = samples.length;
  const re = Float32Array.from(samples);
  const im = new Float32Array(size);
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [re[i], re[j]] = [re[j], re[i]];
  }
  for (let span = 2; span <= size; span <<= 1) {
    for (let k = 0; k < span / 2; k++) {
      const angle = (-2 * Math.PI * k) / span;
      const wr = Math.cos(angle), wi = Math.sin(angle);
      for (let i = k; i < size; i += span) {
        const j = i + span / 2;
        const xr = re[j] * wr - im[j] * wi, xi = re[j] * wi + im[j] * wr;
        re[j] = re[i] - xr; im[j] = im[i] - xi;
        re[i] += xr; im[i] += xi;
      }
    }
  }
  return re.subarray(0, size / 2).map((real, i) => Math.hypot(real, im[i]));
}

export class Picture {
  constructor(wave, spectrogram) {
    this.wave = wave;
    this.spectrogram = spectrogram;
    this.clear(24000);
  }

  clear(rate) {
    this.rate = rate;
    this.hop = SIZE / 2;
    this.columns = [];
    this.rest = new Float32Array(0);
    this.last = new Float32Array(SIZE);
    this.samples = 0;
    this.merge = 1;
    this.pending = null;
    this.dirty = true;
  }

  get seconds() {
    return this.samples / this.rate;
  }

  push(samples) {
    this.samples += samples.length;
    const all = new Float32Array(this.rest.length + samples.length);
    all.set(this.rest);
    all.set(samples, this.rest.length);
    let at = 0;
    for (; at + this.hop <= all.length; at += this.hop) this.column(all.subarray(at, at + this.hop));
    this.rest = all.slice(at);
    this.dirty = true;
  }

  column(hop) {
    this.last.copyWithin(0, this.hop);
    this.last.set(hop, SIZE - this.hop);
    const levels = new Uint8ClampedArray(BINS);
    const found = spectrum(this.last.map((sample, i) => sample * window_[i]));
    for (let bin = 0; bin < BINS; bin++) {
      // Bins are pairs of the transform's; 80 dB below a full-scale sine is nothing.
      const power = Math.max(found[2 * bin], found[2 * bin + 1]) / (SIZE / 4);
      levels[bin] = 255 * (1 + Math.log10(power + 1e-9) / 4);
    }
    let low = 0, high = 0;
    for (const sample of hop) { low = Math.min(low, sample); high = Math.max(high, sample); }
    this.pending = join(this.pending, { low, high, levels, count: 1 });
    if (this.pending.count < this.merge) return;
    this.columns.push(this.pending);
    this.pending = null;
    if (this.columns.length < COLUMNS) return;
    // Full: two columns become one.
    this.columns = Array.from({ length: COLUMNS / 2 }, (_, i) => join(this.columns[2 * i], this.columns[2 * i + 1]));
    this.merge *= 2;
  }

  /** Draw both, with a line at `position` seconds. */
  draw(position) {
    const shown = Math.max(this.seconds, 1);
    if (this.dirty || this.width !== this.wave.clientWidth || this.scheme !== color("--wave")) {
      this.width = this.wave.clientWidth;
      this.scheme = color("--wave");
      this.paint(shown);
      this.dirty = false;
    }
    for (const [canvas, painted] of [[this.wave, this.paintedWave], [this.spectrogram, this.paintedSpectrum]]) {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(painted, 0, 0);
      if (position > 0) {
        pen.fillStyle = color("--bad");
        pen.fillRect((position / shown) * canvas.width - 1, 0, 2, canvas.height);
      }
    }
  }

  paint(shown) {
    for (const canvas of [this.wave, this.spectrogram]) {
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    }
    this.paintedWave = new OffscreenCanvas(this.wave.width, this.wave.height);
    this.paintedSpectrum = new OffscreenCanvas(this.spectrogram.width, this.spectrogram.height);
    const end = this.wave.width * Math.min(1, this.seconds / shown);
    const middle = this.wave.height / 2;
    const pen = this.paintedWave.getContext("2d");
    pen.fillStyle = color("--wave");
    const count = this.columns.length;
    pen.fillRect(0, middle - 0.5, this.wave.width, 1);
    if (!count) return;
    const step = end / count;
    this.columns.forEach(({ low, high }, i) => {
      pen.fillRect(i * step, middle - high * middle, Math.max(1, step), Math.max(1, (high - low) * middle));
    });
    const strip = new OffscreenCanvas(count, BINS);
    const image = new ImageData(count, BINS);
    const pixels = new Uint32Array(image.data.buffer);
    const map = palette();
    this.columns.forEach(({ levels }, x) => {
      for (let bin = 0; bin < BINS; bin++) pixels[(BINS - 1 - bin) * count + x] = map[levels[bin]];
    });
    strip.getContext("2d").putImageData(image, 0, 0);
    this.paintedSpectrum.getContext("2d").drawImage(strip, 0, 0, count, BINS, 0, 0, end, this.spectrogram.height);
  }
}

function join(a, b) {
  if (!a) return b;
  const levels = a.levels.map((level, i) => Math.max(level, b.levels[i]));
  return { low: Math.min(a.low, b.low), high: Math.max(a.high, b.high), levels, count: a.count + b.count };
}

/** 256 colors from the ground to ink, through the accent, as pixels. */
function palette() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const stops = dark
    ? [[20, 22, 26], [24, 62, 84], [37, 125, 118], [138, 200, 108], [253, 240, 170]]
    : [[251, 250, 248], [190, 222, 206], [74, 160, 148], [30, 84, 120], [24, 20, 54]];
  const bytes = new Uint8ClampedArray(1024);
  for (let level = 0; level < 256; level++) {
    const place = (level / 255) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(place));
    bytes.set([...stops[i].map((from, c) => from + (stops[i + 1][c] - from) * (place - i)), 255], 4 * level);
  }
  return new Uint32Array(bytes.buffer);
}
