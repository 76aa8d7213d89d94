# Everything a newcomer needs: `make demo` and `make test` set up what they use on first run.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# A default encoding is an error, as every warning is: in the tests and in what they start.
STRICT := PYTHONWARNDEFAULTENCODING=1

# Tests start hundreds of Python processes: without cached bytecode each of them compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format docs soak e2e windows bench release clean

help:
	@echo "make demo    Ralph's main job, end to end, on a sample project"
	@echo "make test    the test suite (crash and scale tests reduced)"
	@echo "make check   lint, types, layers, docs, exports"
	@echo "make soak    the long crash and scale tests, in full"
	@echo "make e2e     on the real clients and Chromium, fetched with npm and apt (RALPH_E2E_ALL=1: all clients; CI=true: no skips)"
	@echo "make windows Windows Pythons under Wine, both fetched (RALPH_WINDOWS=--part: what CI runs)"
	@echo "make bench   the benchmarks"
	@echo "make docs    write the generated pages anew"
	@echo "make format  format the code"
	@echo "make release build the wheel and the sdist, check both, upload nothing"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . \
		$$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"])')
	touch $(READY)

# The demo needs the program and its pages; the developers' tools come with `make test`.
$(BIN)/ralph: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[web]'
	touch $(BIN)/ralph

demo: $(BIN)/ralph
	@$(BIN)/ralph demo

# What is read from the source alone, and the commands in the documentation, are left to `make check`.
CHECKS := tests/test_layers.py tests/test_docs.py tests/test_console.py tests/test_exports.py tests/test_language.py tests/test_versions.py

test: $(READY)
	$(STRICT) $(BIN)/python -m pytest -n 2 --dist worksteal --ignore=tests/e2e $(CHECKS:%=--ignore=%)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 src
	$(STRICT) $(BIN)/python -m pytest $(CHECKS)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	$(BIN)/python docs/generate.py

soak: $(READY)
	$(BIN)/python -m tests.e2e.install_clients
	$(BIN)/python -m tests.e2e.install_browser
	RALPH_SOAK=1 $(STRICT) $(BIN)/python -m pytest --timeout 0 -m soak --ignore=tests/e2e/web
	RALPH_SOAK=1 $(STRICT) $(BIN)/python -m pytest --timeout 0 -m soak tests/e2e/web
	$(BIN)/python bench/million.py
	test ! -x /usr/lib/postgresql/15/bin/postgres || RALPH_POSTGRES=15 $(STRICT) $(BIN)/python -m pytest tests/team

# In two parts, since a process that drives a browser can run no event loop of its own.
# The clients are pinned in tests/e2e/install_clients.py, the browser, the shells and PgBouncer are Debian's; what cannot be had is said and skipped.
e2e: $(READY)
	$(BIN)/python -m tests.e2e.install_clients
	$(BIN)/python -m tests.e2e.install_browser
	$(BIN)/python -m tests.e2e.install_shells
	$(BIN)/python -m tests.e2e.install_pooler
	$(STRICT) $(BIN)/python -m pytest -n 2 --dist worksteal -m e2e -rs tests/e2e --ignore=tests/e2e/web
	$(STRICT) $(BIN)/python -m pytest -n 2 --dist worksteal -m e2e -rs tests/e2e/web

# Type checkers skip what is only for Windows unless they are told to check it.
windows: $(READY)
	$(BIN)/mypy --platform win32 src
	$(BIN)/python -m tests.windows.run $(RALPH_WINDOWS)

bench: $(READY)
	$(BIN)/python bench/run.py

release: $(READY)
	$(BIN)/python tools/release.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
