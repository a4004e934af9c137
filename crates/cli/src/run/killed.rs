//! Reports that the kernel has killed processes during the run because memory ran out, and what helps. The
//! kernel itself says so only in its log, and the program's exit status is that of any SIGKILL.
//!
//! The kernel counts kills but does not tell which process, nor whether a cgroup's limit or the whole machine
//! was the reason. The message claims no more than the counts show.

use memfold::size::Human;
use memfold_proc::kills::Kills;
use memfold_proc::process::Ending;

use crate::report::stats::Stats;

const SIGKILL: i32 = 9;

/// The message, if there is anything to tell: `kills` were added during the run, in a cgroup with this limit.
pub fn message(kills: Kills, ending: Ending, cgroup_limit: Option<u64>, stats: &Stats) -> Option<String> {
    // A shell reports the signal of its child as an exit status.
    let is_killed = ending.status() == 128 + SIGKILL;
    let (what, total) = match (kills.in_cgroup, kills.on_machine) {
        (Some(count @ 1..), _) => {
            let processes = if count == 1 { "a process".into() } else { format!("{count} processes") };
            let limit = cgroup_limit
                .map_or(String::new(), |bytes| format!(" (the cgroup's limit is {})", Human(bytes)));
            (format!("{processes} in this cgroup because memory ran out{limit}"), cgroup_limit)
        }
        (_, Some(1..)) if is_killed => {
            ("a process on this machine because memory ran out, probably this program".into(), None)
        }
        _ => return None,
    };
    let bound = total.unwrap_or(u64::MAX).min(stats.limit_bytes);
    let lower = format!("--limit {}M", (bound / 4 * 3) >> 20);
    let advice = match stats.compression_ratio {
        Some(ratio) if stats.is_full || ratio < 2.0 => format!(
            "its data compress to 1/{ratio:.1} only: try {lower} with --spill DIRECTORY, which keeps what does not fit in a file"
        ),
        // Data that do not compress stay where they are: they are neither evicted nor part of the ratio.
        _ if stats.peak_evicted_bytes < stats.peak_resident_bytes / 4 => format!(
            "little of its memory was compressed: try {lower}, and if that is not enough with --spill DIRECTORY, which keeps what does not compress in a file"
        ),
        _ => format!("try {lower}"),
    };
    Some(format!("the kernel killed {what}; {advice}"))
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
        let limit = Some(80 << 20);
        let said = message(kills(Some(1), Some(1)), killed, limit, &stats).unwrap();
        assert!(said.contains("a process in this cgroup") && said.contains("limit is 80 MiB"), "{said}");
        assert!(said.ends_with("try --limit 60M"), "{said}");
        // A child may have been killed.
        let said = message(kills(Some(2), Some(2)), ended, None, &stats).unwrap();
        assert!(said.contains("2 processes") && said.ends_with("try --limit 75M"), "{said}");
        assert!(!said.contains("limit is"), "{said}");
        let of_shell = Ending::Exited(137);
        assert!(
            message(kills(Some(0), Some(1)), of_shell, limit, &stats).unwrap().contains("on this machine")
        );
        assert!(message(kills(None, Some(1)), killed, None, &stats).is_some());
        stats.compression_ratio = Some(1.1);
        assert!(message(kills(Some(1), None), killed, limit, &stats).unwrap().contains("--spill DIRECTORY"));
        (stats.compression_ratio, stats.peak_evicted_bytes) = (Some(3.4), 5 << 20);
        let said = message(kills(Some(1), None), killed, limit, &stats).unwrap();
        assert!(said.contains("little of its memory") && said.contains("--spill DIRECTORY"), "{said}");
        // The killed processes belong to others, or something else sent the signal.
        assert_eq!(message(kills(Some(0), Some(1)), ended, limit, &stats), None);
        assert_eq!(message(kills(Some(0), Some(0)), killed, limit, &stats), None);
        assert_eq!(message(kills(None, None), killed, limit, &stats), None);
    }
}
