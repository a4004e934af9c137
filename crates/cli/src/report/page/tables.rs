//! Tables, and numbers in text, each marked with its place in the embedded JSON. A figure that is no larger than
//! its error is left out, or replaced by what it is below.

use std::fmt::Display;

use memfold::size::Human;

use super::fields::{Numbers, Page, Row};
use crate::output::plot::axes::us_text;
use crate::output::text::grouped;
use crate::output::web::{escape, tag};

/// A number as text, with the number itself and its place (a JSON pointer).
pub fn datum(at: &str, value: impl Display, text: &str) -> String {
    format!(
        "<data data-at=\"{}\" value=\"{}\">{}</data>",
        escape(at),
        escape(&value.to_string()),
        escape(text)
    )
}

/// Bytes.
pub fn bytes(at: &str, value: u64) -> String {
    datum(at, value, &Human(value).to_string())
}

/// A count.
pub fn count(at: &str, value: u64) -> String {
    datum(at, value, &grouped(value))
}

/// Seconds.
pub fn seconds(at: &str, value: f64) -> String {
    let text = match value {
        0.0 => "0".to_owned(),
        0.0..0.001 => us_text(value * 1e6),
        0.0..0.1 => format!("{:.1}\u{a0}ms", value * 1e3),
        _ => format!("{value:.2}\u{a0}s"),
    };
    datum(at, value, &text)
}

/// The time of a fault, if there is one.
pub fn us(at: &str, value: Option<f64>) -> String {
    value.map_or("–".into(), |us| datum(at, us, &us_text(us)))
}

/// A time that was read from samples, at most a tenth of a second apart.
fn sampled_seconds(at: &str, value: f64) -> String {
    if value < SAMPLED {
        format!("under {SAMPLED}\u{a0}s")
    } else {
        datum(at, value, &format!("{value:.1}\u{a0}s"))
    }
}

/// A share.
pub fn percent(at: &str, value: f64) -> String {
    datum(at, value, &percent_text(value))
}

/// A share with two digits after the point, or more if it would seem to be none.
fn percent_text(share: f64) -> String {
    let percent = share * 100.0;
    let digits =
        if percent > 0.0 && percent < 0.1 { 1 - percent.log10().floor().max(-12.0) as i32 } else { 2 };
    format!("{percent:.0$}\u{a0}%", digits as usize)
}

/// A compression ratio, if there is one.
pub fn ratio(at: &str, value: Option<f64>) -> String {
    value.map_or("–".into(), |ratio| datum(at, ratio, &format!("{ratio:.2}\u{a0}:\u{a0}1")))
}

/// An address of a process.
pub fn address(at: &str, value: u64) -> String {
    format!("<code>{}</code>", datum(at, value, &format!("{value:#x}")))
}

/// Seconds that may pass between two samples.
const SAMPLED: f64 = 0.1;

