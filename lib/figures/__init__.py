"""The figures, one function each: measurements in, a drawn figure with its words out.

The notebooks draw with what is imported here; the report also uses the other modules.
"""

from lib.figures.of_run import bos_curve, first_token_map, milestones, pr_against_selectivity, recall, sensitivity

__all__ = ["bos_curve", "first_token_map", "milestones", "pr_against_selectivity", "recall", "sensitivity"]
