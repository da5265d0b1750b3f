"""The figures, one function each: head tables in, a drawn figure with its words out.

The notebooks draw with what is imported here; the report also uses lib.figures.panel.
"""

from lib.figures.run import bos_curve, first_token_map, milestones, pr_against_selectivity, recall

__all__ = ["bos_curve", "first_token_map", "milestones", "pr_against_selectivity", "recall"]
