# The few commands that everyone needs; `make help` lists them.

TARGET  := $(or $(CARGO_TARGET_DIR),target)
# `make test` builds everything that it needs once, in the profile `tests`; installed programs are built in
# `release`.
PROFILE := release
MEMFOLD := $(TARGET)/$(PROFILE)/memfold
PRELOAD := $(TARGET)/$(PROFILE)/libmemfold_preload.so
PLUGIN  := $(TARGET)/$(PROFILE)/nbdkit-memfold-plugin.so
PREFIX  := /usr/local
DESTDIR :=
PYTHON  := python3
# The servers for the tests of spilling.
SERVERS := nbdkit libnbd0 redis-server redis-tools
TORTURE := $(abspath $(TARGET))/torture
# The C library's version, and the part of it that changes when programs become incompatible.
CAPI := $(TARGET)/$(PROFILE)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
INTERFACE := $(shell echo $(VERSION) | sed 's/^0\.\([0-9]*\)\..*/0.\1/; t; s/\..*//')
# What `make test` runs beside the tests of the crates.
OTHERS := test-capi test-torture test-checks test-disk test-small
# Programs that finish within ten seconds each on an idle machine; then those that finish within a minute.
SMALL := python-numpy sqlite g++ make-j2
MORE := python-json redis sort node java-default pipeline
# The features of all test programs and of what they test: with equal features nothing is compiled twice.
FEATURES := memfold/rayon,memfold/serde,memfold/spill,memfold-cli/servers,memfold-spill/servers,memfold-weft/std
TESTED := --workspace --exclude memfold-bench --features $(FEATURES)
# All test programs except `servers` and `spill`, which depend on timing; `make test-all` runs those. No other
# name may have the same beginning, which `test-unit` checks.
UNIT := --lib --bins --test '[!s]*' --test 's[!ep]*'
# Tests that take long stand in modules of this name; `make test-all` runs those, too.
SLOW := slow::
PROGRAMS := $(PYTHON) tests/programs/run.py --memfold $(MEMFOLD)

.DEFAULT_GOAL := help

.PHONY: help setup build capi pages demo test test-all test-servers test-unit test-capi test-torture test-checks test-probes test-disk test-docs test-spill test-small test-programs lint soak soak-disk plugin fuzz bench plots install install-capi clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || grep '##' $(MAKEFILE_LIST)

setup:
	@scripts/setup.sh build

build: setup ## the command and its preload library, in release
ifeq ($(PROFILE),release)
	@echo "building $(or $(subst -p ,,$(PARTS)),memfold-cli): some minutes the first time"
	@cargo build --release --quiet $(or $(PARTS),-p memfold-cli)
else
	@cargo build --profile $(PROFILE) --quiet $(TESTED) --lib --bins --tests --examples
endif

plugin: $(if $(filter release,$(PROFILE)),setup,build) ## the plugin of nbdkit
ifeq ($(PROFILE),release)
	@cargo build --release --quiet $(or $(PARTS),-p memfold-nbdkit)
endif
	@ln -f $(CAPI)/libnbdkit_memfold_plugin.so $(PLUGIN)

capi: $(if $(filter release,$(PROFILE)),setup,build) ## the C library, shared and static
ifeq ($(PROFILE),release)
	@cargo build --release --quiet $(or $(PARTS),-p memfold-capi)
endif
	@crates/capi/link.sh $(CAPI)/libmemfold_capi.a $(CAPI)/lib $(INTERFACE)

# A separate program generates them from the definition of the command line.
pages: setup ## man pages and completions, in target/share
	@rm -rf $(TARGET)/share
	@cargo build --release --quiet $(or $(PARTS),-p memfold-pages)
	@$(TARGET)/release/memfold-pages $(TARGET)/share

# The demo needs only the smallest command, built as fast as possible. Its preload library is the one that
# would be installed.
demo: setup ## a build that is killed plainly and completes under memfold, and an idle server that shrinks
	@cargo build --profile demo --quiet -p memfold-cli --no-default-features
	@$(PYTHON) tests/programs/demo.py --memfold $(TARGET)/demo/memfold

# The tests of the crates and the others run at the same time, since both wait for much of it. What the others
# say is shown when they have ended.
test: ## every test but the slow ones: 15 to 20 minutes on two CPUs, building included
	@$(MAKE) --no-print-directory PROFILE=tests build
	@said=$$(mktemp); trap 'rm -f $$said' EXIT; \
	    $(MAKE) --no-print-directory --keep-going PROFILE=tests $(OTHERS) >$$said 2>&1 & others=$$!; \
	    $(MAKE) --no-print-directory PROFILE=tests test-unit; status=$$?; \
	    wait $$others || status=1; cat $$said; exit $$status

