"""The old address of lib.measure.ablation, which people's scripts import."""

from lib.measure.ablation import *  # noqa: F403
