# The two commands of the README are `make demo` and `make test`.
VENV := .venv
PY := $(VENV)/bin/python
# Debian's own, if it is new enough and has its venv: it is built with all optimizations, which pyenv's is not.
PYTHON ?= $(shell for python in /usr/bin/python3 python3; do $$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done || echo python3)

.PHONY: demo agent-demo test test-slow soak lint docs lock newest wheel deb release-check clean

demo: $(VENV)/.demo
	@$(PY) scripts/demo.py

agent-demo: $(VENV)/.dev
	$(PY) scripts/agent_demo.py

test: $(VENV)/.dev
	scripts/test

test-slow: $(VENV)/.dev
	scripts/test slow

soak: $(VENV)/.dev
	THREEGATE_SOAK=1 scripts/test soak

lint: $(VENV)/.dev
	scripts/test lint

docs: $(VENV)/.dev
	$(PY) scripts/generate_docs.py
	$(PY) scripts/card_picture.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "the site is in site/"

# The versions of requirements.lock; with UPGRADE=1 the newest that pyproject.toml allows.
lock: $(VENV)/.dev
	$(PY) scripts/lock.py $(if $(UPGRADE),--upgrade)

# Whether the newest versions that pyproject.toml allows work too, in an environment of their own.
newest: $(VENV)/.dev
	scripts/newest

# What to install here or on another machine (docs/install.md): dist/threegate-*.whl.
wheel: $(VENV)/.demo
	@rm -f dist/*.whl
	$(PY) -m hatchling build -t wheel -d dist

deb: $(VENV)/.demo
	$(PY) scripts/build_deb.py

release-check: $(VENV)/.dev
	$(PY) scripts/release_check.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*

$(VENV)/.demo: pyproject.toml requirements.lock
	scripts/environment $(PYTHON) $(VENV) . base
	@touch $@

$(VENV)/.dev: pyproject.toml requirements.lock
	scripts/environment $(PYTHON) $(VENV) . dev
	@touch $@ $(VENV)/.demo
