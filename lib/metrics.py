"""The old address of lib.measure.metrics, which people's scripts import."""

from lib.measure.metrics import *  # noqa: F403
