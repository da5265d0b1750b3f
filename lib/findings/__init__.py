"""What tables say: pure functions of head and causal tables; no file, no model.

Takes trajectories of heads (counting.Trajectory) and causal tables.  Hands on, for each finding, a claim, a verdict by a
rule, and the numbers it rests on.  One module a finding: a new F6.py here is found by itself.
May import: measure.
"""

from importlib import import_module
from pkgutil import iter_modules

_modules = [module.name for module in iter_modules(__path__)]
_findings = sorted((name for name in _modules if name[1:].isdigit()), key=lambda name: int(name[1:]))
for _name in [*_findings, *_modules]:  # the findings first, since they stand in judging.FINDINGS as they are imported
    import_module(f"{__name__}.{_name}")
