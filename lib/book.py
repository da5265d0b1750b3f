"""Build the report of a panel: python -m lib.book --help."""

import sys

from lib import numerics

if __name__ == "__main__":
    with numerics.inherited():  # numpy reads it when it is imported
        from lib.report.book import main

        sys.exit(main())