test-all: test ## those, and the slow ones: servers, more programs, the documents, the probes of what is installed
	@$(MAKE) --no-print-directory --keep-going PROFILE=tests test-slow test-capi-memory test-neon test-servers test-spill test-docs test-small SMALL="$(MORE)" DOCS=--quick
	@$(MAKE) --no-print-directory test-probes

test-unit: ## the tests of the crates, without those of spilling
	@! ls crates/*/tests | grep '^s[ep]' | grep -vxE 'servers|spill(\.rs)?'
	@scripts/setup.sh ncdu
	@scripts/setup.sh packages bubblewrap valgrind qemu-user musl-tools
	@$(MAKE) --no-print-directory PROFILE=tests build
	MEMFOLD_TEST_LIBRARY=$(abspath $(TARGET))/tests/libmemfold_preload.so cargo test --profile tests --quiet --no-fail-fast $(TESTED) $(UNIT) -- --skip $(SLOW)
	cargo test --profile tests --quiet --no-fail-fast $(TESTED) --doc

test-slow: ## the tests of the crates that take long
	MEMFOLD_TEST_LIBRARY=$(abspath $(TARGET))/tests/libmemfold_preload.so cargo test --profile tests --quiet --no-fail-fast $(TESTED) $(UNIT) $(SLOW)

test-servers: ## the tests of spilling, to files and to real servers
	@scripts/setup.sh packages $(SERVERS)
	cargo test --profile tests --quiet --no-fail-fast $(TESTED) --test servers --test spill -- --test-threads 3

# Two trees are installed; the second one has the prefix /opt/memfold.
CAPI_TESTS := $(MAKE) -s -j2 -C tests/capi PREFIX=$(abspath $(CAPI))/test/tree DESTDIR=$(abspath $(CAPI))/test/stage \
    OUT=$(abspath $(CAPI))/test/out PROVOKE=$(abspath $(CAPI))/lib/test/libmemfold.so.$(INTERFACE) VERSION=$(VERSION) INTERFACE=$(INTERFACE)

.PHONY: capi-trees test-capi-memory
capi-trees: capi
	@scripts/setup.sh capi
	@$(MAKE) -s install-capi PREFIX=$(abspath $(CAPI))/test/tree DESTDIR=
	@$(MAKE) -s install-capi PREFIX=/opt/memfold DESTDIR=$(abspath $(CAPI))/test/stage
	@mkdir -p $(CAPI)/test/out

test-capi: capi-trees ## the C interface, of installed trees: C and C++
	@$(CAPI_TESTS)

test-capi-memory: capi-trees ## the same with valgrind and sanitizers
	@$(CAPI_TESTS) memory

# Rust's library for that processor comes by `rustup target add`; without it this is left out.
NEON := aarch64-unknown-linux-gnu
.PHONY: test-neon
test-neon: ## the codec weft with the instructions of ARM processors, under qemu
ifneq ($(wildcard $(shell rustc --print sysroot)/lib/rustlib/$(NEON)/lib),)
	@scripts/setup.sh packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
	@command -v aarch64-linux-gnu-gcc qemu-aarch64 >/dev/null || { echo "test-neon: left out"; exit 0; }; \
	    set -x; CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu" \
	    cargo test --profile tests --quiet -p memfold-weft --features std --target $(NEON) --lib
else
	@echo "test-neon: left out: there is no Rust library for $(NEON)"
endif

test-torture: build
	@$(MAKE) -s -C tests/torture OUT=$(TORTURE)
	scripts/torture.sh $(MEMFOLD) $(TORTURE)/torture 57 quick

test-checks:
	cd tests/programs && $(PYTHON) -B -m unittest -q test_checks
	cd bench/harness && $(PYTHON) -B -m unittest -q test_crames

test-probes: build capi ## the tracing probes: their notes, and what bpftrace and gdb count where they may
	@scripts/setup.sh probes
ifeq ($(PROFILE),release)
	@cargo build --release --quiet -p memfold --example probes
endif
	$(PYTHON) -B tests/probes/run.py --program $(TARGET)/$(PROFILE)/examples/probes --library $(CAPI)/lib/libmemfold.so \
	    --preload $(PRELOAD) --memfold $(MEMFOLD)

test-disk: build plugin ## the RAM disk: file systems, databases, swap, nbdcopy, qemu, fio (root, for most of it)
	@scripts/setup.sh packages nbdkit $$($(PYTHON) tests/disk/run.py --missing-packages)
	$(PYTHON) -B tests/disk/run.py --memfold $(MEMFOLD) --plugin $(PLUGIN)

test-docs: build ## the commands of README.md and docs/guide.md, and their output (root)
	$(PYTHON) -B tests/docs/run.py --memfold $(MEMFOLD) $(DOCS)

test-spill: build ## the torture program with real servers that spilled blocks go to: nbdkit, redis-server, a cluster of three
	@scripts/setup.sh packages $(SERVERS)
	@$(MAKE) -s -C tests/torture OUT=$(TORTURE)
	scripts/torture-spill.sh $(MEMFOLD) $(TORTURE)/torture 24

soak-disk: build plugin ## the same for longer, with PostgreSQL and Btrfs
	@scripts/setup.sh packages nbdkit btrfs-progs $$($(PYTHON) tests/disk/run.py --soak --missing-packages)
	$(PYTHON) -B tests/disk/run.py --soak --memfold $(MEMFOLD) --plugin $(PLUGIN)

test-small: build ## some real programs with small loads, at the limits that are the goal
	@scripts/setup.sh packages $$($(PROGRAMS) --missing-packages $(SMALL))
	$(PROGRAMS) $(SMALL)

test-programs: build ## all programs with larger loads
	@scripts/setup.sh packages $$($(PROGRAMS) --big --missing-packages)
	$(PROGRAMS) --big

# The Redis client parses URLs. With idna_adapter 1.0.0 (cargo update -p idna_adapter --precise 1.0.0) this
# needs no Unicode tables, which matter only for URLs of the web; that saves 21 crates.
lint: setup ## rustfmt, clippy with warnings denied, unsafe without a reason denied
	@! grep '"icu_' Cargo.lock || { echo 'Cargo.lock: see the comment above lint in the Makefile' >&2; false; }
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --features $(FEATURES),memfold-weft/training -- -D warnings -D clippy::undocumented_unsafe_blocks
	cargo clippy --quiet -p memfold-runtime --no-default-features --features preload -- -D warnings -D clippy::undocumented_unsafe_blocks
	cargo clippy --quiet -p memfold-cli --no-default-features -- -D warnings

soak: build ## the torture program, random operations on collections and attacks on heaps, for ten minutes each
	@$(MAKE) -s -C tests/torture OUT=$(TORTURE)
	scripts/torture.sh $(MEMFOLD) $(TORTURE)/torture 600
	@cargo build --release --quiet -p memfold-bench --bin bench-collections
	$(TARGET)/release/bench-collections rand-ops --check --seconds 300 --frames 3
	$(TARGET)/release/bench-collections rand-ops --check --seconds 300
	@cargo build --release --quiet -p memfold --features spill --example soak
	$(TARGET)/release/examples/soak --seconds 600

# zstd is compiled with -fmerge-all-constants, which makes gcc's sanitizer report a local table as used out of
# scope.
fuzz: setup ## each fuzz target for a minute (needs cargo-fuzz and a nightly toolchain)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "fuzz: cargo-fuzz is missing: cargo install cargo-fuzz" >&2; exit 1; }
	@cargo test --release --quiet -p memfold-codec --features peers --test corpus unpack -- --ignored
	@for target in $$(cargo +nightly fuzz list); do \
	    echo "fuzz: $$target"; \
	    CFLAGS="$$CFLAGS -fno-merge-all-constants" cargo +nightly fuzz run $$target -- -max_total_time=60 || exit 1; done

# Made once, in /var/tmp. Tables that forms refer to never change, so what is made lies beside the build; a new
# version of the format would take it from there.
PAGES := /var/tmp/memfold-pages
TRAIN := cargo run --release --quiet -p memfold-weft --features training --example train --
.PHONY: codec-tables
codec-tables: setup ## tables of codes for weft:4 from the heaps of some fifty programs, and what they are worth: half an hour (root; installs these programs)
	@scripts/setup.sh packages $$($(PYTHON) bench/codecs/capture.py --packages)
	$(PYTHON) -B bench/codecs/capture.py $(PAGES)
	$(TRAIN) --folds $(PAGES)/*
	$(TRAIN) $(TARGET)/tables.txt $(PAGES)/*

HEAP := bench/results/$(shell date +%Y%m%d)-heap
.PHONY: bench-heap
# Existing rows are not measured again.
bench-heap: build ## the heap against malloc, as the paper measured it: hours (root, for zram)
	@cargo build --release --quiet -p memfold-bench --bin bench-heap
	@for section in operations overhead tables policies figures; do \
	    $(TARGET)/release/bench-heap $$section --out $(HEAP).json || exit 1; done
	$(TARGET)/release/bench-heap micro
	bench/run --memfold $(MEMFOLD) --bench-heap $(TARGET)/release/bench-heap --sections heap --out $(HEAP)-equal.json
	$(PYTHON) bench/plots/heap.py $(HEAP).json --to $(HEAP)

TREES := /var/tmp/memfold-trees
.PHONY: bench-du
# The trees are made once, in /var/tmp. Missing peers are reported and left out: apt install gdu, cargo
# install dua-cli du-dust parallel-disk-usage.
bench-du: build ## memfold du against its peers, and the tables of docs/du.md: ten minutes
	@scripts/setup.sh ncdu
	@cargo build --release --quiet -p memfold-bench --bin bench-heap --bin bench-du
	$(TARGET)/release/bench-heap operations --tree paper --trees $(TREES)
	$(TARGET)/release/bench-du operations $(TREES)/paper
	@test -e $(TREES)/million.made || $(TARGET)/release/bench-heap tables --tree million --trees $(TREES) >/dev/null
	bench/du --memfold $(MEMFOLD) --tree $(TREES)/million
	for section in operations walkers layouts memory; do $(TARGET)/release/bench-du $$section $(TREES)/million || exit 1; done
	$(TARGET)/release/bench-du large

# `make plots PLOTS=DIR ELEMENTS=10000000`. Without a C++ compiler or absl, those peers are reported and left
# out.
PLOTS := plots
ELEMENTS := 1400000
plots: setup ## every insertion's time, of slab lists and their peers: a page with pictures, in plots/ (a quarter of an hour)
	@test -e /usr/include/absl/container/btree_set.h && command -v g++ >/dev/null 2>&1 || scripts/setup.sh packages g++ libabsl-dev
	@cargo build --release --quiet -p memfold-bench --bin bench-collections
	$(TARGET)/release/bench-collections plots --out $(PLOTS) --elements $(ELEMENTS)
	@$(PYTHON) bench/plots/insertions.py $(PLOTS)

bench: build ## the numbers of docs/benchmarks.md (root, for zram)
	@$(MAKE) -s -C tests/torture OUT=$(TORTURE)
	bench/run --memfold $(MEMFOLD) --torture $(TORTURE)

# All parts are built together, with equal features, so that nothing is compiled twice.
install: PARTS := -p memfold-cli -p memfold-nbdkit -p memfold-capi -p memfold-pages
install: build plugin pages install-capi ## the command, its man pages and completions, the C library and its headers: PREFIX=DIR, DESTDIR=DIR
	@echo "installing to $(DESTDIR)$(PREFIX)"
	install -D -m 755 $(MEMFOLD) $(DESTDIR)$(PREFIX)/bin/memfold
	install -D -m 755 $(PRELOAD) $(DESTDIR)$(PREFIX)/lib/memfold/libmemfold_preload.so
	install -D -m 755 $(PLUGIN) $(DESTDIR)$(PREFIX)/lib/memfold/nbdkit-memfold-plugin.so
	for file in $$(cd $(TARGET)/share && find * -type f); do \
	    install -D -m 644 $(TARGET)/share/$$file $(DESTDIR)$(PREFIX)/share/$$file || exit 1; done

install-capi: capi
	install -C -D -m 755 $(CAPI)/lib/libmemfold.so $(DESTDIR)$(PREFIX)/lib/libmemfold.so.$(VERSION)
	ln -sf libmemfold.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libmemfold.so.$(INTERFACE)
	ln -sf libmemfold.so.$(INTERFACE) $(DESTDIR)$(PREFIX)/lib/libmemfold.so
	install -C -D -m 644 $(CAPI)/lib/libmemfold.a $(DESTDIR)$(PREFIX)/lib/libmemfold.a
	install -C -D -m 644 crates/capi/include/memfold.h $(DESTDIR)$(PREFIX)/include/memfold.h
	install -C -D -m 644 crates/capi/include/compll.h $(DESTDIR)$(PREFIX)/include/compll.h
	install -C -D -m 644 crates/capi/include/memfold_weft.h $(DESTDIR)$(PREFIX)/include/memfold_weft.h
	install -C -D -m 644 crates/capi/memfold.tsan $(DESTDIR)$(PREFIX)/share/memfold/memfold.tsan
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(abspath $(PREFIX))|; s|@VERSION@|$(VERSION)|' crates/capi/memfold.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/memfold.pc

clean: ## what was built
	cargo clean --quiet
