//! Reports that the kernel has killed processes during the run because memory ran out, and what helps. The
//! kernel itself says so only in its log, and the program's exit status is that of any SIGKILL.
//!
//! The kernel counts kills but does not tell which process, nor whether a cgroup's limit or the whole machine
//! was the reason. The message claims no more than the counts show.

use std::sync::atomic::Ordering::Relaxed;

use memfold::size::Human;
use memfold_proc::kills::Kills;
use memfold_proc::process::Ending;
use memfold_proc::{PAGE, cgroup, field};
use memfold_shared::page::{SMALLEST_LIMIT, Shared, flags};

use crate::report::stats::Stats;
use crate::trees;

const SIGKILL: i32 = 9;

/// What else takes memory where the program ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct Surroundings {
    /// The cgroup's limit.
    pub limit: Option<u64>,
    /// The cgroup's files in memory: tmpfs, `/dev/shm`.
    pub files_in_memory: u64,
    /// Other runs of memfold in the same cgroup.
    pub other_runs: u64,
    /// The limit of this run follows what is free: at the end it says nothing about the room that there was.
    pub follows: bool,
    /// The most that others held at once during the run.
    pub most_of_others: u64,
    /// A process could not start a thread of memfold.
    pub lacks_tasks: bool,
}

impl Surroundings {
    /// Looks around at the end of a run.
    pub fn look(page: &Shared, stats: &Stats) -> Self {
        let group = cgroup::own();
        let stat = |group: &cgroup::Cgroup| std::fs::read_to_string(group.directory.join("memory.stat")).ok();
        let files = group.as_ref().and_then(stat).and_then(|stat| field(&stat, "shmem")?.parse().ok());
        let group_of = |pid: &str| std::fs::read(format!("/proc/{pid}/cgroup")).ok();
        let mut known = trees::Known::default();
        known.look();
        let supervisors = known.trees.iter().map(|tree| tree.supervisor);
        let others = supervisors.filter(|pid| *pid as u32 != std::process::id());
        let others = others.filter(|pid| group_of(&pid.to_string()) == group_of("self")).count();
        Surroundings {
            limit: group.and_then(|group| group.limit),
            files_in_memory: files.unwrap_or(0),
            other_runs: others as u64,
            follows: page.flags.load(Relaxed) & flags::FOLLOWS != 0,
            most_of_others: stats.most_of_others,
            lacks_tasks: page.flags.load(Relaxed) & flags::TOLD_TASKS != 0,
        }
    }
}

/// The message, if there is anything to tell: `kills` were added during the run.
pub fn message(
    kills: Kills,
    ending: Ending,
    around: impl FnOnce() -> Surroundings,
    stats: &Stats,
) -> Option<String> {
    // A shell reports the signal of its child as an exit status.
    let is_killed = ending.status() == 128 + SIGKILL;
    let is_in_cgroup = matches!(kills.in_cgroup, Some(1..));
    let is_ours = is_in_cgroup || is_killed && matches!(kills.on_machine, Some(1..));
    if !is_ours {
        return None;
    }
    let around = around();
    let total = around.limit.filter(|_| is_in_cgroup);
    let what = match kills.in_cgroup {
        Some(count @ 1..) => {
            let processes = if count == 1 { "a process".into() } else { format!("{count} processes") };
            let limit =
                total.map_or(String::new(), |bytes| format!(" (the cgroup's limit is {})", Human(bytes)));
            format!("{processes} in this cgroup because memory ran out{limit}")
        }
        _ => "a process on this machine because memory ran out, probably this program".into(),
    };
    let bound = match total {
        Some(total) if around.follows => total,
        total => total.unwrap_or(u64::MAX).min(stats.limit_bytes),
    };
    Some(format!("the kernel killed {what}; {}", advice(bound, &around, stats)))
}

