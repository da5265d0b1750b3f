"""Measure a panel and execute its notebooks: python -m lib.run --help."""

import sys

from lib import numerics

if __name__ == "__main__":
    with numerics.inherited():  # numpy reads it when it is imported
        from lib.report.execution import main

        sys.exit(main())
