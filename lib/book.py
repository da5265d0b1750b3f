"""Build the report of a panel: python -m lib.book --help."""

import sys

from lib.report.book import main

if __name__ == "__main__":
    sys.exit(main())
