"""Turbo's mean flow: what test_parity_flow.py compares, in a file of its own, so that two workers can share."""

from tests.models.chatterbox.s3gen.test_parity_flow import *  # noqa: F403

VARIANT = "turbo"
