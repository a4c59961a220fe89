// The microphone: 16-bit samples of one channel, as they are heard.

// Hz that the server takes at most.
const MAX_RATE = 48_000;
// Bytes that may wait to be sent: a server that is that far behind will not catch up.
const BEHIND = 4_000_000;

export class Microphone {
  /** Ask for the microphone, at `rate` Hz or what it has. Throws an error object with words for people. */
  static async open(rate = undefined) {
    if (!navigator.mediaDevices) {
      throw { message: "This browser gives a page the microphone over HTTPS, or from localhost, alone." };
    }
    try {
      const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true };
      const stream = await navigator.mediaDevices.getUserMedia({ audio });
      let context = new AudioContext({ sampleRate: rate });
      if (context.sampleRate > MAX_RATE) {
        context.close();
        context = new AudioContext({ sampleRate: MAX_RATE });
      }
      await context.audioWorklet.addModule("/web/recorder.js");
      return new Microphone(stream, context);
    } catch (error) {
      throw { message: `The microphone cannot be used: ${error.message}.` };
    }
  }

  constructor(stream, context) {
    this.stream = stream;
    this.context = context;
    this.rate = context.sampleRate;
  }

  /** Call `heard` with each piece, an ArrayBuffer. */
  listen(heard) {
    const recorder = new AudioWorkletNode(this.context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => heard(data);
    this.context.createMediaStreamSource(this.stream).connect(recorder);
    this.context.resume();
  }

  /** Call `send` with each piece while `socket` is open and `wanted()` holds; where the server is too slow for them, call
   * `fail` with an error object. */
  feed(socket, wanted, send, fail) {
    this.listen((piece) => {
      if (!wanted() || socket.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > BEHIND) fail({ message: "The server is too slow for this microphone." });
      else send(piece);
    });
  }

  close() {
    for (const track of this.stream.getTracks()) track.stop();
    this.context.close();
  }
}
