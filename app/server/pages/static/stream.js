// One request over WS /v1/audio/stream: text goes out, events and samples come in.
import { protocols, renewed } from "./key.js";

// Well below the server's limit on a frame, even where each character takes four bytes.
const CHUNK_CHARACTERS = 8000;

/** Speak `text` with the options of `start`. `on` has loading, ready, warning, chunk, audio(Float32Array),
 * done, error({message, code, request_id}). */
export class SpeechStream {
  constructor(start, text, on) {
    this.on = on;
    this.finished = false;
    this.half = null;
    this.connect(start, text);
  }

  connect(start, text) {
    const address = new URL("/v1/audio/stream", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    let opened = false;
    this.socket = new WebSocket(address, protocols());
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      opened = true;
      this.send({ type: "start", ...start, format: "pcm", timestamps: true });
    };
    this.socket.onmessage = ({ data }) => {
      if (this.finished) return;
      if (data instanceof ArrayBuffer) this.hear(data);
      else this.handle(JSON.parse(data), text);
    };
    this.socket.onclose = async (event) => {
      if (!opened && !this.finished && await renewed() && !this.finished) {
        this.connect(start, text);
        return;
      }
      // Without a reason it was no decision of the server's.
      this.fail({ message: event.reason || `The connection was closed (${event.code}).`, code: event.reason ? String(event.code) : "1006" });
    };
  }

  handle(event, text) {
    if (event.type === "ready") {
      this.on.ready(event);
      // Not between the halves of a surrogate pair.
      for (const piece of text.match(new RegExp(`[^]{1,${CHUNK_CHARACTERS}}(?<![\\ud800-\\udbff])`, "g")) ?? []) {
        this.send({ type: "text", text: piece });
      }
      this.send({ type: "flush" });
    } else if (event.type === "loading") {
      this.on.loading(event);
    } else if (event.type === "warning") {
      this.on.warning(event);
    } else if (event.type === "chunk") {
      this.on.chunk(event);
    } else if (event.type === "done") {
      this.finish();
      this.on.done(event);
    } else if (event.type === "error") {
      this.fail(event.error);
    }
  }

  /** 16-bit little-endian samples; a frame may end in the middle of one. */
  hear(buffer) {
    let data = new Uint8Array(buffer);
    if (this.half !== null) {
      const joined = new Uint8Array(data.length + 1);
      joined[0] = this.half;
      joined.set(data, 1);
      data = joined;
    }
    this.half = data.length % 2 ? data[data.length - 1] : null;
    const count = data.length >> 1;
    const view = new DataView(data.buffer, data.byteOffset);
    const samples = new Float32Array(count);
    for (let i = 0; i < count; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
    if (count) this.on.audio(samples);
  }

  /** Have the server drop what it has not sent. */
  cancel() {
    if (this.finished) return;
    this.send({ type: "cancel" });
    this.finish();
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  finish() {
    this.finished = true;
    this.socket.close(1000);
  }

  fail(error) {
    if (this.finished) return;
    this.finish();
    this.on.error(error);
  }
}
