"""Turbo's T3: what test_parity_t3.py compares, in a file of its own, so that two workers can share."""

from tests.models.chatterbox.t3.test_parity_t3 import *  # noqa: F403

VARIANT = "gpt2"
