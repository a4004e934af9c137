//! The closing line: the result of a run in one sentence. And which limit to try if programs waited too long.

use memfold::size::Human;
use memfold_shared::near;

use super::seen::Held;
use super::stats::Stats;
use crate::output::text::grouped;

impl Stats {
    /// Whether anything was evicted at all.
    pub fn did_evict(&self) -> bool {
        self.pages_compressed > 0 || self.blocks_evicted > 0
    }

    /// Whether the total exceeded the limit by more than the tolerance.
    pub fn passed_limit(&self) -> bool {
        self.over_limit_bytes > near::tolerance(self.limit_bytes)
    }

    /// The memory that is never managed, if it is at least half of the excess over the limit.
    fn held(&self) -> Option<Held> {
        self.held.filter(|held| held.bytes >= self.over_limit_bytes / 2)
    }

    /// The limit from which on nothing would be compressed. Eviction begins when less than this spare room is
    /// left below the limit. The supervisor's own memory counts, too.
    pub fn limit_where_all_fits(&self) -> u64 {
        let spare = (self.peak_logical_bytes / 32).max(8 << 20) + self.supervisor_resident_bytes;
        self.peak_logical_bytes + spare
    }

    /// A limit to try if programs waited too long under the present one. The curves in docs/benchmarks.md are
    /// steep below a point that is not known, so the more was waited, the nearer it is to where all fits.
    pub fn larger_limit(&self) -> u64 {
        let missing = self.limit_where_all_fits().saturating_sub(self.limit_bytes);
        let waited = (self.stalled_seconds / self.wall_seconds.max(1e-9)).clamp(0.0, 1.0);
        self.limit_bytes + (missing as f64 * (0.5 + 0.4 * waited)) as u64
    }

    /// Advice for a program that spent most of its time waiting, because its working set does not fit. `most` is the
    /// limit of the cgroup that it runs in.
    pub fn too_little(&self, most: Option<u64>) -> Option<String> {
        let came_back = self.pages_faulted + self.pages_prefetched;
        let is_long = self.stalled_seconds > 0.5 * self.wall_seconds && self.wall_seconds > 3.0;
        let is_it = is_long && came_back > self.pages_compressed / 2;
        // With a limit that follows what is free, a larger one must be free.
        let follows = self.stall_target.is_some() && self.idle_seconds.is_none();
        if !is_it || follows && most.is_none() {
            return None;
        }
        let wanted = if follows { self.limit_where_all_fits() } else { self.larger_limit() };
        let larger = wanted.next_multiple_of(1 << 20);
        let remedy = match most {
            Some(_) if follows => format!(
                "give the cgroup (the container) more, up to {}M, or run less in it",
                (larger / 15 * 16) >> 20
            ),
            // memfold's limit should be below the cgroup's.
            Some(most) if larger > most / 16 * 15 => {
                format!("give the cgroup (the container) more, for example {}M", (larger / 15 * 16) >> 20)
            }
            _ => format!("try --limit {}M", larger >> 20),
        };
        Some(format!(
            "most of the time was spent waiting, because what is in use all the time does not fit into the limit: {remedy}; --report FILE.html shows more"
        ))
    }

