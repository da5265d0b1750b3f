"""Copies of the lessons to work in, and their marks: python -m lib.lessons --help."""

import sys

from lib.lessons.notebooks import main

if __name__ == "__main__":
    sys.exit(main())
