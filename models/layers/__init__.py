"""Neural network layers, one definition each.

Arrays are channels-last: [batch, length, channels], float32 unless a layer says otherwise. A layer's `lower` method
brings its weights into the device's order: call it once, after loading. Where an array is padded to a bucket
(`models.backend.bucket`), a `PaddingMask` marks the valid rows. Layers that look along time ignore the rest and set it
to zero.

Kernels for GPUs, `..._kernel`, lie beside their plain definitions, `..._reference`; `kernels` holds what they share.
"""
