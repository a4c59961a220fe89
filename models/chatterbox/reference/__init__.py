"""A recording to the arrays that T3 and S3Gen need to speak in its voice.

`conditioning` runs the whole; `tokenizer`, `speaker` and `voice_encoder` are its networks, which `weights` loads.
`front_ends` prepares their inputs.
"""
