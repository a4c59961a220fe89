"""S3Gen: speech tokens to mel frames to a waveform.

`flow` makes mel frames (`encoder`, and `estimator` of `blocks`), `vocoder` a waveform (`f0` its pitch, `source` its
excitation); `weights` loads both. `streaming` speaks tokens as they come, `noise` draws by place, and `level` finishes
the samples. `kernels` has the estimator's blocks for GPUs.
"""
