# The thin entry point. `make` says what there is; CMakeLists.txt does the work.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

JOBS    ?= $(shell nproc)
RANKS   ?= 32
MPIEXEC ?= mpiexec.mpich
OPENMPI ?= mpiexec.openmpi --allow-run-as-root --oversubscribe --bind-to none
CTEST   := ctest --output-on-failure --no-tests=error -j$(JOBS)
SOURCES := git ls-files -co --exclude-standard -- '*.cc' '*.cu' '*.h' '*.hpp' '*.c'

.PHONY: help demo test test-torch test-torch-newest wheel docs headers ways-in sanitize-build sanitize soak newcomer portability bench-peers bench-overlap gpu gpu-bundle \
  format tidy clean packages build

help: ## this text
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

packages:
	@.ci/install-packages

# $(call configure,directory,options): configures once; later runs let the build decide.
configure = test -f $(1)/build.ninja || cmake -S . -B $(1) -G Ninja $(2)

# The Python of the build tree, with what bindings/python/requirements.txt asks for.
venv = build/venv/bin/python
$(venv): bindings/python/requirements.txt
	@.ci/install-python build/venv $<

build: packages $(venv) ## build everything into build/
	@grep -qs 'LSCHED_PYTHON:BOOL=ON' build/CMakeCache.txt || \
	  cmake -S . -B build -G Ninja -DLSCHED_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(venv)
	@cmake --build build -j$(JOBS)

demo: packages ## build the command, run the main benchmark on 32 ranks, plot it
	@$(call configure,build,)
	@cmake --build build -j$(JOBS) --target lsched
	@$(MPIEXEC) -n $(RANKS) build/bin/lsched bench fig9 --plot build/fig9.png

test: build ## build, then run all tests (about 8 minutes on 2 cores)
	@cd build && $(CTEST) -LE soak

test-torch: build ## the backend of torch.distributed, with torch's own suite (about 4 minutes; installs torch)
	@.ci/install-packages bindings/python/tests/torch/packages.txt
	@.ci/install-python build/venv-torch bindings/python/tests/torch/requirements.txt \
	  bindings/python/tests/torch/data.txt
	@bindings/python/tests/torch/run build/venv-torch/bin/python

test-torch-newest: build ## what needs torch 2.14 or later, with the newest torch and torchft (2 minutes; installs 5 GB)
	@.ci/install-python build/venv-torch-newest bindings/python/tests/torch/newest.txt
	@bindings/python/tests/torch/run build/venv-torch-newest/bin/python test_reconfigure.py test_elastic.py test_torchft.py

