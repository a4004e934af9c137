//! Advice that follows from the measured numbers. It claims nothing that would need a second run as proof.

use memfold::size::Human;

use super::fields::{Advice, Numbers};

/// A share of time spent waiting above this is worth mentioning.
const STALL_MUCH: f64 = 0.01;
/// A share below this goes unnoticed.
const STALL_LITTLE: f64 = 0.001;
/// If the pages with the most faults have this share of all faults, they are worth mentioning.
const HOT_SHARE: f64 = 0.25;

/// All advice, the most important first.
pub fn of(numbers: &Numbers) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut say = |about, text| all.push(Advice { about, text, limit_bytes: None });
    let stats = numbers.stats;
    if stats.processes == 0 {
        say("unmanaged", "The program never loaded memfold's library, so nothing was managed: it is static, or clears its environment.".into());
        return all;
    }
    passed(numbers, &mut say);
    unmanaged(numbers, &mut say);
    if !stats.did_evict() {
        let wanted = idle(numbers, &mut say);
        recommend(&mut all, wanted);
        return all;
    }
    let wanted = limit(numbers, &mut say);
    data(numbers, &mut say);
    pages(numbers, &mut say);
    let own = stats.runtime_cpu_seconds + stats.supervisor_cpu_seconds;
    let all_cpu = stats.user_seconds + stats.system_seconds + stats.supervisor_cpu_seconds;
    // The kernel does not report the CPU time of processes that were not waited for.
    if own > 0.2 * all_cpu && own < all_cpu {
        say(
            "cpu",
            format!(
                "memfold took {own:.1} s of the {all_cpu:.1} s of CPU time. On a machine whose CPUs are all busy, this slows the program down; a larger limit reduces it."
            ),
        );
    }
    if numbers.faults.seen < numbers.faults.timed {
        say(
            "lost",
            format!(
                "{} events came faster than they could be read: the maps over time and the list of pages show {:.1} % of the faults. Counters, quantiles and the density include all of them.",
                numbers.faults.events_lost,
                numbers.faults.seen as f64 / numbers.faults.timed.max(1) as f64 * 100.0
            ),
        );
    }
    recommend(&mut all, wanted);
    if all.is_empty() {
        all.push(Advice {
            about: "nothing",
            text: "Nothing: the limit was held, at a small cost.".into(),
            limit_bytes: None,
        });
    }
    all
}

/// Notes the recommended limit at the advice that names it.
fn recommend(all: &mut [Advice], limit: Option<u64>) {
    let about = |advice: &&mut Advice| ["raise", "lower", "unneeded"].contains(&advice.about);
    if let Some(advice) = all.iter_mut().find(about) {
        advice.limit_bytes = limit;
    }
}

fn passed(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) {
    let stats = numbers.stats;
    if !stats.passed_limit() {
        return;
    }
    let over = Human(stats.over_limit_bytes);
    let why = match (stats.is_full, stats.is_partly_managed) {
        _ if stats.lacks_store => {
            "a process could not map the memory that its compressed pages need. Raise `ulimit -v` and `ulimit -d`: memfold's limit bounds the memory that is used."
        }
        (_, true) => {
            "not every process was managed all the time. The table of processes shows which, and why."
        }
        (true, _) => {
            "nothing more could be compressed. Give it a larger limit, or a denser second codec: `--codec auto:fast,auto:max`."
        }
        _ => {
            "for a moment, memory grew faster than it could be compressed. If that must never happen, also put the program into a cgroup with a slightly higher limit."
        }
    };
    say("passed", format!("Memory use exceeded the limit by {over}: {why}"));
}

fn unmanaged(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) {
    for process in numbers.processes.iter().filter(|process| process.state == "not managed").take(3) {
        let why = process.why.as_deref().unwrap_or("it did not report why");
        say(
            "unmanaged",
            format!(
                "Process {} ({}) was not managed: {why}. Its {} counted towards the limit and could not be compressed. It would be managed if it were linked dynamically, or ran as the same user.",
                process.pid,
                short(&process.command),
                Human(process.peak_resident_bytes)
            ),
        );
    }
    for process in numbers.processes.iter().filter(|process| process.state == "stopped").take(3) {
        say(
            "stopped",
            format!(
                "memfold stopped managing process {} ({}), or never began to: from then on all of its memory stayed resident. A line on standard error says why.",
                process.pid,
                short(&process.command)
            ),
        );
    }
}

fn short(command: &str) -> String {
    let word = command.split(' ').next().unwrap_or("").rsplit('/').next().unwrap_or("");
    if word.is_empty() { "ended early".to_owned() } else { word.chars().take(30).collect() }
}

