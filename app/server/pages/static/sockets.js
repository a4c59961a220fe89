// The WebSockets of the API, which OpenAPI cannot describe: what they are for, their messages, and a way to try them.
import { h } from "./dom.js";
import { showError } from "./errors.js";
import { protocols } from "./key.js";
import { clear, cut, player } from "./reply.js";
import { paragraphs, fieldList } from "./schema.js";
import { wav } from "./wav.js";

const SOCKETS = [
  {
    path: "/v1/audio/stream",
    query: "",
    summary: "Text goes in while it is written, sound comes out sentence by sentence.",
    about: "Send `start`, then any number of `text`, then `flush`. The server answers `ready`, then a `chunk` before the "
      + "binary frames with its samples, and `done` in the end. `cancel` drops what was not sent yet; `end` closes.",
    lines: ['{"type": "start", "format": "pcm", "timestamps": true}', '{"type": "text", "text": "Hello! How are you today?"}', '{"type": "flush"}'],
    last: ({ type }) => type === "done" || type === "error",
  },
  {
    path: "/v1/audio/interpret",
    query: "",
    summary: "Speech goes in while it is spoken, text and speech in another language come out.",
    about: "Send `start`, then binary frames with 16-bit samples. The server answers `ready`, then `sentence`, "
      + "`translation`, and `chunk` before the binary frames with its samples. `end` interprets the rest and closes. "
      + "The page `/interpret` does it with your microphone.",
    lines: ['{"type": "start", "target": "fr"}', '{"type": "end"}'],
    last: ({ type, fatal }) => type === "done" || (type === "error" && fatal),
  },
  {
    path: "/v1/realtime/translations",
    query: "?model=gpt-realtime-translate",
    summary: "The same for OpenAI's clients.",
    about: "Samples come and go as base64, 16-bit at 24 kHz. `session.close` translates the rest.",
    lines: ['{"type": "session.update", "session": {"audio": {"output": {"language": "fr"}}}}', '{"type": "session.close"}'],
    last: ({ type }) => type === "session.closed",
  },
  {
    path: "/v1/speak",
    query: "?encoding=linear16&sample_rate=24000",
    summary: "The same for Deepgram's clients.",
    about: "Send `Speak` messages, then `Flush`. Sound comes as binary frames, `Flushed` after the last one.",
    lines: ['{"type": "Speak", "text": "Hello! How are you today?"}', '{"type": "Flush"}'],
    last: ({ type }) => type === "Flushed" || type === "Error",
  },
  {
    path: "/v1/text-to-speech/{voice_id}/stream-input",
    query: "?output_format=pcm_24000",
    summary: "The same for ElevenLabs' clients.",
    about: "The first message opens the stream with a space, an empty "
      + "`text` ends it. Sound comes as base64 in the field `audio`, and `isFinal` with the last.",
    lines: ['{"text": " "}', '{"text": "Hello! How are you today? "}', '{"text": ""}'],
    last: ({ isFinal, error }) => isFinal || error,
  },
];

/** What a page shows of each socket: {id, path, summary, parts}. `messages` are the schemas of the first one's. */
export function sockets(messages) {
  return SOCKETS.map((socket, i) => ({
    path: socket.path,
    summary: socket.summary,
    parts: [...paragraphs(socket.about), tryForm(socket, i), ...(i ? [] : [...each("client", "You send", messages), ...each("server", "The server sends", messages)])],
  }));
}

function each(side, title, messages) {
  const definitions = messages[side].$defs;
  return Object.values(definitions)
    .filter(({ properties }) => properties?.type)
    .map((schema) => fieldList(`${title}: ${schema.properties.type.const}`, schema.properties, schema.required, messages[side]));
}

function tryForm(socket, i) {
  const address = h("input", { id: `address-${i}`, type: "text", value: socket.path.replace("{voice_id}", "alloy") + socket.query });
  const editor = h("textarea", { id: `lines-${i}`, spellcheck: "false", rows: socket.lines.length + 1 }, socket.lines.join("\n"));
  const trouble = h("div", { class: "alert", role: "alert", hidden: true });
  const log = h("pre", { tabindex: "0", "aria-label": "Messages", role: "log", hidden: true });
  const sound = h("div", {});
  const form = h("form", { class: "try" }, h("h4", {}, "Try it"),
    h("div", { class: "fields" }, h("div", {}, h("label", { for: address.id }, "Path"), address)),
    h("label", { for: editor.id }, "Messages to send, one a line"), editor,
    h("div", { class: "actions" }, h("button", { class: "main", type: "submit" }, "Connect and send")), trouble, log, sound);
  let open = null;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    open?.close();
    showError(trouble, null);
    clear(sound);
    log.replaceChildren();
    log.hidden = false;
    open = converse(address.value, editor.value, socket.last, {
      said: (line) => log.append(`${cut(line)}\n`),
      heard: (blob) => sound.append(player(blob)),
      failed: (error) => showError(trouble, error),
    });
  });
  return form;
}

/** Open a socket, send each line, and tell what comes. Samples are 16-bit at the rate that is said, or 24 kHz. */
function converse(path, text, last, on) {
  const address = new URL(path, location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address, protocols());
  socket.binaryType = "arraybuffer";
  const pieces = [];
  let rate = 24_000;
  let ended = false;
  socket.onopen = () => {
    for (const line of text.split("\n").filter((each) => each.trim())) {
      socket.send(line);
      on.said(`→ ${line}`);
    }
  };
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      on.said(`← ${data.byteLength} bytes`);
      hear(new Uint8Array(data), pieces);
      return;
    }
    const message = JSON.parse(data);
    rate = message.sample_rate ?? rate;
    if (message.audio) {
      on.said(`← {"audio": ${message.audio.length} characters of base64, …}`);
      hear(Uint8Array.from(atob(message.audio), (letter) => letter.charCodeAt(0)), pieces);
    } else on.said(`← ${data}`);
    if (!last(message)) return;
    ended = true;
    socket.close(1000);
    if (pieces.length) on.heard(wav(pieces, rate));
  };
  socket.onclose = ({ code, reason }) => {
    on.said(`closed: ${code} ${reason}`.trimEnd());
    if (!ended) on.failed({ message: reason || "The connection was closed before the end.", code });
  };
  return socket;
}

function hear(bytes, pieces) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  pieces.push(Float32Array.from({ length: bytes.byteLength >> 1 }, (_, i) => view.getInt16(2 * i, true) / 32768));
}
