"""The lessons: their notebooks, figures, and the checkers of their exercises, one module a lesson.

Takes a learner's answers and the data that they are about; hands on what is right, or a hint.
May import: measure, panels, tables, findings, figures.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["answers", "figures", "lesson_1", "lesson_2", "lesson_3", "lesson_4", "lesson_5", "notebooks"],
)
