//! The analysis as text.

use std::fmt::Write;

use memfold_analyze::advice::Outlook;

use super::found::{Analysis, Ratio};
use super::{human, ratio_words};

/// Writes the whole text.
pub fn write(found: &Analysis) -> String {
    let mut text = format!(
        "{}: {} in {} private page{}; {} of them were compressed, in {:.1} s\n",
        found.what,
        human(found.bytes),
        found.pages,
        if found.pages == 1 { "" } else { "s" },
        if found.sampled_pages == found.pages { "all".into() } else { found.sampled_pages.to_string() },
        found.sampling_seconds
    );
    let _ = writeln!(
        text,
        "{:.1} % of the pages are all zeros, {:.1} % another repeated word\n",
        found.zero_share * 100.0,
        found.same_filled_share * 100.0
    );
    verdict(&mut text, found);
    text += "\ncompression ratio, with 95 % intervals\n";
    ratio_table(&mut text, found);
    text += "\nwords of 32 bits (z zero, m as in one of the 16 seen last, x anything else)\n";
    for pattern in &found.patterns {
        let bar = "#".repeat((pattern.share * 60.0).round() as usize);
        let _ = writeln!(text, "  {}  {:5.1} %  {bar}", pattern.pattern, pattern.share * 100.0);
    }
    if found.mappings.len() > 1 || found.kind == "process" {
        text += "\nlargest mappings\n";
        for part in &found.mappings {
            let ratio = part.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            let idle = part.idle_share.map_or(String::new(), |idle| format!("{:3.0} % idle", idle * 100.0));
            let _ = writeln!(
                text,
                "  {:>9}  {ratio:>6}  {idle:>10}  {:x} {}",
                human(part.bytes),
                part.start,
                memfold_escape::shown(&part.name)
            );
        }
        let more = found.mappings_in_all - found.mappings.len();
        if more > 0 {
            let _ = writeln!(text, "  and {more} others");
        }
    }
    odds(&mut text, found);
    text
}

/// Writes the conclusions.
fn verdict(text: &mut String, found: &Analysis) {
    if let Some(set) = &found.working_set {
        let _ = writeln!(
            text,
            "in use within {:.0} s: {} of {} ({:.0} % idle)",
            set.seconds(),
            human(set.used_bytes()),
            human(set.resident_bytes),
            set.idle() * 100.0
        );
        text.push_str("\n  limit      of now  expected slowdown  faults/s  chance that it is too low\n");
        for outlook in &found.limits {
            line(text, outlook, set.resident_bytes, ' ');
        }
        if let Some(asked) = &found.asked {
            line(text, asked, set.resident_bytes, '?');
        }
        match &found.recommended {
            Some(best) => {
                line(text, best, set.resident_bytes, '>');
                let _ = writeln!(
                    text,
                    "\nrecommended: memfold run --limit {}M -- PROGRAM\n  saves {} ({:.0} %), as long as the program continues as observed",
                    best.limit_bytes >> 20,
                    human(set.resident_bytes.saturating_sub(best.limit_bytes)),
                    (1.0 - best.limit_bytes as f64 / set.resident_bytes as f64) * 100.0
                );
            }
            None => {
                text.push_str("\nno limit is recommended: too little would be saved, or too much is in use\n")
            }
        }
    } else {
        text.push_str("memory taken if this share is in use and the rest is compressed:\n");
        for (part, bytes) in &found.needs {
            let _ = writeln!(text, "  {:3.0} %  {}", part * 100.0, human(*bytes));
        }
    }
}

fn line(text: &mut String, outlook: &Outlook, resident: u64, mark: char) {
    let _ = writeln!(
        text,
        "{mark} {:<10} {:4.0} %  {:>17}  {:8.0}  {}",
        human(outlook.limit_bytes),
        outlook.limit_bytes as f64 / resident.max(1) as f64 * 100.0,
        slowdown(outlook.slowdown),
        outlook.faults_per_second,
        outlook.log10_exceeds
    );
}

/// A share of time, in words.
pub fn slowdown(part: f64) -> String {
    match part {
        p if p < 0.0005 => "none".into(),
        p if p < 0.1 => format!("{:.1} %", p * 100.0),
        p if p < 1.0 => format!("{:.0} %", p * 100.0),
        p => format!("{:.0} times", 1.0 + p),
    }
}

fn ratio_table(text: &mut String, found: &Analysis) {
    let (sizes, rows) = by_codec(&found.ratios);
    let _ = write!(text, "  {:<12}", "");
    for size in &sizes {
        let _ = write!(text, "  {:>14}", format!("{} KiB", size >> 10));
    }
    text.push_str("    compress, decompress a page\n");
    for (codec, cells) in rows {
        let _ = write!(text, "  {codec:<12}");
        for cell in &cells {
            let _ = write!(text, "  {:>14}", cell.map_or(String::new(), ratio_words));
        }
        if let Some(page) = cells[0] {
            let _ = write!(text, "    {:5.1} µs {:5.1} µs", page.compress_us, page.decompress_us);
        }
        text.push('\n');
    }
}

/// A codec and its results for each block size.
pub type CodecRow<'a> = (&'static str, Vec<Option<&'a Ratio>>);

/// The block sizes, and a row for each codec.
pub fn by_codec(ratios: &[Ratio]) -> (Vec<usize>, Vec<CodecRow<'_>>) {
    let mut sizes: Vec<usize> = ratios.iter().map(|it| it.block_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut codecs: Vec<&'static str> = Vec::new();
    ratios.iter().for_each(|it| {
        if !codecs.contains(&it.codec) {
            codecs.push(it.codec);
        }
    });
    let find = |codec, size| ratios.iter().find(move |it| it.codec == codec && it.block_bytes == size);
    let row = |codec| (codec, sizes.iter().map(|size| find(codec, *size)).collect());
    let rows = codecs.into_iter().map(row).collect();
    (sizes, rows)
}

fn odds(text: &mut String, found: &Analysis) {
    let _ = writeln!(
        text,
        "\nthe chance that the same number of pages of this kind takes more, with {}\n  more than expected        as measured   if pages were independent",
        found.ratios.first().map_or("", |it| it.codec)
    );
    for row in &found.odds {
        let _ = writeln!(
            text,
            "  {:4.1} %  (ratio {:.2})  {:>14}   {:>14}",
            row.margin * 100.0,
            1.0 / row.share,
            row.log10_exceeds.to_string(),
            row.log10_exceeds_independent.to_string()
        );
    }
    let _ = writeln!(
        text,
        "  pages resemble their neighbours: {:.0} of them vary as much as a single independent page (section 6.3 of CRAMES assumes 1)",
        found.dependence.inflation
    );
}
