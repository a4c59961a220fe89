"""Code that the kernels of several layers and families share."""
