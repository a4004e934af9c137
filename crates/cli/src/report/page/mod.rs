//! The page of a report.

mod advice;
mod charts;
mod fields;
mod maps;
mod numbers;
mod tables;

use memfold_shared::page::Shared;

use super::record::Records;
use super::stats::Stats;
use crate::output::web::{self, escape};
use fields::Numbers;
use tables::{bytes, count, percent, ratio, seconds, us};

const STYLE: &str = include_str!("style.css");
/// The script shows values under the pointer. The page is complete without it.
const SCRIPT: &str = include_str!("hover.js");

/// Makes the page.
pub fn page(shared: &Shared, stats: &Stats, records: &Records) -> String {
    write(&Numbers::new(shared, stats, records))
}

fn write(numbers: &Numbers) -> String {
    let stats = numbers.stats;
    let command = stats.command.join(" ");
    let ending = match stats.signal {
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("exit status {}", stats.exit_status),
    };
    let mut body = format!(
        "<main>\n<h1><code>{}</code></h1>\n<p class=\"lead\">{}. It ran for {}, {ending}.</p>\n",
        escape(&command.chars().take(400).collect::<String>()),
        escape(&headline(numbers)),
        seconds("/stats/wall_seconds", stats.wall_seconds)
    );
    body += &cards(numbers);
    body += &section("What to change", "", &advice(numbers));
    body += &section(
        "Memory by state",
        "All memory of the tree, each page once. The distance from the coloured areas up to the line is what was saved.",
        &charts::memory(numbers),
    );
    if stats.did_evict() {
        faults(&mut body, numbers);
        body += &section("Compressed sizes of pages", &sizes_words(numbers), &maps::sizes(numbers));
    }
    body += &section(
        "Processes",
        "When each process ran, its peak memory and savings, and what it cost. Resident memory is each process's own count: after a fork, a shared page counts in both. Times of beginning and end are those of samples; of each wait, some microseconds are not counted.",
        &tables::processes(numbers),
    );
    if !numbers.pages.list.is_empty() {
        body += &section("Pages with the most faults", &pages_words(numbers), &tables::pages(numbers));
    }
    body += &section("All figures", "", &tables::figures(numbers));
    body += &format!(
        "</main>\n<footer>memfold {}. All numbers of this page are in it as JSON, in the element <code>numbers</code>.</footer>\n",
        stats.version
    );
    body += &format!(
        "<script type=\"application/json\" id=\"numbers\">{}</script>\n<script>{SCRIPT}</script>\n",
        numbers.to_json()
    );
    web::styled_page(&command, STYLE, &body)
}

fn section(title: &str, words: &str, inside: &str) -> String {
    let words = if words.is_empty() { String::new() } else { format!("<p>{words}</p>\n") };
    format!("<section><h2>{title}</h2>\n{words}{inside}</section>\n")
}

/// The result in one sentence.
fn headline(numbers: &Numbers) -> String {
    let stats = numbers.stats;
    let peak = memfold::size::Human(stats.peak_resident_bytes);
    if stats.stall_target.is_some() {
        let [logical, resident] =
            [stats.mean_logical_bytes, stats.mean_resident_bytes].map(memfold::size::Human);
        return format!("{logical} of memory were kept in {resident} on average");
    }
    if stats.did_evict() && stats.peak_logical_bytes > stats.peak_resident_bytes {
        let logical = memfold::size::Human(stats.peak_logical_bytes);
        return format!("{logical} of memory were kept in {peak}");
    }
    if stats.did_evict() {
        return format!("{peak} were in use, and compressing saved nothing of it");
    }
    format!("{peak} were in use, and nothing was compressed")
}

fn cards(numbers: &Numbers) -> String {
    let stats = numbers.stats;
    let cards = [
        (bytes("/peak_saved_bytes", numbers.peak_saved_bytes), "peak of memory saved"),
        (ratio("/stats/compression_ratio", stats.compression_ratio), "compression"),
        (
            percent("/stall_share", numbers.stall_share),
            if numbers.processes.len() > 1 {
                "of the wall time spent waiting, summed over all processes"
            } else {
                "of the time, a thread waited"
            },
        ),
        (count("/stats/pages_faulted", stats.pages_faulted), "faults"),
        (us("/stats/fault_us/p99", stats.fault_us.p99), "99 % of them took at most"),
        (
            seconds("/stats/runtime_cpu_seconds", stats.runtime_cpu_seconds),
            "of CPU time by memfold in the programs",
        ),
    ];
    let items: String =
        cards.iter().map(|(value, name)| format!("<li><b>{value}</b>{name}</li>\n")).collect();
    format!("<ul class=\"big\">\n{items}</ul>\n")
}

