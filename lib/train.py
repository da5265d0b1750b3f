"""Train the mini models of a panel: python -m lib.train --help."""

import sys

from lib.panels.mini_models import main

if __name__ == "__main__":
    sys.exit(main())
