"""MLX is imported through `models.backend`, which prepares the process for it, before any test imports it."""

import models.backend  # noqa: F401  (for what it does at import)
