//! The page of `--report`: a chart and the statistics, in one file that
//! needs no other.

use std::fmt::Write;

use crate::chart;
use crate::series::Point;
use crate::size::Human;
use crate::stats::{Stats, grouped};
use crate::web::{self, escape};

/// Makes the page.
pub fn page(stats: &Stats, points: &[Point]) -> String {
    let command = escape(&stats.command.join(" "));
    let mut html = format!("<h1><code>{command}</code></h1>\n<p>{}.</p>\n", escape(&stats.closing_line()));
    html += &web::headline(&headline(stats));
    html += &chart::draw(points, stats.limit_bytes, stats.wall_seconds);
    html += &web::key(&[
        ('a', "resident"),
        ('b', "what the programs have"),
        ('c', "compressed bytes"),
        ('d', "limit"),
    ]);
    html += "<table>\n";
    for (name, value) in rows(stats) {
        let _ =
            writeln!(html, "<tr><th scope=\"row\">{name}</th><td class=\"r\">{}</td></tr>", escape(&value));
    }
    html += "</table>\n";
    web::page(&stats.command.join(" "), &html)
}

fn headline(stats: &Stats) -> [(String, &'static str); 4] {
    let ratio = stats.compression_ratio.map_or("–".into(), |ratio| format!("{ratio:.1} : 1"));
    [
        (Human(stats.peak_logical_bytes).to_string(), "most that the programs had"),
        (Human(stats.peak_resident_bytes).to_string(), "most that was resident"),
        (ratio, "compression"),
        (format!("{:.2} s", stats.wall_seconds), "time"),
    ]
}

fn rows(stats: &Stats) -> Vec<(&'static str, String)> {
    let seconds = |value: f64| format!("{value:.2} s");
    let time = |value: Option<f64>| value.map_or("–".into(), |us| format!("{us:.1} µs"));
    let codecs = match &stats.codec_dense {
        Some(dense) => format!("{}, then {dense}", stats.codec_fast),
        None => stats.codec_fast.clone(),
    };
    vec![
        ("Limit", Human(stats.limit_bytes).to_string()),
        ("Most that was evicted at one time", Human(stats.peak_evicted_bytes).to_string()),
        ("Most compressed bytes", Human(stats.peak_payload_bytes).to_string()),
        ("Most of memfold's other memory", Human(stats.peak_overhead_bytes).to_string()),
        ("Pages compressed", grouped(stats.pages_compressed)),
        ("of which of one repeated word", grouped(stats.pages_same_filled)),
        ("of which compressed again, denser", grouped(stats.pages_densified)),
        ("Faults on compressed pages", grouped(stats.pages_faulted)),
        ("Faults on pages not yet compressed", grouped(stats.pages_rescued)),
        ("Pages brought back before they were asked for", grouped(stats.pages_prefetched)),
        ("A fault: half took at most", time(stats.fault_us.p50)),
        ("A fault: 99 of 100 took at most", time(stats.fault_us.p99)),
        ("The longest fault", time(stats.fault_us.max)),
        ("CPU time of the tree, in user code", seconds(stats.user_seconds)),
        ("CPU time of the tree, in the kernel", seconds(stats.system_seconds)),
        ("of which memfold's threads", seconds(stats.runtime_cpu_seconds)),
        ("CPU time of the supervisor", seconds(stats.supervisor_cpu_seconds)),
        ("Threads waited for room", seconds(stats.throttled_seconds)),
        ("Processes", grouped(stats.processes)),
        ("of which not managed", grouped(stats.processes_unmanaged)),
        ("Codecs", codecs),
        ("Exit status", stats.exit_status.to_string()),
        ("memfold", stats.version.to_owned()),
    ]
}
