// The same request in other languages. `body` is that of POST /v1/audio/speech.

export function snippets(body, origin) {
  const url = `${origin}/v1/audio/speech`;
  const json = JSON.stringify(body, null, 2);
  return {
    curl: [
      `curl -sf ${url} \\`,
      "  -H 'Content-Type: application/json' \\",
      // In single quotes a shell takes everything as it is, but a single quote.
      `  -d '${json.replaceAll("'", "'\\''")}' \\`,
      "  -o speech.wav",
    ].join("\n"),
    Python: [
      "import json",
      "import urllib.request",
      "",
      `body = ${json}`,
      "request = urllib.request.Request(",
      `    ${JSON.stringify(url)}, json.dumps(body).encode(), {"Content-Type": "application/json"}`,
      ")",
      'with urllib.request.urlopen(request) as reply, open("speech.wav", "wb") as file:',
      "    while piece := reply.read(8192):  # as it is spoken",
      "        file.write(piece)",
    ].join("\n"),
    JavaScript: [
      `const reply = await fetch(${JSON.stringify(url)}, {`,
      '  method: "POST",',
      '  headers: { "Content-Type": "application/json" },',
      `  body: JSON.stringify(${json.replaceAll("\n", "\n  ")}),`,
      "});",
      "if (!reply.ok) throw new Error((await reply.json()).error.message);",
      'await (await import("node:fs/promises")).writeFile("speech.wav", reply.body);',
    ].join("\n"),
  };
}
