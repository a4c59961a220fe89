"""Neural network layers, one definition each, lowered per device.

Arrays are channels-last: [batch, length, channels], float32 unless said. A `length` argument gives the number of
valid rows where an array is padded to a bucket; layers that look along time then ignore, and re-zero, the rest.
"""
