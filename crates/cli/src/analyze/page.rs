//! The analysis as a page with pictures.
//!
//! Its figures are estimates. One that is no larger than its error is left out, or replaced by what it is below.

use std::fmt::Write;

use memfold_analyze::advice::Outlook;

use super::estimate;
use super::found::Analysis;
use super::human;
use super::text::by_codec;
use crate::output::plot::picture::{self, Bar, Lines};
use crate::output::web;

/// The colours of block sizes.
const COLOURS: [char; 4] = ['a', 'c', 'e', 'f'];

/// The page.
pub fn write(found: &Analysis) -> String {
    let mut body = format!(
        "<h1>{}</h1>\n<p>{} of private memory, {} pages, of which {} were compressed. memfold {}.</p>\n",
        web::escape(&found.what),
        human(found.bytes),
        found.pages,
        found.sampled_pages,
        found.version
    );
    body += &web::headline(&headline(found));
    limits(&mut body, found);
    body += "<h2>How it compresses</h2>\n<p>Original bytes per compressed byte, by codec; the line is the 95 % interval.</p>\n";
    ratios(&mut body, found);
    body += "<h2>Pages, one by one</h2>\n";
    let main = found.ratios.first();
    let mean = main.map_or(1.0, |it| 1.0 / it.ratio);
    let _ = writeln!(
        body,
        "<p>Percentage of pages by compressed size, with {}. All zeros: {}; another repeated word: {}.</p>",
        main.map_or("", |it| it.codec),
        estimate::share_of_pages(found, found.zero_share),
        estimate::share_of_pages(found, found.same_filled_share)
    );
    body += &picture::sizes(&found.size_histogram, mean);
    body += "<h2>What is in the words</h2>\n<p>Words of 32 bits by their bytes, the highest first: z is zero, m is as in one of the 16 words seen last, x is anything else (CRAMES, figure 2).</p>\n";
    let longest = |share: f64| vec![(share, 'a')];
    let bars: Vec<Bar> = found
        .patterns
        .iter()
        .map(|it| Bar {
            name: it.pattern.into(),
            parts: longest(it.share),
            text: estimate::percent(it.share, 0.001),
        })
        .collect();
    body += &picture::bars("Patterns of words", &bars);
    mappings(&mut body, found);
    odds(&mut body, found);
    web::page(&found.what, &body)
}

fn headline(found: &Analysis) -> Vec<(String, &'static str)> {
    let mut figures = Vec::new();
    if let Some(best) = &found.recommended {
        figures.push((format!("{} MiB", best.limit_bytes >> 20), "recommended limit"));
    }
    let known = || found.ratios.iter().filter(|it| estimate::is_known(it.relative_error));
    if let Some(main) = found.ratios.first().filter(|it| estimate::is_known(it.relative_error)) {
        figures.push((format!("{:.2} : 1", main.ratio), "compression, page by page"));
    }
    let best = known().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    if let Some(best) = best {
        figures.push((format!("{:.2} : 1", best.ratio), "the densest of those tried"));
    }
    if let Some(set) = &found.working_set {
        figures.push((format!("{:.0} %", set.idle() * 100.0), "not used while it was watched"));
    }
    figures
}

fn limits(body: &mut String, found: &Analysis) {
    let Some(set) = &found.working_set else {
        *body += "<h2>What it would take</h2>\n<p>How much of it is in use is not known. The table shows what all of it takes if this share stays uncompressed.</p>\n";
        let rows: Vec<Vec<String>> = found
            .needs
            .iter()
            .map(|(part, bytes)| vec![format!("{:.0} %", part * 100.0), human(*bytes)])
            .collect();
        *body += &web::table(&["in use", "takes"], rows);
        return;
    };
    *body += "<h2>Limits, and what they cost</h2>\n";
    match &found.recommended {
        Some(best) => {
            let _ = writeln!(
                body,
                "<pre>memfold run --limit {}M -- PROGRAM</pre>\n<p>keeps {} uncompressed, restores {} pages per second, and costs {} of the time, as long as the program continues as observed.</p>",
                best.limit_bytes >> 20,
                human(best.kept_bytes),
                estimate::rate(best.faults_per_second, set.seconds()),
                estimate::slowdown(best.slowdown)
            );
        }
        None => {
            *body += "<p>No limit is recommended: too little would be saved, or too much is in use.</p>\n"
        }
    }
    let row = |outlook: &Outlook| {
        vec![
            human(outlook.limit_bytes),
            format!("{:.0} %", outlook.limit_bytes as f64 / set.resident_bytes.max(1) as f64 * 100.0),
            human(outlook.kept_bytes),
            estimate::rate(outlook.faults_per_second, set.seconds()),
            estimate::slowdown(outlook.slowdown),
            estimate::chance(outlook.log10_exceeds),
        ]
    };
    let listed = found.limits.iter().map(|it| (it, None));
    let asked = found.asked.iter().map(|it| (it, Some("asked for")));
    let mut all: Vec<_> = listed.chain(asked).collect();
    // If the limit that was asked for is the recommended one, it has one row.
    if let Some(best) = &found.recommended {
        all.retain(|(outlook, _)| outlook.limit_bytes != best.limit_bytes);
        all.push((best, Some("recommended")));
    }
    all.sort_by_key(|(outlook, _)| outlook.limit_bytes);
    *body += &web::marked_table(
        &["limit", "of now", "uncompressed", "faults/s", "slowdown", "chance that it is too low"],
        all.into_iter().map(|(outlook, mark)| (row(outlook), mark)),
    );
    *body += "<h2>What is in use</h2>\n<p>All that was used since the beginning, over time: the flatter the curve, the less has to be restored.</p>\n";
    let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
        .chain(set.points.iter().map(|(at, bytes)| (*at, *bytes as f64)))
        .collect();
    let lines = Lines {
        label: "Working set over time",
        x: (0.0, set.seconds()),
        y: (0.0, set.resident_bytes as f64),
        x_text: &|at| format!("{at:.1} s"),
        y_text: &|bytes| human(bytes as u64),
        lines: vec![('a', points)],
        marks: Vec::new(),
    };
    *body += &lines.draw();
}

