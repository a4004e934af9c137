use std::time::{Duration, Instant};

use super::fields::{Advice, Block, Density, Page};
use super::*;
use crate::output::plot::paint;
use crate::report::record::steps::Gauges;
use crate::report::seen::Seen;
use crate::report::stats::tests::stats;
use crate::settings::Settings;
use crate::settings::shared_page::SharedPage;

/// The page of a constructed run, of which a test changes the numbers.
fn page_of(change: impl FnOnce(&mut Numbers)) -> String {
    let shared = SharedPage::new(&Settings::example()).unwrap().page;
    let mut stats = stats(shared, &Seen { wall: Duration::from_secs(1), ..Seen::default() });
    stats.pages_compressed = 9000;
    stats.blocks_evicted = 40;
    let begin = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    let mut records = Records::new(begin);
    let gauges = Gauges { resident: 9 << 20, program: 9 << 20, logical: 20 << 20, ..Gauges::default() };
    records.drain(shared, begin + Duration::from_secs(1), false);
    records.note(shared, |_| None, begin + Duration::from_secs(1), Gauges { limit: 10 << 20, ..gauges });
    records.end();
    let mut numbers = Numbers::new(shared, &stats, &records);
    (numbers.faults.timed, numbers.faults.seen) = (2000, 2000);
    (numbers.faults.p50_us, numbers.faults.max_us) = (Some(6.0), Some(900.0));
    numbers.faults.density = vec![Density { from_us: 4.0, to_us: 1000.0, faults: 2000 }];
    numbers.latency.columns = vec![vec![(4, 1500)], Vec::new(), vec![(9, 500)]];
    let block = |address, mapping: &str| Block {
        pid: Some(7),
        address,
        mapping: Some(mapping.into()),
        faults: 1000,
        pages_compressed: 3,
        cells: vec![(0, 1000, 3)],
    };
    numbers.space.rows = vec![block(2 << 20, "<a> & \"b\""), block(8 << 20, "[heap]")];
    numbers.sizes.zeros = 100;
    numbers.pages.list = [(25, 4096), (8, 8192)]
        .map(|(faults, address)| Page {
            pid: Some(7),
            address,
            mapping: None,
            faults,
            faults_at_most: faults,
        })
        .into();
    change(&mut numbers);
    write(&numbers)
}

fn svgs(page: &str) -> Vec<String> {
    let bodies = page.split("<svg").skip(1).map(|part| part.split_once("</svg>").unwrap().0);
    bodies.map(|body| format!("<svg{body}</svg>")).collect()
}

#[test]
fn each_drawing_is_a_file_of_its_own() {
    let page = page_of(|_| ());
    let all = svgs(&page);
    assert_eq!(all.len(), 7);
    for svg in &all {
        let document = paint::check_alone(svg);
        let label = document.root_element().attribute("aria-label").unwrap();
        let words: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(words.contains(&label) && words.len() > 3, "{words:?}");
    }
}

#[test]
fn counts_no_larger_than_their_error_are_left_out() {
    let exact = page_of(|_| ());
    assert!(exact.contains("id=\"pages\"") && exact.contains("0x1000") && exact.contains("0x2000"));
    let error = |numbers: &mut Numbers, error: u64| {
        numbers.pages.error = error;
        numbers.pages.list.iter_mut().for_each(|page| page.faults_at_most = page.faults + error);
    };
    let some = page_of(|numbers| error(numbers, 10));
    assert!(some.contains("0x1000") && !some.contains("0x2000"));
    assert!(
        some.contains(">25</data> – <data data-at=\"/pages/list/0/faults_at_most\" value=\"35\">35</data>")
    );
    assert!(some.contains("<td>1.25\u{a0}% – 1.75\u{a0}%</td>"));
    let none = page_of(|numbers| error(numbers, 25));
    assert!(!none.contains("id=\"pages\"") && none.contains("Faults by page are not shown"));
}

#[test]
fn the_recommended_limit_is_marked() {
    let limit_bytes = Some(71 << 20);
    let page =
        page_of(|numbers| numbers.advice = vec![Advice { about: "raise", text: "try".into(), limit_bytes }]);
    assert!(page.contains(
        "<tr class=\"recommended\"><th scope=\"row\">Limit to try <b class=\"tag\">recommended</b></th>"
    ));
    let none =
        page_of(|numbers| numbers.advice = vec![Advice { about: "cpu", text: "".into(), limit_bytes: None }]);
    assert!(!none.contains("<tr class=\"recommended\""));
}

#[test]
fn small_figures_are_not_shown_as_none() {
    let text =
        |html: String| html.split_once('>').unwrap().1.split_once('<').unwrap().0.replace('\u{a0}', " ");
    let percents = [0.0, 0.5, 0.001, 0.000_45, 0.000_002].map(|share| text(percent("", share)));
    assert_eq!(percents, ["0.00 %", "50.00 %", "0.10 %", "0.045 %", "0.00020 %"]);
    assert_eq!([0.0, 2e-6, 0.02, 3.0].map(|it| text(seconds("", it))), ["0", "2.0 µs", "20.0 ms", "3.00 s"]);
}

#[test]
fn a_phone_shows_the_page_at_its_own_width() {
    let page = page_of(|_| ());
    assert!(page.contains("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"));
    // What may be wider than the screen scrolls in a box of its own.
    assert_eq!(page.matches("<table").count(), page.matches("<div class=\"wide\"><table").count());
}
