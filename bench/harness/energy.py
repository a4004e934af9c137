"""The energy that the processors use, where they report it (RAPL, through the kernel's powercap)."""

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class Counter:
    """Joules of all processor packages, including other work on the machine and idle consumption."""

    def __init__(self, place=POWERCAP):
        # intel-rapl:0 is a package; intel-rapl:0:1 is a part of it, which is already counted there.
        self.packages = [path for path in sorted(place.glob("intel-rapl:*"))
                         if path.name.count(":") == 1 and (path / "name").read_text().startswith("package")]
        self.why_not = None if self.packages else f"no package's counter in {place}"
        try:
            self.start()
        except OSError as error:  # since Linux 5.10 only root may read them
            self.packages, self.why_not = [], str(error)

    def start(self):
        self.before = [int((path / "energy_uj").read_text()) for path in self.packages]

    def joules(self):
        """The joules since `start`; None without a counter."""
        if not self.packages:
            return None
        total = 0
        for path, before in zip(self.packages, self.before):
            taken = int((path / "energy_uj").read_text()) - before
            total += taken if taken >= 0 else taken + int((path / "max_energy_range_uj").read_text())
        return total / 1e6
