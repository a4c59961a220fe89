// Runs beside the page, in the thread of audio: hands over what the microphone hears, 16-bit samples in pieces.

// Seconds of a piece.
const CHUNK_SECONDS = 0.1;

class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.piece = new Int16Array(Math.round(CHUNK_SECONDS * sampleRate));
    this.count = 0;
  }

  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.piece[this.count++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.count === this.piece.length) {
        this.port.postMessage(this.piece.slice().buffer);
        this.count = 0;
      }
    }
    return true;
  }
}

registerProcessor("recorder", Recorder);
