"""The shared library of the executable paper "When do attention circuits form?".

Data flows one way: panel -> models -> capture, ablation -> heads, causal (tables on
disk) -> counting -> findings, controls, effects, crosschecks (pure functions) -> figures
and story (inside the notebooks) -> run -> pages -> book.  published and ledger read the
paper's own tables instead.  Nothing downstream is imported upstream.
"""
