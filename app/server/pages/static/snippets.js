// The same request in other languages. `body` is that of POST /v1/audio/speech; `keyed`: the server wants a key, which
// the code reads from where secrets belong.

export function snippets(body, origin, keyed) {
  const url = `${origin}/v1/audio/speech`;
  const json = JSON.stringify(body, null, 2);
  return {
    curl: [
      `curl -sf ${url} \\`,
      "  -H 'Content-Type: application/json' \\",
      ...(keyed ? ['  -H "Authorization: Bearer $API_KEY" \\'] : []),
      // In single quotes a shell takes everything as it is, but a single quote.
      `  -d '${json.replaceAll("'", "'\\''")}' \\`,
      "  -o speech.wav",
    ].join("\n"),
    Python: [
      "import json",
      ...(keyed ? ["import os"] : []),
      "import urllib.request",
      "",
      // A line of JSON begins no text.
      `body = ${json.replace(/^( +"\w+": )t(?=rue,?$)/gm, "$1T")}`,
      'headers = {"Content-Type": "application/json"}',
      ...(keyed ? ['headers["Authorization"] = "Bearer " + os.environ["API_KEY"]'] : []),
      `request = urllib.request.Request(${JSON.stringify(url)}, json.dumps(body).encode(), headers)`,
      'with urllib.request.urlopen(request) as reply, open("speech.wav", "wb") as file:',
      "    while piece := reply.read(8192):  # as it is spoken",
      "        file.write(piece)",
    ].join("\n"),
    JavaScript: [
      `const reply = await fetch(${JSON.stringify(url)}, {`,
      '  method: "POST",',
      keyed
        ? '  headers: { "Content-Type": "application/json", Authorization: `Bearer ${process.env.API_KEY}` },'
        : '  headers: { "Content-Type": "application/json" },',
      `  body: JSON.stringify(${json.replaceAll("\n", "\n  ")}),`,
      "});",
      "if (!reply.ok) throw new Error((await reply.json()).error.message);",
      'await (await import("node:fs/promises")).writeFile("speech.wav", reply.body);',
    ].join("\n"),
  };
}