/// All figures of the run.
pub fn figures(numbers: &Numbers) -> String {
    let stats = numbers.stats;
    let at = |name: &str| format!("/stats/{name}");
    let b = |name: &str, value| bytes(&at(name), value);
    let n = |name: &str, value| count(&at(name), value);
    let s = |name: &str, value| seconds(&at(name), value);
    let codecs = match &stats.codec_dense {
        Some(dense) => format!("{}, then {dense}", stats.codec_fast),
        None => stats.codec_fast.clone(),
    };
    let rows: [(&str, String); 35] = [
        ("Limit at the end", b("limit_bytes", stats.limit_bytes)),
        ("Peak resident memory", b("peak_resident_bytes", stats.peak_resident_bytes)),
        ("above the limit", b("over_limit_bytes", stats.over_limit_bytes)),
        ("Peak logical size", b("peak_logical_bytes", stats.peak_logical_bytes)),
        ("Mean resident memory", b("mean_resident_bytes", stats.mean_resident_bytes)),
        ("Mean logical size", b("mean_logical_bytes", stats.mean_logical_bytes)),
        ("Peak evicted", b("peak_evicted_bytes", stats.peak_evicted_bytes)),
        ("Peak compressed bytes", b("peak_payload_bytes", stats.peak_payload_bytes)),
        (
            "Peak of memfold's other memory in the programs",
            b("peak_overhead_bytes", stats.peak_overhead_bytes),
        ),
        ("Memory of the supervisor", b("supervisor_resident_bytes", stats.supervisor_resident_bytes)),
        ("Compression at the peak of eviction", ratio(&at("compression_ratio"), stats.compression_ratio)),
        ("Pages compressed", n("pages_compressed", stats.pages_compressed)),
        ("of which zeros", n("pages_same_filled", stats.pages_same_filled)),
        ("Pages compressed again, denser", n("pages_densified", stats.pages_densified)),
        ("Pages that no codec makes smaller", n("pages_incompressible", stats.pages_incompressible)),
        ("Blocks evicted", n("blocks_evicted", stats.blocks_evicted)),
        ("Faults on compressed pages", n("pages_faulted", stats.pages_faulted)),
        ("Pages restored from standby", n("pages_rescued", stats.pages_rescued)),
        ("Pages restored ahead of use", n("pages_prefetched", stats.pages_prefetched)),
        ("Half of the faults took at most", us("/stats/fault_us/p50", stats.fault_us.p50)),
        ("90 % of them", us("/faults/p90_us", numbers.faults.p90_us)),
        ("99 % of them", us("/stats/fault_us/p99", stats.fault_us.p99)),
        ("99.9 % of them", us("/faults/p99_9_us", numbers.faults.p99_9_us)),
        ("The longest", us("/stats/fault_us/max", stats.fault_us.max)),
        ("Time in which a thread waited for memfold", s("stalled_seconds", stats.stalled_seconds)),
        (
            "Time that threads waited for room, summed over threads",
            s("throttled_seconds", stats.throttled_seconds),
        ),
        ("Wall time", s("wall_seconds", stats.wall_seconds)),
        ("CPU time of the tree, in user code", s("user_seconds", stats.user_seconds)),
        ("CPU time of the tree, in the kernel", s("system_seconds", stats.system_seconds)),
        ("of these two, memfold's threads", s("runtime_cpu_seconds", stats.runtime_cpu_seconds)),
        ("CPU time of the supervisor", s("supervisor_cpu_seconds", stats.supervisor_cpu_seconds)),
        ("Processes", n("processes", stats.processes)),
        ("of which not managed", n("processes_unmanaged", stats.processes_unmanaged)),
        ("Codecs", escape(&codecs)),
        ("Peak measured with", escape(stats.peak_resident_source)),
    ];
    let row =
        |(name, value): &(&str, String)| format!("<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>\n");
    let (limit, others) = rows.split_at(1);
    let mut rows: String = limit.iter().map(row).collect();
    rows += &recommended(numbers);
    rows.extend(others.iter().map(row));
    format!(
        "<div class=\"wide\"><table class=\"plain\" id=\"figures\"><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// The limit to try instead, beside the one of this run.
fn recommended(numbers: &Numbers) -> String {
    let advice = numbers.advice.iter().enumerate();
    let found = advice.filter_map(|(number, advice)| Some((number, advice.limit_bytes?))).next();
    found.map_or(String::new(), |(number, limit)| {
        format!(
            "<tr class=\"recommended\"><th scope=\"row\">Limit to try{}</th><td>{}</td></tr>\n",
            tag("recommended"),
            bytes(&format!("/advice/{number}/limit_bytes"), limit)
        )
    })
}

/// The processes.
pub fn processes(numbers: &Numbers) -> String {
    let lives = numbers.processes.len() > 1;
    let row = |(number, process): (usize, &Row)| {
        let at = |name: &str| format!("/processes/{number}/{name}");
        let command =
            if process.command.is_empty() { "(ended before it was examined)" } else { &process.command };
        let end =
            process.to_seconds.map_or("the end".to_owned(), |to| sampled_seconds(&at("to_seconds"), to));
        let why = process.why.as_deref().map_or(String::new(), |why| format!(" {}", escape(why)));
        let tag = if process.state == "managed" { "tag" } else { "tag bad" };
        let life = if lives { life(numbers, process) } else { String::new() };
        format!(
            "<tr><td class=\"t\">{}</td><td class=\"cmd\">{}{life}</td><td class=\"why\"><span class=\"{tag}\">{}</span>{why}</td><td>{} – {end}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            datum(&at("pid"), process.pid, &process.pid.to_string()),
            escape(command),
            process.state,
            sampled_seconds(&at("from_seconds"), process.from_seconds),
            gauge(&at("peak_resident_bytes"), process, process.peak_resident_bytes),
            gauge(&at("peak_saved_bytes"), process, process.peak_saved_bytes),
            ratio(&at("compression_ratio"), process.compression_ratio),
            count(&at("pages_compressed"), process.pages_compressed),
            count(&at("pages_faulted"), process.pages_faulted),
            seconds(&at("stalled_seconds"), process.stalled_seconds),
        )
    };
    let rows: String = numbers.processes.iter().enumerate().map(row).collect();
    let titles = ["", "resident", "saved", "ratio", "compressed", "faults", "waited at least"];
    let titles: String = titles.iter().map(|title| format!("<th class=\"r\">{title}</th>")).collect();
    let more = match &numbers.processes_left_out {
        more if more.count == 0 => String::new(),
        more => format!(
            "<p>{} more processes are not listed: {} pages compressed, {} faults.</p>\n",
            count("/processes_left_out/count", more.count),
            count("/processes_left_out/pages_compressed", more.pages_compressed),
            count("/processes_left_out/pages_faulted", more.pages_faulted)
        ),
    };
    format!(
        "<div class=\"wide\"><table class=\"num\" id=\"tree\"><thead><tr><th>process</th><th>command</th><th>state</th>{titles}</tr></thead><tbody>\n{rows}</tbody></table></div>\n{more}"
    )
}

/// Memory of a process. Nothing is known about one that ended before a sample was taken.
fn gauge(at: &str, process: &Row, value: u64) -> String {
    if process.peak_resident_bytes == 0 { "–".into() } else { bytes(at, value) }
}

/// The process's lifetime, as a bar.
fn life(numbers: &Numbers, process: &Row) -> String {
    let all = numbers.seconds();
    let from = (process.from_seconds / all).clamp(0.0, 1.0) * 100.0;
    let to = (process.to_seconds.unwrap_or(all) / all).clamp(0.0, 1.0) * 100.0;
    format!("<div class=\"life\"><i style=\"left:{from:.2}%;width:{:.2}%\"></i></div>", (to - from).max(0.0))
}

/// The pages with the most faults, as far as their counts are larger than what these may be off by. Empty if
/// there is none.
pub fn pages(numbers: &Numbers) -> String {
    let (pages, seen) = (&numbers.pages, numbers.faults.seen.max(1) as f64);
    let several = numbers.processes.len() > 1;
    let row = |(number, page): (usize, &Page)| {
        let at = |name: &str| format!("/pages/list/{number}/{name}");
        let pid = page.pid.map_or("–".into(), |pid| datum(&at("pid"), pid, &pid.to_string()));
        let pid = if several { format!("<td>{pid}</td>") } else { String::new() };
        let mapping = escape(page.mapping.as_deref().unwrap_or("(not looked up)"));
        let (least, most) = (page.faults as f64 / seen, page.faults_at_most as f64 / seen);
        let (mut faults, mut share) = (count(&at("faults"), page.faults), percent_text(least));
        if pages.error > 0 {
            faults = format!("{faults} – {}", count(&at("faults_at_most"), page.faults_at_most));
            share = format!("{share} – {}", percent_text(most.min(1.0)));
        }
        format!(
            "<tr><td class=\"t\">{}</td><td class=\"t map\">{mapping}</td>{pid}<td>{faults}</td><td>{share}</td></tr>\n",
            address(&at("address"), page.address)
        )
    };
    let known = pages.list.iter().enumerate().filter(|(_, page)| page.faults > pages.error);
    let rows: String = known.map(row).collect();
    if rows.is_empty() {
        return rows;
    }
    let process = if several { "<th class=\"r\">process</th>" } else { "" };
    format!(
        "<div class=\"wide\"><table class=\"num\" id=\"pages\"><thead><tr><th>page</th><th class=\"t\">mapping</th>{process}<th class=\"r\">faults</th><th class=\"r\">of all</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}