# auditwheel copies the libraries that the package needs into the wheel, and names the oldest system that runs the wheel.
# PACKAGE: the source of the package.
PACKAGE := ./bindings/python
wheel: packages $(venv) ## the Python package as a self-contained wheel, into build/wheel
	@.ci/install-python build/venv-wheel bindings/python/tests/wheel/requirements.txt
	@rm -rf build/wheel && mkdir -p build/wheel
	@CC=cc CXX=c++ $(venv) -m pip wheel -q --no-deps -w build/wheel/raw $(PACKAGE)
	@PATH=$(CURDIR)/build/venv-wheel/bin:$$PATH auditwheel repair -w build/wheel build/wheel/raw/*.whl
	@$(venv) bindings/python/tests/wheel/check.py build/wheel/*.whl build/wheel/raw/*.whl

docs: ## the documents and the reference of the headers as a site, into build/docs/html; warnings are errors
	@.ci/install-packages docs/site/packages.txt
	@.ci/install-python build/venv-docs docs/site/requirements.txt
	@docs/site/build build/venv-docs/bin/python

headers: packages ## every header compiles alone
	@$(call configure,build,)
	@cmake --build build -j$(JOBS) --target lsched_headers_alone

ways-in: packages ## what users build, from a fresh clone: the wheel, then without MPI, CUDA, benchmarks, the command, …
	@.ci/portability wheel mpi-off cuda-off helpers-off bench-off command-off collision

# Only the programs that hold `sanitize` tests are built, without MPI and benchmarks. The tests run samples of their
# matrices. GCC compiles instrumented code at -O1 in three quarters of the time of -O2. Its warnings are no errors there,
# because some of them are false in instrumented code. The address sanitizer's build also has the undefined sanitizer.
sanitize-build: packages ## the programs of `make sanitize`
	@for kind in asan:address,undefined tsan:thread; do \
	  dir=build-$${kind%%:*}; \
	  $(call configure,$$dir,-DLSCHED_SANITIZE=$${kind#*:} -DLSCHED_MPI=OFF -DLSCHED_BENCH=OFF \
	    -DCMAKE_CXX_FLAGS_RELEASE="-O1 -g1" -DLSCHED_WERROR=OFF); \
	  cmake --build $$dir -j$(JOBS) --target sanitize-tests; \
	done

# `setarch -R` disables the randomisation of addresses, because the thread sanitizer fails on kernels that randomise too
# many bits; a container that forbids it runs the tests without. The thread sanitizer sees nothing in tests of code that
# runs on one thread, and in tests whose threads are in several processes.
UNSEEN := libsched[.](analysis|postcondition|schedule|simulate|trace|verify)|cuda[.](emulated|kernels|sparse_kernels)|cuda_processes
sanitize: sanitize-build ## the sampled tests under address, undefined and thread sanitizers (about 20 minutes)
	@steady="setarch -R"; $$steady true 2>/dev/null || steady=; export LSCHED_TEST_SAMPLE=1; \
	(cd build-asan && $$steady $(CTEST) -L sanitize); \
	(cd build-tsan && $$steady $(CTEST) -L sanitize -E '$(UNSEEN)')

soak: build ## the long tests, full matrices; hours
	@cd build && LSCHED_TEST_FULL=1 $(CTEST)
	@build/bin/lsched soak

newcomer: ## as root: what the pages tell three newcomers to do, each in a fresh Debian (half an hour)
	@.ci/newcomer

portability: packages ## other compilers, the oldest CMake, the library alone, packages, arm64; hours: NAMES
	@.ci/portability $(NAMES)

# What to compare: collectives, worlds, launches of each MPI, and seconds for each collective of a launch. Two ranks are
# bound to a core each; more of them share cores on a small machine, and the scheduler places them.
COLL     ?= allreduce
PEERS    ?= 2 4 8
LAUNCHES ?= 5
WITHIN   ?= 150

bench-peers: build ## ours against MPICH and Open MPI (if you have installed it) in turns: COLL, PEERS, LAUNCHES, WITHIN
	@command -v mpicc.openmpi >/dev/null || { echo "bench-peers: apt-get install openmpi-bin libopenmpi-dev" >&2; exit 1; }
	@$(call configure,build-openmpi,-DLSCHED_MPI_COMPILER=mpicc.openmpi -DLSCHED_TESTS=OFF)
	@cmake --build build-openmpi -j$(JOBS) --target lsched
	@here=build/peers/$(COLL); mkdir -p $$here; \
	sweep() { "$${@:5}" -n $$2 $$1/bin/lsched bench coll --collective $(COLL) --seconds $(WITHIN) $$3 --json $$4 >$$4.txt; }; \
	for ranks in $(PEERS); do \
	  pin=; [ $$ranks -ne 2 ] || pin=--pin; \
	  rm -f $$here/*-$$ranks-*; \
	  for launch in $$(seq $(LAUNCHES)); do \
	    sweep build $$ranks "$$pin" $$here/mpich-$$ranks-$$launch.json $(MPIEXEC); \
	    sweep build-openmpi $$ranks "$$pin" $$here/openmpi-$$ranks-$$launch.json $(OPENMPI); \
	  done; \
	done
	@build/bin/lsched bench compare build/peers/$(COLL)/*.json

# As root also over a link of so many bits a second between any two ranks (microbench/limited_link.sh).
LINK ?= 1gbit

bench-overlap: build ## what is hidden behind computing, ours and MPI_Iallreduce, in one table: PEERS, LINK
	@here=build/overlap; mkdir -p $$here; rm -f $$here/*; export LIMIT=600 MPIEXEC="$(MPIEXEC)"; \
	overlap() { $$2 build/bin/lsched bench overlap $$3 --json $$here/$$1.json >$$here/$$1.txt; }; \
	for ranks in $(PEERS); do \
	  overlap $$ranks-shm "$(MPIEXEC) -n $$ranks" ""; \
	  [ $$(id -u) -ne 0 ] || overlap $$ranks-link "microbench/limited_link.sh $$ranks $(LINK)" \
	    "--transport mpi --label $(LINK)" || [ $$? -eq 124 ]; \
	done
	@build/bin/lsched bench compare build/overlap/*.json

gpu: ## on a machine with a GPU: examination, random collectives, benchmark (8 minutes)
	@test -x build-gpu/run || $(MAKE) --no-print-directory gpu-bundle
	@build-gpu/run

# It says nothing of MPI, oneTBB and hwloc, which such a machine may lack.
gpu-bundle: packages ## all that another machine needs for `make gpu`, into build-gpu: start build-gpu/run there
	@$(call configure,build-gpu-tree,-DLSCHED_MPI=OFF -DLSCHED_TBB=OFF -DLSCHED_HWLOC=OFF -DLSCHED_CUDA=ON \
	  '-DCMAKE_BUILD_RPATH=$$ORIGIN')
	@cmake --build build-gpu-tree -j$(JOBS) --target lsched cuda_exam
	@.ci/gpu-bundle build-gpu-tree build-gpu

format: ## clang-format (version 14, as Debian 12 has it) over our sources
	@$(SOURCES) | xargs -r clang-format -i

tidy: build ## clang-tidy over our sources
	@git ls-files -co --exclude-standard -- '*.cc' | grep -v '^tests/' \
	  | xargs -r -P$(JOBS) -n1 clang-tidy -p build --quiet

clean: ## remove what was built
	@rm -rf build build-cp* build-asan build-tsan build-openmpi build-arm64 build-gpu build-gpu-tree build-portability build-ccache
