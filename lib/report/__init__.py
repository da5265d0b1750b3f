"""The report: the run that a notebook opens, the execution of all notebooks, the pages, and the book made of them.

Takes tables, verdicts and figures; hands on executed notebooks (results/) and the built book (_build/).
May import: measure, panels, tables, findings, paper, figures, lessons.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["book", "contents", "execution", "explorer", "jobs", "pages", "run_page"],
    submod_attrs={"run_page": ["open_run"]},
)
