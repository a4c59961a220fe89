"""S3Gen: speech tokens to mel frames to a waveform.

`flow` makes mel frames (`encoder`, and `estimator` of `blocks`), `vocoder` a waveform (`source` its pitch and
excitation); `weights` loads both. `streaming` speaks tokens as they come, `noise` draws by place, and `level` finishes
the samples. `kernels` has the estimator's blocks for GPUs.
"""
