"""What the paper published, and the ledger: its statements held against its own figures.

Takes the published tables (book/data) and the claims (claims.yml); hands on recomputed numbers and verdicts.
May import: measure, panels, findings.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["judgements", "ledger", "published"],
)
