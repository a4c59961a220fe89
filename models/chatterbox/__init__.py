"""Chatterbox (Resemble AI): text to speech tokens to a waveform, in any recorded voice.

`pipeline` loads a checkpoint and speaks. `config` is the architecture, `text` makes text ids, `weights` reads official
files, `warmup` runs every shape once. The networks: `t3` turns text into speech tokens; `s3gen` turns tokens into a
waveform; `reference` turns a recording into what both need to speak in its voice.
"""
