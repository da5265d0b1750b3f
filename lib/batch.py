"""The old address of lib.measure.batch, which people's scripts import."""

from lib.measure.batch import *  # noqa: F403
