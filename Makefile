# One environment, made on first use; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Processes of the tests: one a core, and never so many that memory is short.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
# Hundreds of processes of the tests import the package: the first of them compiles it for all,
# whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
SOURCES := $(wildcard cpp/*.cpp cpp/*.hpp cpp/include/crowdsift/*.hpp) CMakeLists.txt pyproject.toml
CORE_FILES := $(wildcard cpp/*.?pp cpp/*/*.?pp cpp/include/crowdsift/*.hpp)

.PHONY: demo develop test torture torture-sanitized audit test-python test-core lint format bench shapes instructions instructions-accept docs pictures \
  site coverage mutation api-accept release-check clean help
help:
	@echo "make demo     simulate a crowd with spammers, fit it, show and write the result"
	@echo "make test     all tests, the core under sanitizers included"
	@echo "make develop  what make test installs, without the tests"
	@echo "make torture  random cases and property tests with fresh examples, MINUTES=10"
	@echo "make torture-sanitized  the core with ASan and UBSan: random calls, then libFuzzer (clang), MINUTES=10"
	@echo "make audit    known faults of what we depend on (asks an advisory service)"
	@echo "make lint     ruff, clang-format, mypy, workflows and prose"
	@echo "make bench    speed, beside the rivals in environments of their own"
	@echo "make shapes   the common shapes of votes, AGAINST=another revision"
	@echo "make instructions   the main kernels' instructions against their budget (valgrind)"
	@echo "make docs     check that the examples of the documentation run"
	@echo "make site     the documentation as a site, its notebooks executed"
	@echo "make coverage branch coverage of the package"
	@echo "make mutation faults put into likelihoods, metrics, verdicts, solvers: do tests notice?"
	@echo "make release-check   wheels, sdist, oldest and newest dependencies, in clean environments"
	@echo "make pictures make the pictures of the documentation again"

demo: $(VENV)/.installed
	$(BIN)/crowdsift demo --out demo-output

# At once: the sanitizers' compilers work while packages are fetched.
test:
	$(MAKE) --no-print-directory -j 3 run-core-address,undefined run-core-thread test-python

develop: $(VENV)/.developing

# A process a core: further threads of BLAS would only wait for each other, by spinning.
test-python: $(VENV)/.developing
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Random cases against exact oracles with fresh seeds, property tests with fresh examples among them.
MINUTES ?= 10
torture: $(VENV)/.developing
	PYTHONPATH=tests $(BIN)/python -m torture --minutes $(MINUTES)

# The core with the sanitizers of memory and undefined behaviour: first the areas that reach it most,
# over an extension in a separate environment (needs gcc), then libFuzzer on its entry points (needs
# clang; the corpus stays in build/fuzz for the next run). Each takes half of the time.
SANITIZED := build/sanitized
FUZZERS := $(patsubst cpp/fuzz/%.cpp,%,$(wildcard cpp/fuzz/*.cpp))
torture-sanitized: $(SANITIZED)/.installed $(FUZZERS:%=build/fuzz/%)
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	  UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PYTHONMALLOC=malloc \
	  PYTHONPATH=tests:. $(SANITIZED)/bin/python -P -m torture --minutes $$(awk 'BEGIN {print $(MINUTES) / 2}') \
	  --areas core,shapes,lives,states,arguments --longest 600
	for each in $(FUZZERS); do mkdir -p build/fuzz/corpus-$$each && build/fuzz/$$each \
	  -max_total_time=$$(awk 'BEGIN {print int(30 * $(MINUTES) / $(words $(FUZZERS)) + 0.5)}') \
	  -timeout=20 -rss_limit_mb=2048 -len_control=0 -max_len=2048 -print_final_stats=1 -verbosity=0 \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus-$$each || exit 1; done

$(SANITIZED)/.installed: $(SOURCES) $(shell find src -name '*.py')
	$(PYTHON) -m venv $(SANITIZED)
	CXX=g++ $(SANITIZED)/bin/python -m pip install --quiet --disable-pip-version-check ".[dev]" \
	  --config-settings=build-dir=build/sanitized-core --config-settings=cmake.build-type=Debug \
	  --config-settings=cmake.define.CMAKE_CXX_FLAGS="-O1 \
	  -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
	touch $@

.PRECIOUS: build/fuzz/%
build/fuzz/%: cpp/fuzz/%.cpp cpp/fuzz/input.hpp $(SOURCES)
	mkdir -p build/fuzz
	clang++ -std=c++17 -O1 -g -Icpp/include -Icpp/fuzz -DCROWDSIFT_NO_MULTIVERSION -pthread \
	  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
	  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $< -o $@

# Known faults of the packages that we need; asks an advisory service, so it needs the network. Strict:
# a package of which the service knows nothing is a failure, else the audit of none would pass.
audit: $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable > build/audited.txt
	$(BIN)/python -m pip_audit --strict --no-deps --disable-pip -r build/audited.txt

# The core by itself, under sanitizers of memory, undefined behaviour and threads.
# Both at once: a compiler uses one core.
test-core:
	$(MAKE) --no-print-directory -j 2 run-core-address,undefined run-core-thread

run-core-%: build/core_tests-%
	$<

# All files in one, for each sanitizer: the kernels' templates are then compiled once, which is half
# of the work.
CORE_TESTS := $(wildcard cpp/tests/*.cpp)
CORE_FLAGS := -std=c++17 -Og -g1 -Icpp/include -DCROWDSIFT_NO_MULTIVERSION -pthread -Wall -Wextra -Wpedantic \
  -Wconversion -Wshadow -Werror -fno-sanitize-recover=all -fno-omit-frame-pointer
.PRECIOUS: build/core_tests-%
build/core_tests-%: $(CORE_TESTS) $(wildcard cpp/tests/*.hpp cpp/include/crowdsift/*.hpp)
	@mkdir -p build
	printf '#include "%s"\n' $(CORE_TESTS) | $(CXX) $(CORE_FLAGS) -fsanitize=$* -I. -x c++ - -o $@

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CORE_FILES)
	for each in cpp/tests/grid_test.cpp cpp/tests/type_test.cpp; do $(CXX) -std=c++17 -fsyntax-only \
	  -Icpp/include -DCROWDSIFT_PORTABLE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror $$each || exit 1; done
	for each in cpp/fuzz/*.cpp; do $(CXX) -std=c++17 -fsyntax-only -Icpp/include -Icpp/fuzz -Wall \
	  -Wextra -Wpedantic -Wconversion -Wshadow -Werror $$each || exit 1; done
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --quiet --offline --config .github/zizmor.yml .github/workflows
	$(BIN)/python -m tools.prose
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --no-warn-unreachable src  # what other systems lack is guarded

format: $(VENV)/.developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CORE_FILES)

# Instructions of the main kernels against the budget in benchmarks/instructions.json; needs valgrind.
instructions:
	$(PYTHON) benchmarks/instructions.py

instructions-accept:
	$(PYTHON) benchmarks/instructions.py --accept

bench: $(VENV)/.developing
	$(BIN)/python -m benchmarks

# The common shapes of votes, this version and another in turn: make shapes AGAINST=REVISION
shapes: $(VENV)/.developing
	$(BIN)/python -m benchmarks.shapes $(if $(AGAINST),--against $(AGAINST))

docs: $(VENV)/.developing
	$(BIN)/python -m pytest tests/test_docs.py

# The documentation as a site in site/, its notebooks executed; warnings are errors.
site: $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[site]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Branch coverage of the package by its tests, commands in processes of their own included. The GPU
# kernels count where torch and triton are installed (their interpreter runs them). Tests of full
# disks are left out: there is no room for what is measured either.
coverage: $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "coverage>=7.10" "pytest-cov>=7"
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov=crowdsift --cov-branch --cov-report=term \
	  -k "not full_disk and not disks-" --cov-fail-under=95

# Small faults in likelihoods, metrics, verdicts and solvers, a fixed sample of them: at least 85 %
# must be noticed by the tests. Survivors are printed; tools/mutants.toml says why some must live.
mutation: $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "cosmic-ray>=8.3"
	$(BIN)/python -m tools.mutation --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),30)

# The public interface as it now is becomes the one that is promised (tests/public_api.txt).
api-accept: $(VENV)/.developing
	$(BIN)/python -m tools.public_api --accept

# What is slow and done before a release: wheels and sdist in clean environments, oldest and newest dependencies;
# what passed is in dist/.
release-check: $(VENV)/.developing
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[release]"
	$(BIN)/python -m tools.release_check --out dist

# Needs the real data sets and Chromium.
pictures: $(VENV)/.developing
	$(BIN)/python -m docs.pictures.make

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python $(SOURCES)
	@echo "Fetching packages and compiling the core, once: one to three minutes ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.developing: $(BIN)/python $(SOURCES)
	@echo "Fetching packages and compiling the core, once: one to four minutes ..."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]" \
	  --config-settings=cmake.define.CROWDSIFT_WERROR=ON
	touch $@ $(VENV)/.installed

clean:
	rm -rf build $(VENV) demo-output bench-output reproduce-output .mypy_cache .ruff_cache .pytest_cache .hypothesis
