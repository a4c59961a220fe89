// Plays samples as they come, without a gap where none is needed; what has come can be paused and sought in.

// The first piece begins a little later than now, or its beginning would be cut.
const LEAD = 0.02;

export class Player {
  constructor(rate, volume = 1) {
    this.rate = rate;
    this.context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
    this.gain = new GainNode(this.context, { gain: volume });
    // What is really played can be looked at here.
    this.analyser = new AnalyserNode(this.context, { fftSize: 2048 });
    this.gain.connect(this.analyser).connect(this.context.destination);
    this.sources = new Set();
    this.clear();
  }

  /** Forget every sample; what comes next is played from its beginning. */
  clear() {
    this.pieces = [];
    this.queued = 0;
    this.starved = 0;
    this.paused = false;
    this.begin(0);
    this.context.resume();
  }

  /** Drop what is scheduled, and go on at `position` seconds. */
  begin(position) {
    for (const source of this.sources) {
      source.onended = null;
      source.stop();
    }
    this.sources.clear();
    this.segments = [];
    this.until = 0;
    this.from = position;
  }

  /** Play after what is queued, or at once if that has run out. */
  push(samples) {
    const piece = { samples, from: this.queued };
    this.pieces.push(piece);
    this.queued += samples.length / this.rate;
    this.schedule(piece, 0);
  }

  schedule({ samples, from }, offset) {
    const buffer = this.context.createBuffer(1, samples.length, this.rate);
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(this.context, { buffer });
    source.connect(this.gain);
    const now = this.context.currentTime + LEAD;
    if (this.until < now) {
      if (this.until > 0) this.starved += now - this.until;
      this.until = now;
    }
    source.start(this.until, offset);
    this.segments.push({ at: this.until, from: from + offset, seconds: buffer.duration - offset });
    this.until += buffer.duration - offset;
    this.sources.add(source);
    source.onended = () => this.sources.delete(source);
  }

  /** Seconds of the stream that were heard. */
  get position() {
    const now = this.context.currentTime - (this.context.outputLatency || 0);
    let heard = this.from;
    for (const { at, from, seconds } of this.segments) {
      if (now < at) break;
      heard = from + Math.min(seconds, now - at);
    }
    return heard;
  }

  /** Sound is left to be heard, now or after a pause. */
  get active() {
    return this.sources.size > 0;
  }

  get playing() {
    return this.active && !this.paused;
  }

  play() {
    this.paused = false;
    this.context.resume();
    if (!this.active) this.seek(0);
  }

  pause() {
    this.paused = true;
    this.context.suspend();
  }

  seek(position) {
    const starved = this.starved;
    this.begin(position);
    for (const piece of this.pieces) {
      const offset = Math.max(0, position - piece.from);
      if (offset < piece.samples.length / this.rate) this.schedule(piece, offset);
    }
    this.starved = starved;
  }

  set volume(value) {
    this.gain.gain.value = value;
  }

  close() {
    this.begin(0);
    this.context.close();
  }
}
