use std::collections::HashMap;

use memfold_analyze::depend::Dependence;
use memfold_analyze::idle::WorkingSet;
use memfold_analyze::odds::Chance;

use super::*;
use crate::analyze::found::{OddsRow, Part, Pattern, Ratio};
use crate::output::plot::paint;

fn outlook(mib: u64, faults_per_second: f64, chance: f64) -> Outlook {
    Outlook {
        limit_bytes: mib << 20,
        kept_bytes: mib << 19,
        faults_per_second,
        slowdown: faults_per_second * 1e-5,
        log10_exceeds: Chance(chance),
    }
}

fn analysis() -> Analysis {
    let ratio = |codec, ratio, relative_error| Ratio {
        codec,
        block_bytes: 4096,
        ratio,
        relative_error,
        compress_us: 2.0,
        decompress_us: 1.0,
        raw_share: 0.0,
    };
    let part = |name: &[u8], relative_error| Part {
        name: name.into(),
        start: 4096,
        bytes: 9 << 20,
        ratio: Some(3.25),
        relative_error,
        idle_share: Some(0.5),
    };
    Analysis {
        version: "0",
        kind: "process",
        what: "<prog> & \"co\"".into(),
        pages: 50_000,
        bytes: 50_000 << 12,
        sampled_pages: 3000,
        sampling_seconds: 1.0,
        seconds: 5.0,
        zero_share: 0.2,
        same_filled_share: 0.0,
        patterns: vec![Pattern { pattern: "zzzz", share: 0.7 }, Pattern { pattern: "zzmx", share: 0.0001 }],
        pbpm_codes: Vec::new(),
        ratios: vec![ratio("lz4", 2.5, 0.02), ratio("zstd:1", 4.5, 1.0)],
        mappings: vec![part(b"[heap]", Some(0.1)), part(b"<b>", Some(1.0)), part(b"c", None)],
        mappings_in_all: 3,
        size_histogram: vec![100.0 / 64.0; 64],
        dependence: Dependence { correlations: Vec::new(), inflation: 10.0 },
        odds: vec![OddsRow {
            margin: 0.1,
            share: 0.5,
            log10_exceeds: Chance(-4.0),
            log10_exceeds_independent: Chance(-400.0),
        }],
        working_set: Some(WorkingSet {
            resident_bytes: 200 << 20,
            points: vec![(2.0, 50 << 20), (4.0, 60 << 20)],
            by_mapping: HashMap::new(),
        }),
        limits: vec![
            outlook(40, 5000.0, -0.1),
            outlook(80, 20.0, -3.0),
            outlook(160, 0.0, f64::NEG_INFINITY),
        ],
        recommended: Some(outlook(95, 0.1, -300.0)),
        asked: Some(outlook(100, 0.1, -300.0)),
        needs: Vec::new(),
    }
}

fn page_of(found: &Analysis) -> String {
    write(found).replace('\u{a0}', " ")
}

/// The text of each cell of a table's row.
fn cells(page: &str, first: &str) -> Vec<String> {
    let at = page.find(&format!("<td>{first}")).unwrap_or_else(|| panic!("no row {first}"));
    let row = &page[at..at + page[at..].find("</tr>").unwrap()];
    row.split("<td>").skip(1).map(|cell| cell.trim_end_matches("</td>").to_owned()).collect()
}

#[test]
fn the_recommended_row_is_marked_and_in_its_place() {
    let page = page_of(&analysis());
    assert!(page.contains("<tr class=\"recommended\"><td>95 MiB <b class=\"tag\">recommended</b></td>"));
    assert!(page.contains("<tr class=\"asked-for\"><td>100 MiB <b class=\"tag\">asked for</b></td>"));
    let place = |limit: &str| page.find(&format!("<td>{limit}")).unwrap();
    let places = ["40 MiB", "80 MiB", "95 MiB", "100 MiB", "160 MiB"].map(place);
    assert!(places.is_sorted(), "{places:?}");
    // The recommended limit, if it is also the one asked for or a listed one, has one row.
    let same = Analysis { asked: Some(outlook(95, 0.1, -300.0)), ..analysis() };
    assert_eq!(page_of(&same).matches("<td>95 MiB").count(), 1);
    assert!(!page_of(&Analysis { recommended: None, ..analysis() }).contains("<tr class=\"recommended\""));
}

#[test]
fn figures_no_larger_than_their_error_are_left_out() {
    let page = page_of(&analysis());
    assert_eq!(cells(&page, "80 MiB")[3..], ["20", "less than 0.05 %", "5.0 %"]);
    assert_eq!(cells(&page, "95 MiB")[3..], ["less than 0.3", "less than 0.05 %", "less than 10^-9"]);
    assert_eq!(cells(&page, "10.0 %")[2..], ["1.8 %", "less than 10^-9"]);
    assert_eq!(cells(&page, "lz4")[1..2], ["2.50 ± 0.05"]);
    assert_eq!(cells(&page, "zstd:1")[1..2], ["not known"]);
    // Neither a mark nor a headline for the one that is not known.
    assert_eq!(page.matches("<circle").count(), 1);
    assert!(!page.contains("4.50 : 1") && page.contains("2.50 : 1"));
    assert!(page.contains("9 MiB, 3.25 ± 0.33 : 1") && page.matches("9 MiB<").count() == 2);
    // 3,000 pages are worth 300, of which 20 % were zeros: 1.96 deviations are 4.4 %.
    assert!(page.contains("All zeros: 20.0 ± 4.4 %; another repeated word: less than 1 %."));
    assert!(page.contains(">less than 0.1 %<"));
}

#[test]
fn each_picture_is_a_file_of_its_own_and_scrolls_in_its_own_box() {
    let page = page_of(&analysis());
    let bodies = page.split("<svg").skip(1).map(|part| part.split_once("</svg>").unwrap().0);
    let all: Vec<String> = bodies.map(|body| format!("<svg{body}</svg>")).collect();
    assert_eq!((all.len(), page.matches("<div class=\"picture\"><svg").count()), (5, 5));
    all.iter().for_each(|svg| drop(paint::check_alone(svg)));
    assert_eq!(page.matches("<table").count(), page.matches("<div class=\"wide\"><table").count());
}