/// Returns the limit that it recommends, as [`limit`] does.
fn idle(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) -> Option<u64> {
    let stats = numbers.stats;
    if stats.passed_limit() {
        return None;
    }
    let wanted = whole_megabytes(stats.peak_resident_bytes * 3 / 4);
    let mut text = format!(
        "Nothing had to be compressed: at most {} of the limit of {} were in use. With this limit memfold is not needed.",
        Human(stats.peak_resident_bytes),
        Human(stats.limit_bytes)
    );
    let saves = wanted > memfold_shared::page::SMALLEST_LIMIT;
    if saves {
        text += &format!(" To save memory, set a limit below the peak: try `--limit {}`.", megabytes(wanted));
    }
    say("unneeded", text);
    saves.then_some(wanted)
}

fn limit(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) -> Option<u64> {
    let stats = numbers.stats;
    let share = numbers.stall_share;
    if let Some(target) = stats.stall_target {
        say(
            "stall",
            format!(
                "Memory was evicted although there was room, and each process may wait for up to {:.2} % of the time for it; the processes waited for {:.2} % in total. With a smaller `--stall` they wait less; with a larger one more memory is saved.",
                target * 100.0,
                share * 100.0
            ),
        );
        return None;
    }
    let fits = stats.limit_where_all_fits();
    if share > STALL_MUCH {
        let between = whole_megabytes(stats.larger_limit());
        let all = if stats.processes > 1 { ", summed over all processes" } else { "" };
        let mut text = format!("Programs waited for memfold in {:.1} % of the time{all}", share * 100.0);
        let room = stats.throttled_seconds / stats.stalled_seconds.max(1e-9);
        if room > 0.5 {
            text += ", mostly for room: memory grew, or was restored, faster than it could be compressed. A faster first codec (`--codec lz4,auto`) or more CPUs help";
        }
        if fits > stats.limit_bytes {
            text += &format!(
                ". A larger limit reduces this: try `--limit {}`; from {} on, nothing would be compressed",
                megabytes(between),
                megabytes(fits)
            );
        }
        say("raise", text + ".");
        let came_back = stats.pages_faulted + stats.pages_prefetched;
        if came_back as f64 > 0.8 * stats.pages_compressed as f64 {
            say(
                "working-set",
                format!(
                    "For every 100 pages compressed, {:.0} were restored: the working set is larger than the limit leaves room for.",
                    came_back as f64 / stats.pages_compressed.max(1) as f64 * 100.0
                ),
            );
        }
        return (fits > stats.limit_bytes).then_some(between);
    }
    if share < STALL_LITTLE && numbers.peak_saved_bytes > 0 {
        let lower = whole_megabytes((stats.limit_bytes * 3 / 4).max(memfold_shared::page::SMALLEST_LIMIT));
        if lower < stats.limit_bytes {
            say(
                "lower",
                format!(
                    "Waiting took {:.2} % of the time, and {} pages were restored: the limit can be lower. Try `--limit {}`.",
                    share * 100.0,
                    stats.pages_faulted,
                    megabytes(lower)
                ),
            );
            return Some(lower);
        }
    }
    None
}

fn data(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) {
    let stats = numbers.stats;
    let sizes = &numbers.sizes;
    let all = sizes.zeros + sizes.repeated + sizes.pages.iter().sum::<u64>();
    let raw = sizes.incompressible as f64 / all.max(1) as f64;
    let ratio = stats.compression_ratio.unwrap_or(f64::INFINITY);
    if raw > 0.5 {
        say(
            "incompressible",
            format!(
                "{:.0} % of the pages did not become smaller: compressed, encrypted or random data. No codec helps with those; a limit below their size costs time and saves nothing.",
                raw * 100.0
            ),
        );
    } else if ratio < 1.5 {
        say(
            "codec",
            format!(
                "The data compressed only to 1/{ratio:.2}. `memfold analyze PID` shows the ratios of other codecs; `--codec auto,auto:max` selects a denser one, which takes more CPU time."
            ),
        );
    }
    let zeros = sizes.zeros as f64 / all.max(1) as f64;
    if zeros > 0.3 {
        say(
            "zeros",
            format!(
                "{:.0} % of the evicted pages held only zeros: memory that the program allocated and never filled, or cleared. It may not need it.",
                zeros * 100.0
            ),
        );
    }
}

fn pages(numbers: &Numbers, say: &mut impl FnMut(&'static str, String)) {
    let pages = &numbers.pages.list;
    let sum: u64 = pages.iter().map(|page| page.faults).sum();
    let seen = numbers.faults.seen;
    if seen >= 1000 && sum as f64 > HOT_SHARE * seen as f64 {
        say(
            "hot-pages",
            format!(
                "{} pages had {}{:.0} % of all faults: they are in constant use, and are evicted all the same. The list of pages shows where they are; a slightly higher limit keeps them resident.",
                pages.len(),
                if numbers.pages.error > 0 { "at least " } else { "" },
                sum as f64 / seen as f64 * 100.0
            ),
        );
    }
}

/// People type whole megabytes.
fn whole_megabytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(1 << 20)
}

/// A size as an option's value, rounded up.
fn megabytes(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}