fn ratios(body: &mut String, found: &Analysis) {
    let (sizes, rows) = by_codec(&found.ratios);
    let colour =
        |size: usize| sizes.iter().position(|it| *it == size).map_or('b', |at| COLOURS[at % COLOURS.len()]);
    let marks: Vec<_> = rows
        .iter()
        .map(|(codec, cells)| {
            let known = cells.iter().flatten().filter(|it| estimate::is_known(it.relative_error));
            let marks = known.map(|it| (colour(it.block_bytes), it.ratio, it.relative_error));
            ((*codec).to_owned(), marks.collect::<Vec<_>>())
        })
        .collect();
    *body += &picture::ratios(&marks);
    let names: Vec<String> = sizes.iter().map(|size| format!("blocks of {} KiB", size >> 10)).collect();
    let key: Vec<(char, &str)> =
        sizes.iter().zip(&names).map(|(size, name)| (colour(*size), name.as_str())).collect();
    *body += &web::key(&key);
    let mut titles = vec!["codec"];
    titles.extend(names.iter().map(String::as_str));
    titles.extend(["compress a page", "decompress it"]);
    let rows: Vec<Vec<String>> =
        rows.iter()
            .map(|(codec, cells)| {
                let page = cells.first().copied().flatten();
                let time = |us: Option<f64>| us.map_or("".into(), |us| format!("{us:.1} µs"));
                let mut row = vec![(*codec).to_owned()];
                row.extend(cells.iter().map(|cell| {
                    cell.map_or(String::new(), |it| estimate::ratio(it.ratio, it.relative_error))
                }));
                row.extend([time(page.map(|it| it.compress_us)), time(page.map(|it| it.decompress_us))]);
                row
            })
            .collect();
    *body += &web::table(&titles, rows);
}

fn mappings(body: &mut String, found: &Analysis) {
    if found.mappings.len() < 2 {
        return;
    }
    let _ = writeln!(
        body,
        "<h2>Where it is</h2>\n<p>The {} largest of {} mappings{}.</p>",
        found.mappings.len(),
        found.mappings_in_all,
        if found.working_set.is_some() { ", and how much of each was used" } else { "" }
    );
    let bars: Vec<Bar> = found
        .mappings
        .iter()
        .map(|part| {
            let idle = part.idle_share.unwrap_or(0.0);
            let bytes = part.bytes as f64;
            let known = part.ratio.zip(part.relative_error).filter(|(_, error)| estimate::is_known(*error));
            let ratio = known
                .map_or(String::new(), |(ratio, error)| format!(", {} : 1", estimate::ratio(ratio, error)));
            Bar {
                name: memfold_escape::shown(&part.name),
                parts: vec![(bytes * (1.0 - idle), 'a'), (bytes * idle, 'b')],
                text: format!("{}{ratio}", human(part.bytes)),
            }
        })
        .collect();
    *body += &picture::bars("Mappings", &bars);
    if found.working_set.is_some() {
        *body += &web::key(&[('a', "used"), ('b', "idle")]);
    }
}

fn odds(body: &mut String, found: &Analysis) {
    let _ = writeln!(
        body,
        "<h2>The odds</h2>\n<p>How likely it is that the same number of pages of this kind takes more than \
         expected (CRAMES, section 6.3). Pages resemble their neighbours: <b>{:.0}</b> of them vary as much \
         as a single independent page. The last column ignores that, and the sampling error.</p>",
        found.dependence.inflation
    );
    let row = |row: &super::OddsRow| {
        vec![
            format!("{:.1} %", row.margin * 100.0),
            format!("{:.2} : 1", 1.0 / row.share),
            estimate::chance(row.log10_exceeds),
            estimate::chance(row.log10_exceeds_independent),
        ]
    };
    let rows: Vec<_> = found.odds.iter().map(row).collect();
    *body += &web::table(&["more by", "that is", "chance", "if pages were independent"], rows);
}

#[cfg(test)]
mod tests;
