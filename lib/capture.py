"""The old address of lib.measure.capture, which people's scripts import."""

from lib.measure.capture import *  # noqa: F403