/// What helps, if memory within `bound` was too little. The most certain reason comes first.
fn advice(bound: u64, around: &Surroundings, stats: &Stats) -> String {
    let lower = |bound: u64| match bound / 4 * 3 {
        bytes if bytes >= SMALLEST_LIMIT => format!("--limit {}M", bytes >> 20),
        _ => format!("more memory, and --limit {}M", SMALLEST_LIMIT >> 20),
    };
    let (files, runs) = (around.files_in_memory, around.other_runs + 1);
    // With a limit that follows what is free, what others took is missing only if they were too fast.
    let others = if around.follows { around.most_of_others } else { 0 };
    let own = bound.saturating_sub(others);
    let is_random = stats.pages_incompressible > stats.pages_compressed;
    // Data that fill half of what is left are the reason, even if others took some of it, too.
    let random_fill = is_random && stats.pages_incompressible.saturating_mul(PAGE) >= own / 2;
    if around.lacks_tasks {
        "memfold could not start its threads: allow some more tasks (pids.max, --pids-limit, ulimit -u)"
            .into()
    } else if files >= bound / 4 {
        let each = if runs > 1 { " for each run" } else { "" };
        format!(
            "{} of that are files in memory (tmpfs, /dev/shm), which cannot be compressed: put them on a disk, or try {}{each}",
            Human(files),
            lower(bound.saturating_sub(files) / runs)
        )
    } else if runs > 1 && around.follows {
        format!(
            "{runs} runs of memfold share this memory: run fewer at a time, give the cgroup (the container) more, or try {} for each",
            lower(bound / runs)
        )
    } else if runs > 1 {
        format!("{runs} runs of memfold share this memory: try {} for each", lower(bound / runs))
    } else if others >= bound / 8 && !random_fill {
        format!(
            "others in it (programs without memfold, files in memory) took up to {} of that, and sooner than memfold could make room: try {}",
            Human(others),
            lower(own)
        )
    } else if is_random {
        format!(
            "most of its data do not compress: try {} with --spill DIRECTORY, which keeps them in a file",
            lower(own)
        )
    } else if stats.processes_unmanaged > 0 {
        format!(
            "not every process was managed (docs/managed.md says which are), and the memory of the others cannot be compressed: try {} for those that are",
            lower(bound)
        )
    } else if let Some(ratio) = stats.compression_ratio.filter(|ratio| *ratio < 2.0) {
        format!(
            "its data compress to 1/{ratio:.1} only: try {} with --spill DIRECTORY, which keeps what does not fit in a file",
            lower(bound)
        )
    } else if stats.is_full {
        format!(
            "nothing more could be compressed: try {} with --spill DIRECTORY, which keeps what does not fit in a file",
            lower(bound)
        )
    } else {
        format!(
            "try {}, and if that is not enough with --spill DIRECTORY, which keeps what does not fit in a file",
            lower(bound)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::seen::Seen;
    use crate::report::stats::tests::stats;
    use crate::settings::Settings;
    use crate::settings::shared_page::SharedPage;

    #[test]
    fn the_message_names_the_killed_process_and_a_remedy() {
        let shared = SharedPage::new(&Settings::example()).unwrap();
        let mut stats = stats(shared.page, &Seen::default());
        (stats.peak_resident_bytes, stats.peak_evicted_bytes) = (90 << 20, 60 << 20);
        let kills = |in_cgroup, on_machine| Kills { in_cgroup, on_machine };
        let (killed, ended) = (Ending::Signalled(9), Ending::Exited(0));
        let none = Surroundings::default();
        let limited = Surroundings { limit: Some(80 << 20), ..none };
        let followed = Surroundings { follows: true, limit: Some(200 << 20), ..none };
        let said = message(kills(Some(1), Some(1)), killed, || followed, &stats).unwrap();
        assert!(said.contains("try --limit 150M, and if"), "{said}");
        let said = message(kills(Some(1), Some(1)), killed, || limited, &stats).unwrap();
        assert!(said.contains("a process in this cgroup") && said.contains("limit is 80 MiB"), "{said}");
        assert!(said.contains("try --limit 60M, and if"), "{said}");
        // A child may have been killed.
        let said = message(kills(Some(2), Some(2)), ended, || none, &stats).unwrap();
        assert!(said.contains("2 processes") && said.contains("try --limit 75M"), "{said}");
        assert!(!said.contains("limit is"), "{said}");
        let of_shell = Ending::Exited(137);
        let said = message(kills(Some(0), Some(1)), of_shell, || limited, &stats).unwrap();
        assert!(said.contains("on this machine") && !said.contains("limit is"), "{said}");
        assert!(message(kills(None, Some(1)), killed, || none, &stats).is_some());
        // The killed processes belong to others, or something else sent the signal.
        let quiet = |kills, ending| message(kills, ending, || limited, &stats);
        assert_eq!(quiet(kills(Some(0), Some(1)), ended), None);
        assert_eq!(quiet(kills(Some(0), Some(0)), killed), None);
        assert_eq!(quiet(kills(None, None), killed), None);
    }

    #[test]
    fn the_most_certain_reason_comes_first() {
        let shared = SharedPage::new(&Settings::example()).unwrap();
        let mut stats = stats(shared.page, &Seen::default());
        let mut around = Surroundings::default();
        let bound = 80 << 20;
        stats.compression_ratio = Some(3.4);
        assert!(
            advice(bound, &around, &stats)
                .starts_with("try --limit 60M, and if that is not enough with --spill")
        );
        assert!(advice(9 << 20, &around, &stats).starts_with("try more memory, and --limit 8M"));
        stats.is_full = true;
        assert!(advice(bound, &around, &stats).starts_with("nothing more could be compressed"));
        stats.compression_ratio = Some(1.1);
        assert!(advice(bound, &around, &stats).starts_with("its data compress to 1/1.1 only"));
        stats.processes_unmanaged = 1;
        assert!(advice(bound, &around, &stats).starts_with("not every process was managed"));
        (stats.pages_compressed, stats.pages_incompressible) = (1_600, 20_000);
        assert!(
            advice(bound, &around, &stats)
                .starts_with("most of its data do not compress: try --limit 60M with")
        );
        around.other_runs = 2;
        assert_eq!(
            advice(bound, &around, &stats),
            "3 runs of memfold share this memory: try --limit 19M for each"
        );
        around.follows = true;
        let said = advice(bound, &around, &stats);
        assert!(said.starts_with("3 runs of memfold share this memory: run fewer at a time"), "{said}");
        (around.other_runs, around.most_of_others) = (0, 30 << 20);
        let said = advice(bound, &around, &stats);
        assert!(said.starts_with("most of its data do not compress: try --limit 37M with"), "{said}");
        stats.pages_incompressible = 5_000;
        let said = advice(bound, &around, &stats);
        assert!(said.starts_with("others in it (programs") && said.ends_with("try --limit 37M"), "{said}");
        around.files_in_memory = 40 << 20;
        let said = advice(bound, &around, &stats);
        assert!(
            said.starts_with("40 MiB of that are files in memory") && said.ends_with("--limit 30M"),
            "{said}"
        );
        around.other_runs = 1;
        let said = advice(bound, &around, &stats);
        assert!(said.ends_with("try --limit 15M for each run"), "{said}");
        around.lacks_tasks = true;
        assert!(advice(bound, &around, &stats).contains("--pids-limit"));
    }
}
