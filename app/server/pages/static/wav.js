/** A WAV file (16 bits, mono) of pieces of samples. */
export function wav(pieces, rate) {
  const count = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const header = new DataView(new ArrayBuffer(44));
  const text = (offset, letters) => [...letters].forEach((letter, i) => header.setUint8(offset + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  header.setUint32(4, 36 + 2 * count, true);
  text(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, rate, true);
  header.setUint32(28, 2 * rate, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  text(36, "data");
  header.setUint32(40, 2 * count, true);
  const data = new Int16Array(count);
  let at = 0;
  for (const piece of pieces) for (const sample of piece) data[at++] = Math.max(-32768, Math.min(32767, Math.round(sample * 32768)));
  return new Blob([header, data], { type: "audio/wav" });
}
