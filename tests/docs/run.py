#!/usr/bin/env python3
"""Runs the commands of README.md and docs/guide.md, and compares their output with what stands there.

The blocks of a page run one after another in one shell, in an empty directory in which `tests` is the
project's. Blocks of `console` have commands, which begin with `$ `, and their output; blocks of `sh` only
commands. An HTML comment in the line before a block changes what happens with it; a reader does not see it:

    <!-- test: file NAME -->         the block is written to this file
    <!-- test: in 240M -->           its commands run in a memory cgroup with this limit
    <!-- test: with NAME -->         some commands are replaced by stand-ins (STAND_INS)
    <!-- test: if COMMAND -->        only if this command succeeds
    <!-- test: not run, REASON -->   left out, and reported

Outputs are equal if their words are: numbers, units and spaces may differ, and `...` stands for any words. Of
memfold's closing line each part must be there; other parts may be, too.

Needs root, for the cgroups.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/programs"))
import memory  # noqa: E402

PAGES = ["docs/guide.md", "README.md"]
COMMENT = re.compile(r"<!-- test: (file|in|with|if|not run,) ?(.*?) -->")
# What stands for programs of the reader's, and for what needs a terminal or another machine.
STAND_INS = {
    "install": {
        "git clone https://github.com/memfold/memfold && cd memfold": "cd $PROJECT",
        "make install PREFIX=$HOME/.local": "make -s install PREFIX=$PWD/target/test-docs >/dev/null",
        "memfold doctor": "target/test-docs/bin/memfold doctor",
    },
    "use": {
        "memfold run --limit 50% --report run.html -- make -j2": "memfold run --limit 50% --report run.html -- make -s -j2",
        "memfold run --proactive -- redis-server": "memfold run --proactive -- python3 -c 'import time; time.sleep(1)'",
        "memfold analyze $(pidof redis-server)": "memfold analyze --quiet $BUSY",
        "memfold top": "memfold top --json --count 1 >/dev/null",
        "memfold limit PID 300M": "memfold limit $BUSY 300M",
    },
}
NUMBER = re.compile(r"(?<![A-Za-z_])\d[\d,.]*(?:\^-?\d+)?")
UNIT = re.compile(r"# (?:bytes|KiB|MiB|GiB|ns|µs|ms|s)\b")


class Block:
    """One block: its kind, its text, its directives, and the line where it begins."""

    def __init__(self, kind, text, said, line):
        self.kind, self.text, self.said, self.line = kind, text, dict(said), line

    def commands(self):
        """Pairs of a command and its expected output; None where the page has no output."""
        if self.kind == "sh":
            return [(re.sub(r"\s+# .*", "", line), None) for line in self.text.splitlines() if line.strip()]
        found = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((re.sub(r"\s{3,}# .*", "", line[2:]), []))
            elif found:
                found[-1][1].append(line)
        return found


def blocks(page):
    """The blocks of a page that have commands, or are to be written to a file."""
    said, block, found = [], None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if block is not None:
            if line.startswith("```"):
                if block.kind in ("sh", "console") or "file" in block.said:
                    found.append(block)
                block, said = None, []
            else:
                block.text += line + "\n"
        elif line.startswith("```"):
            block = Block(line[3:].strip(), "", said, number)
        elif COMMENT.match(line):
            said.append(COMMENT.match(line).groups())
        elif line.strip():
            said = []
    return found


def words(lines):
    """Lines without what differs from run to run."""
    # The kernel's log fills its times up to a width.
    lines = [re.sub(r"^\[ +", "[", line) for line in lines]
    # A fast machine has time for all pages of a sample.
    lines = [line.replace("; all of them were", "; 1 of them were") for line in lines]
    text = [UNIT.sub("# u", NUMBER.sub("#", line)) for line in lines]
    return [" ".join(line.split()) for line in text if line.strip()]


def is_like(wanted, got):
    """Whether a line is the wanted one."""
    if wanted.startswith("memfold: "):
        # "for which it waited" of one process, "for which processes waited" of several.
        parts = [re.sub(r"^(for which )?\S+ waited", "waited", part) for part in re.split("[;,] ", wanted)]
        return all(part in got for part in parts)
    pattern = ".*".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern, got) is not None


def differs(wanted, got):
    """The first wanted line that is not there, or None."""
    wanted, got = words(wanted), words(got)
    if len(wanted) != len(got):
        return f"{len(wanted)} lines are wanted"
    return next((line for line, real in zip(wanted, got) if not is_like(line, real)), None)


class Shell:
    """A shell that runs commands one by one, and tells the output of each."""

    END = "-- end of the output --"

    def __init__(self, directory, environment):
        self.shell = subprocess.Popen(["bash", "--norc"], cwd=directory, env=environment, text=True, bufsize=1,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        """Lines of output, and the exit status."""
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null\nSTATUS=$?; echo; echo '{self.END}' $STATUS\n")
        lines = []
        for line in self.shell.stdout:
            line = line.rstrip("\n")
            if line.startswith(self.END):
                return [self.plain(line) for line in lines], int(line.split()[-1])
            lines.append(line)
        sys.exit(f"test-docs: the shell has ended after: {command}")

    @staticmethod
    def plain(line):
        """As an interactive shell says it."""
        return re.sub(r"^(?:bash|environment): line \d+: +\d+ (Killed) .*", r"\1", line)

    def end(self):
        self.shell.stdin.close()
        self.shell.wait()


class Test:
    def __init__(self, memfold, quick):
        self.memfold, self.quick = memfold, quick
        self.count, self.left, self.failed = 0, 0, 0

    def page(self, name, directory):
        environment = {**os.environ, "PATH": f"{self.memfold.parent}:{os.environ['PATH']}", "PROJECT": str(ROOT),
                       "TMPDIR": str(directory)}
        shell = Shell(directory, environment)
        # Nobody needs it here.
        shell.run('sudo() { "$@"; }')
        shell.run("memfold run -q --limit 400M -- python3 -c 'import time; a = bytearray(9 << 20); time.sleep(600)' & "
                  "BUSY=; sleep 2; BUSY=$(pgrep -n -f 'bytearray.9 << 20')")
        try:
            for block in blocks(ROOT / name):
                self.block(name, block, shell, directory)
        finally:
            shell.run("kill %1; wait 2>/dev/null; cd /")
            shell.end()

    def block(self, name, block, shell, directory):
        place = f"{name}:{block.line}"
        reason = block.said.get("not run,")
        if self.quick and block.said.get("with") == "install":
            reason = "installing takes minutes"
        if "if" in block.said and shell.run(block.said["if"] + " >/dev/null 2>&1")[1]:
            reason = f"'{block.said['if']}' fails here"
        if reason:
            print(f"test-docs: {place}: left out ({reason})", flush=True)
            self.left += 1
            return
        if "file" in block.said:
            (directory / block.said["file"]).write_text(block.text)
            return
        group = None
        if "in" in block.said:
            group = memory.Cgroup.make("docs")
            group.set_limit(int(block.said["in"].rstrip("M")) << 20, swap=False)
            shell.run(f"HOME_GROUP={Path(group.path).parent}; echo $$ > {group.path}/cgroup.procs")
        shell.run(f"cd {directory}")
        stands = STAND_INS.get(block.said.get("with"), {})
        for command, wanted in block.commands():
            self.count += 1
            got, status = shell.run(stands.get(command, command))
            got = got[:-1] if got and not got[-1] else got
            wrong = differs(wanted, got) if wanted is not None else None
            if not wanted and status:
                wrong = f"status {status}"
            if wrong is not None:
                self.failed += 1
                print(f"test-docs: {place}: FAILED: {command}\n  not there: {wrong}\n  got:")
                print("\n".join(f"    {line}" for line in got), flush=True)
            else:
                print(f"test-docs: {place}: {command}", flush=True)
        if group:
            shell.run("echo $$ > $HOME_GROUP/cgroup.procs")
            group.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--memfold", default=ROOT / "target/release/memfold", type=Path)
    parser.add_argument("--quick", action="store_true", help="without installing")
    options = parser.parse_args()
    test = Test(options.memfold.resolve(), options.quick)
    with tempfile.TemporaryDirectory(prefix="memfold-docs-") as directory:
        directory = Path(directory)
        (directory / "tests").symlink_to(ROOT / "tests")
        (directory / "Makefile").write_text("all: a b\na b:\n\tsleep 0.2\n")
        job = directory / "job"
        job.write_text("#!/bin/sh\nexec sleep 0.2\n")
        job.chmod(0o755)
        for name in PAGES:
            test.page(name, directory)
    print(f"test-docs: {test.count - test.failed} commands passed, {test.failed} failed, {test.left} blocks left out")
    sys.exit(1 if test.failed or not test.count else 0)


if __name__ == "__main__":
    memory.take_charge()
    if not shutil.which("bash"):
        sys.exit("test-docs: bash is missing")
    main()
