# Two commands do all: `make demo` and `make test`. Both set up what they need, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz lint bench docs wheel browser clean

# A Chromium that needs nothing installed; `make test` uses it where it is.
CHROMIUM := @sparticuz/chromium@147.0.0

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "%-12s%s\n", $$1, $$2}'

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable lab
	@touch $(READY)

demo: $(READY) ## Simulate, learn and compare with the truth (no data needed)
	$(BIN)/mechtrace demo --out demo-out

test: $(READY) ## Run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(READY) ## Run the slow studies too
	$(BIN)/python -m pytest -m 'not cuda'

fuzz: $(READY) ## Run a hundred times as many random cases as the tests do
	MECHTRACE_FUZZ=100 $(BIN)/python -m pytest -n 2 -m fuzz

lint: $(READY) ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY) ## Measure speed, scale and quality; the results go to lab/results/
	$(BIN)/mechtrace bench train --json lab/results/bench-train-affine-cpu.json
	$(BIN)/mechtrace bench train --experts nonparametric --expert-layers 4 --json lab/results/bench-train-nonparametric-cpu.json
	$(BIN)/mechtrace bench recover --lengths 100,10000,1000000 --counts 10,1000,20000 --json lab/results/bench-recover-cpu.json
	$(BIN)/mechtrace bench recover --series 1 --length 20000 --json lab/results/bench-recover-single-cpu.json
	$(BIN)/mechtrace bench scale --json lab/results/bench-scale-cpu.json
	$(BIN)/mechtrace bench latents --json lab/results/latents-paper-400.json
	$(BIN)/mechtrace bench scaling --json lab/results/scaling-paper.json
	$(BIN)/mechtrace bench theory --json lab/results/theory-positive.json
	$(BIN)/mechtrace bench convexity --series 2000 --seeds 5 --first 10 --broken 100 --json lab/results/convexity-paper.json
	$(BIN)/mechtrace bench convexity --world paper-positive --series 2000 --seeds 5 --first 10 --broken 100 --json lab/results/convexity-positive.json

docs: $(READY) ## Generate tables from lab/results/ and build the documentation in site/
	$(BIN)/python lab/tools/result_tables.py
	$(BIN)/python lab/tools/paper_tables.py
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs site

wheel: $(READY) ## Build both wheels, install them into an empty environment and run the demonstration
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist . ./lab
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt torch
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt "$$(ls dist/mechtrace-*.whl)[report]"
	cd build && wheel/bin/mechtrace demo --out wheel-demo --steps 300
	build/wheel/bin/python -m pip install --quiet --constraint constraints.txt --find-links dist mechtrace-lab
	cd build && wheel/bin/mechtrace bench start --repeats 3

browser: ## Fetch a headless Chromium for the tests of the report (needs npm)
	npm install --prefix .browser --no-save --no-audit --no-fund $(CHROMIUM)
	node -e 'const fs = require("fs"); fs.writeFileSync(".browser/chromium", require("zlib").brotliDecompressSync(fs.readFileSync(".browser/node_modules/@sparticuz/chromium/bin/chromium.br")), {mode: 0o755})'

clean: ## Remove everything that was made
	rm -rf $(VENV) .browser demo-out site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
