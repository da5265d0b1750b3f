# make book    set up, train the mini models, measure, execute every notebook, build the report
# make pdf     the narrative as one PDF, _build/report.pdf, once the report is built (needs a Chromium browser)
# make test    set up and run the tests
# make quick   the tests without browser, book and training, in two minutes
# make lint    format, style and types
# make check-bits    the same bits on two emulated processors? (needs Debian's qemu-user; five minutes)
# make models  set up and train the mini models only
# make book PANEL=paper OPTIONS=--evict    the report of another panel; see book/run_1b.md
# make clean   remove all that was made but the environment and the trained models

PANEL ?= mini
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: book pdf test quick lint check-bits models clean

book: models
	@$(BIN)/python -m lib.run --panel $(PANEL) $(OPTIONS); code=$$?; \
	if [ $$code -le 1 ]; then $(BIN)/python -m lib.book --panel $(PANEL) || exit $$?; fi; exit $$code

pdf: .venv/installed
	@$(BIN)/python -m lib.book --panel $(PANEL) --pdf

test: .venv/dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadgroup

quick: .venv/dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadgroup -m "not slow"

lint: .venv/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

check-bits: .venv/dev
	CHECK_BITS=1 $(BIN)/python -m pytest tests/test_numerics.py -v

models: .venv/installed
	@$(BIN)/python -m lib.train --panel $(PANEL)

clean:
	rm -rf results _build

# Stamps are written last: a set-up that was interrupted is done again.
.venv/installed: requirements.txt pyproject.toml
	@command -v $(PYTHON) > /dev/null || { echo "Python 3.11 is needed and '$(PYTHON)' was not found; name yours: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "Python 3.11 is needed; $(PYTHON) is another version"; exit 1; }
	@echo "setting up the environment in .venv (some minutes, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev: .venv/installed requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
