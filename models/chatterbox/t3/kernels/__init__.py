"""Kernels of T3's decoding step: `cuda` and `metal` run the bodies that `source` reads, on `weights` in their order.

`draw` draws the token from its logits. `choice` takes those that agree with plain operations.
"""