fn advice(numbers: &Numbers) -> String {
    let items: String = numbers
        .advice
        .iter()
        .map(|it| format!("<li data-about=\"{}\">{}</li>\n", it.about, with_code(&it.text)))
        .collect();
    format!("<ol class=\"do\">\n{items}</ol>\n")
}

/// Marks text between backticks as code.
fn with_code(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => escape(part),
        _ => format!("<code class=\"opt\">{}</code>", escape(part)),
    });
    parts.collect()
}

fn faults(body: &mut String, numbers: &Numbers) {
    *body += &section(
        "What it cost",
        "A fault is a touch of a compressed page: the thread waits until the page is restored. Waiting \
         includes pages from standby and waiting for room. Each wait lies in the time that it took, so no process \
         waits for more than 100\u{a0}% of it.",
        &charts::waiting(numbers),
    );
    let seen = seen_words(numbers);
    if numbers.faults.timed > 0 {
        let words = format!(
            "From receiving the fault until the page is resident, {} faults. Half took at most {}, 90\u{a0}% {}, 99\u{a0}% {}, 99.9\u{a0}% {}; the longest {}. Axes of latency are logarithmic.",
            count("/faults/timed", numbers.faults.timed),
            us("/faults/p50_us", numbers.faults.p50_us),
            us("/faults/p90_us", numbers.faults.p90_us),
            us("/faults/p99_us", numbers.faults.p99_us),
            us("/faults/p99_9_us", numbers.faults.p99_9_us),
            us("/faults/max_us", numbers.faults.max_us),
        );
        let pictures = format!(
            "<h3>Share of the faults, by latency</h3>\n{}<h3>Latency over time</h3>\n{}",
            maps::density(numbers),
            maps::latency(numbers)
        );
        *body += &section("How long faults took", &words, &pictures);
    }
    let map = &numbers.space;
    let mut words = format!(
        "Each row is a block of {} in which something happened; the empty addresses between blocks are left out, and gaps show where. {seen}",
        bytes("/space/block_bytes", map.block_bytes)
    );
    if map.faults_left_out + map.pages_compressed_left_out > 0 {
        words += &format!(
            " {} faults and {} compressed pages did not fit into the picture.",
            count("/space/faults_left_out", map.faults_left_out),
            count("/space/pages_compressed_left_out", map.pages_compressed_left_out)
        );
    }
    *body += &section("Where faults were", &words, &maps::space(numbers));
}

fn seen_words(numbers: &Numbers) -> String {
    let faults = &numbers.faults;
    if faults.seen == faults.timed {
        return "Every fault is included.".into();
    }
    format!(
        "{} of {} faults are included: the others came too fast to be recorded one by one.",
        count("/faults/seen", faults.seen),
        count("/faults/timed", faults.timed)
    )
}

fn sizes_words(numbers: &Numbers) -> String {
    let sizes = &numbers.sizes;
    format!(
        "Pages of 4096 bytes when they were evicted; later compression by the dense codec is not included. {} were zeros, {} another repeated word, {} did not become smaller.",
        count("/sizes/zeros", sizes.zeros),
        count("/sizes/repeated", sizes.repeated),
        count("/sizes/incompressible", sizes.incompressible)
    )
}

fn pages_words(numbers: &Numbers) -> String {
    let (error, seen) = (numbers.pages.error, seen_words(numbers));
    if error == 0 {
        return format!("Faults by page. These pages were evicted and needed again most often. {seen}");
    }
    let error = count("/pages/error", error);
    if tables::pages(numbers).is_empty() {
        return format!(
            "Faults by page are not shown: faults are spread over so many pages that none is known to have more than {error}. {seen}"
        );
    }
    format!(
        "Faults by page. So many pages had faults that each count is only known to lie between two numbers, and that a page with up to {error} faults may be missing. {seen}"
    )
}

#[cfg(test)]
mod tests;
