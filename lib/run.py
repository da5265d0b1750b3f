"""Measure a panel and execute its notebooks: python -m lib.run --help."""

import sys

from lib.report.execution import main

if __name__ == "__main__":
    sys.exit(main())
