"""T3: text to speech tokens.

`network` is the model (`backbone` its Transformers, `cache` its keys and values), `weights` loads it.
`decoder` draws tokens: `state` holds a request, `sampling` the rules of a draw, `drafts` and `draft_model` the guesses
and their verification. `kernels` has the step for GPUs.
"""
