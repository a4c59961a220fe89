// Plays samples as they come, without a gap where none is needed.

// The first piece begins a little later than now, or its beginning would be cut.
const LEAD = 0.02;

export class Player {
  constructor(rate) {
    this.rate = rate;
    this.context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
    // What is really played can be looked at here.
    this.analyser = new AnalyserNode(this.context, { fftSize: 2048 });
    this.analyser.connect(this.context.destination);
    this.reset();
  }

  reset() {
    this.sources = new Set();
    this.segments = [];
    this.until = 0;
    this.queued = 0;
    this.starved = 0;
  }

  /** Play after what is queued, or at once if that has run out. */
  push(samples) {
    const buffer = this.context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.analyser);
    const now = this.context.currentTime + LEAD;
    if (this.until < now) {
      if (this.until > 0) this.starved += now - this.until;
      this.until = now;
    }
    source.start(this.until);
    this.segments.push({ at: this.until, from: this.queued, seconds: buffer.duration });
    this.until += buffer.duration;
    this.queued += buffer.duration;
    this.sources.add(source);
    source.onended = () => this.sources.delete(source);
  }

  /** Seconds of the stream that were heard. */
  get position() {
    const now = this.context.currentTime - (this.context.outputLatency || 0);
    let heard = 0;
    for (const { at, from, seconds } of this.segments) {
      if (now < at) break;
      heard = from + Math.min(seconds, now - at);
    }
    return heard;
  }

  get playing() {
    return this.sources.size > 0;
  }

  stop() {
    for (const source of this.sources) {
      source.onended = null;
      source.stop();
    }
    this.reset();
  }
}
