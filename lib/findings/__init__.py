"""What tables say: pure functions of head and causal tables; no file, no model.

Takes trajectories of heads (counting.Trajectory) and causal tables.  Hands on, for each finding, a claim, a verdict by a
rule, and the numbers it rests on.  One module a finding: a new F6.py here is found by itself.
May import: measure.
"""

from importlib import import_module
from pkgutil import iter_modules

for _name in sorted((m.name for m in iter_modules(__path__) if m.name[1:].isdigit()), key=lambda name: int(name[1:])):
    import_module(f"{__name__}.{_name}")
for _name in ("counting", "judging", "controls", "crosschecks", "effects"):
    import_module(f"{__name__}.{_name}")