    /// The closing line.
    pub fn closing_line(&self) -> String {
        let limit = Human(self.limit_bytes);
        let peak = Human(self.peak_resident_bytes);
        if !self.did_evict() {
            return match self.passed_limit() {
                false => {
                    format!(
                        "nothing had to be compressed: at most {peak} of the limit of {limit} were in use"
                    )
                }
                true => match self.held() {
                    Some(Held { bytes, what }) => format!(
                        "memory use exceeded the limit of {limit}: {peak} were in use, of which {} {what}; such memory is never compressed",
                        Human(bytes)
                    ),
                    None => format!(
                        "memory use exceeded the limit of {limit}: {peak} were in use, and nothing could be compressed"
                    ),
                },
            };
        }
        let mut line = match self.stall_target {
            None if self.is_limit_changed => {
                format!("{} were kept in {peak} (last limit {limit})", Human(self.peak_logical_bytes))
            }
            None => format!("{} were kept in {peak} (limit {limit})", Human(self.peak_logical_bytes)),
            Some(_) => format!(
                "{} were kept in {} on average ({peak} at most)",
                Human(self.mean_logical_bytes),
                Human(self.mean_resident_bytes)
            ),
        };
        let who = if self.processes > 1 { "processes" } else { "it" };
        let waited = format!("{who} waited {:.1} s", self.stalled_seconds);
        if self.stall_target.is_some() {
            line += &format!(", for which {waited}");
        }
        if self.passed_limit() {
            line += &match (self.held(), self.is_full, self.is_partly_managed) {
                (Some(Held { bytes, what }), _, false) => format!(
                    ", which exceeded the limit: {} {what}, and such memory is never compressed",
                    Human(bytes)
                ),
                (_, _, true) => {
                    ", which exceeded the limit: not every process was managed all the time".into()
                }
                _ if self.lacks_store => {
                    ", which exceeded the limit: no memory was left for compressed pages (ulimit -v, ulimit -d)".into()
                }
                (_, true, _) if self.spill.is_none() => {
                    ", which exceeded the limit: nothing more could be compressed (--spill DIRECTORY keeps the rest in a file)".into()
                }
                (_, true, _) => ", which exceeded the limit: nothing more could be compressed".into(),
                _ => String::from(
                    ", which exceeded the limit for a moment: memory grew faster than it could be compressed",
                ),
            };
        }
        if self.stall_target.is_none() {
            line += &format!("; {waited}");
        }
        line += &format!("; {} pages compressed", grouped(self.pages_compressed));
        if let Some(ratio) = self.compression_ratio {
            line += &format!(" to 1/{ratio:.1}");
        }
        line += &format!(", {} restored", grouped(self.pages_faulted));
        if let (Some(half), Some(most)) = (self.fault_us.p50, self.fault_us.p99) {
            line += &format!(" ({half:.0} µs each, 99 % within {most:.0} µs)");
        }
        line += &format!(
            "; cost: {:.1} s of CPU by memfold",
            self.runtime_cpu_seconds + self.supervisor_cpu_seconds
        );
        // The kernel does not report the CPU time of processes that were not waited for.
        let program = self.user_seconds + self.system_seconds - self.runtime_cpu_seconds;
        if program > 0.0 {
            line += &format!(" beside {program:.1} s by the program");
        }
        line + &format!(", {:.1} s in all", self.wall_seconds)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::seen::Seen;
    use super::super::stats::tests::stats;
    use crate::settings::Settings;
    use crate::settings::shared_page::SharedPage;

    #[test]
    fn closing_lines() {
        let shared = SharedPage::new(&Settings::example()).unwrap();
        let page = shared.page;
        let seen = Seen { peak_resident: 12 << 20, ..Seen::default() };
        let quiet = stats(page, &seen).closing_line();
        assert!(quiet.contains("nothing had to be compressed") && quiet.contains("12 MiB"), "{quiet}");

        let slot = page.take_slot(1).unwrap();
        slot.counters.pages_compressed.store(123_456, Relaxed);
        slot.evicted.store(300 << 20, Relaxed);
        slot.payload.store(100 << 20, Relaxed);
        page.note_peaks();
        let line = stats(page, &Seen { peak_resident: 99 << 20, ..Seen::default() }).closing_line();
        assert!(line.contains("123,456 pages compressed to 1/3.0") && !line.contains("exceeded"), "{line}");
        let line = stats(page, &Seen { peak_resident: 200 << 20, ..Seen::default() }).closing_line();
        assert!(line.contains("exceeded the limit") && line.contains("for a moment"), "{line}");
        let mut slow = stats(page, &Seen { peak_resident: 99 << 20, ..Seen::default() });
        (slow.wall_seconds, slow.stalled_seconds, slow.pages_faulted) = (10.0, 9.0, 200_000);
        (slow.peak_logical_bytes, slow.limit_bytes) = (400 << 20, 100 << 20);
        assert!(slow.closing_line().contains("; it waited 9.0 s;"), "{}", slow.closing_line());
        // 12.5 MiB more than 400, and 0.86 of the way there.
        let said = slow.too_little(None).unwrap();
        assert!(said.contains("try --limit 369M;"), "{said}");
        let said = slow.too_little(Some(240 << 20)).unwrap();
        assert!(said.contains("give the cgroup (the container) more, for example 393M;"), "{said}");
        slow.stalled_seconds = 1.0;
        assert_eq!(slow.too_little(None), None);
        (slow.stalled_seconds, slow.stall_target) = (9.0, Some(0.01));
        assert_eq!(slow.too_little(None), None);
        let said = slow.too_little(Some(240 << 20)).unwrap();
        assert!(said.contains("more, up to ") && said.contains("run less in it"), "{said}");
        let stopped = Seen { peak_resident: 200 << 20, stopped: true, ..Seen::default() };
        let line = stats(page, &stopped).closing_line();
        assert!(line.contains("not every process was managed") && !line.contains("for a moment"), "{line}");
    }
}
