"""Train the mini models of a panel: python -m lib.train --help."""

import sys

from lib import numerics

if __name__ == "__main__":
    with numerics.inherited():  # numpy reads it when it is imported
        from lib.panels.mini_models import main

        sys.exit(main())
