//! The page of `--report`: a chart and the statistics, in one file that
//! needs no other.

use std::fmt::Write;

use crate::chart;
use crate::series::Point;
use crate::size::Human;
use crate::stats::{Stats, grouped};

const STYLE: &str = "\
:root{--ink:#1c2530;--dim:#687485;--line:#e3e8ee;--paper:#fff;--a:#2f6fde;--b:#8a94a3;--c:#12966a;--d:#d2452f}
@media(prefers-color-scheme:dark){:root{--ink:#e6ebf2;--dim:#93a0b2;--line:#2a323d;--paper:#14191f;--a:#5b93f5;--b:#aab4c2;--c:#35c08f;--d:#f2705b}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2.5rem auto;padding:0 1.25rem}
h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}h1 code{font:inherit}
p{margin:.25rem 0 1.25rem;color:var(--dim)}
ul.big{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1rem;list-style:none;padding:0;margin:1.5rem 0}
ul.big li{border:1px solid var(--line);border-radius:.6rem;padding:.7rem 1rem;color:var(--dim)}
ul.big b{display:block;font-size:1.45rem;color:var(--ink);font-variant-numeric:tabular-nums}
svg{width:100%;height:auto;display:block}svg text{font:12px system-ui,sans-serif;fill:var(--dim)}
.grid{stroke:var(--line)}.y{text-anchor:end}.x{text-anchor:middle}
.resident{fill:var(--a);fill-opacity:.22;stroke:var(--a);stroke-width:1.5}
.logical{fill:none;stroke:var(--b);stroke-width:2}.payload{fill:none;stroke:var(--c);stroke-width:1.5}
.limit{stroke:var(--d);stroke-width:1.5;stroke-dasharray:6 4}svg .limit-name{fill:var(--d);text-anchor:end}
.key{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;margin:.5rem 0 2rem;padding:0;list-style:none;color:var(--dim)}
.key i{display:inline-block;width:1rem;height:.25rem;border-radius:2px;margin-right:.45rem;vertical-align:middle}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .5rem;border-bottom:1px solid var(--line);font-weight:400}
td{text-align:right;font-variant-numeric:tabular-nums}";

/// Makes the page.
pub fn page(stats: &Stats, points: &[Point]) -> String {
    let command = escape(&stats.command.join(" "));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>memfold: {command}</title>\n<style>{STYLE}</style></head><body>\n\
         <h1><code>{command}</code></h1>\n<p>{}.</p>\n<ul class=\"big\">\n",
        escape(&stats.closing_line())
    );
    for (value, name) in headline(stats) {
        let _ = writeln!(html, "<li><b>{value}</b>{name}</li>");
    }
    html += "</ul>\n";
    html += &chart::draw(points, stats.limit_bytes, stats.wall_seconds);
    html += "<ul class=\"key\">\n";
    for (colour, name) in
        [("a", "resident"), ("b", "what the programs have"), ("c", "compressed bytes"), ("d", "limit")]
    {
        let _ = writeln!(html, "<li><i style=\"background:var(--{colour})\"></i>{name}</li>");
    }
    html += "</ul>\n<table>\n";
    for (name, value) in rows(stats) {
        let _ = writeln!(html, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", escape(&value));
    }
    html + "</table>\n</body></html>\n"
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_arguments_stays_text() {
        assert_eq!(escape("<b a=\"x\">&"), "&lt;b a=&quot;x&quot;&gt;&amp;");
    }
}
