//! `--report`: compares every number of the page with the statistics, the raw counters, and other numbers.

mod common;

use roxmltree::{Document, Node};
use serde_json::Value;

use common::{finish, python, run_with, stats};

/// A report: its page, and the numbers in it.
struct Report {
    page: String,
    numbers: Value,
    stats: Value,
}

/// Runs a program with a report and statistics, and checks its status.
fn report(limit: &str, words: &[&str], status: i32) -> Report {
    let here = tempfile::tempdir().unwrap();
    let (json, html) = (here.path().join("s.json"), here.path().join("r.html"));
    let options = ["--limit", limit, "--stats", json.to_str().unwrap(), "--report", html.to_str().unwrap()];
    let said = finish(run_with(&options, words));
    assert_eq!(said.status, status, "{}", said.err);
    let page = std::fs::read_to_string(&html).unwrap();
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"numbers\">").unwrap();
    let numbers = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    Report { page, numbers, stats: stats(&json) }
}

fn sum(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
}

fn largest(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).max().unwrap()
}

impl Report {
    #[track_caller]
    fn number(&self, at: &str) -> u64 {
        let value = self.numbers.pointer(at).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("{at} is not a number: {:?}", self.numbers.pointer(at)))
    }

    fn list(&self, at: &str) -> &Vec<Value> {
        self.numbers.pointer(at).unwrap().as_array().unwrap()
    }

    /// Sum of a field over a list.
    fn sum_of(&self, list: &str, field: &str) -> u64 {
        self.list(list).iter().map(|row| row[field].as_u64().unwrap()).sum()
    }

    fn advice(&self, about: &str) -> bool {
        self.list("/advice").iter().any(|advice| advice["about"] == about)
    }

    /// Checks the invariants of every report. `cut` is the number of faults and pages that may be missing
    /// because a process was killed while it was counting.
    #[track_caller]
    fn check(&self, cut: u64) {
        assert_eq!(self.numbers["stats"], self.stats, "the file of --stats says the same");
        self.check_page();
        self.check_time();
        self.check_faults(cut);
        self.check_processes();
    }

    fn check_time(&self) {
        let time = &self.numbers["time"];
        let count = time["resident_bytes"].as_array().unwrap().len();
        assert!((1..=384).contains(&count));
        for (name, values) in time.as_object().unwrap().iter().filter(|(_, values)| values.is_array()) {
            assert_eq!(values.as_array().unwrap().len(), count, "{name}");
        }
        let (step, wall) =
            (time["step_seconds"].as_f64().unwrap(), self.stats["wall_seconds"].as_f64().unwrap());
        assert!(
            (count - 1) as f64 * step <= wall + 0.5 && count as f64 * step > wall - step,
            "{count} {step} {wall}"
        );
        let at = |name: &str, step: usize| time[name][step].as_u64().unwrap();
        for step in 0..count {
            let parts = ["program", "standby", "payload", "overhead", "unmanaged"];
            let parts: u64 = parts.iter().map(|part| at(&format!("{part}_bytes"), step)).sum();
            assert_eq!(parts, at("resident_bytes", step));
        }
        for name in ["pages_faulted", "pages_rescued", "pages_compressed"] {
            assert_eq!(sum(&time[name]), self.number(&format!("/stats/{name}")), "{name}");
        }
        // A process waits for no longer than the time. At its end, some microseconds may be counted too late.
        let most = step * 1e9 * self.number("/stats/processes") as f64;
        for waited in time["stalled_ns"].as_array().unwrap() {
            assert!(waited.as_f64().unwrap() <= most * 1.001, "{waited} in {step} s");
        }
        for name in ["stalled", "throttled"] {
            let all = self.stats[format!("{name}_seconds")].as_f64().unwrap();
            assert!((sum(&time[format!("{name}_ns")]) as f64 / 1e9 - all).abs() < 1e-6, "{name}");
        }
        // Processes also see peaks between two samples, and a short process may have no sample.
        for name in ["resident", "logical"] {
            let (peak, seen) =
                (self.number(&format!("/stats/peak_{name}_bytes")), largest(&time[format!("{name}_bytes")]));
            assert!(seen <= peak && (seen + (4 << 20)) * 10 >= peak * 8, "{name}: {seen} of {peak}");
        }
        assert!(self.number("/peak_saved_bytes") <= self.number("/stats/peak_logical_bytes"));
        assert_eq!(time["limit_bytes"][count - 1], self.stats["limit_bytes"]);
    }

    fn check_faults(&self, cut: u64) {
        let (timed, seen) = (self.number("/faults/timed"), self.number("/faults/seen"));
        let lost = self.number("/faults/events_lost");
        assert_eq!(self.sum_of("/faults/density", "faults"), timed);
        assert!(seen <= timed && seen + lost + cut >= timed, "{seen} of {timed}, {lost} lost");
        // A fault may find that its page is already resident. Such a fault is timed, but restores nothing.
        let faulted = self.number("/stats/pages_faulted");
        assert!(faulted <= timed + cut && timed <= faulted + faulted / 50 + 20, "{faulted} {timed}");
        for (name, stat) in [("p50_us", "p50"), ("p99_us", "p99"), ("max_us", "max")] {
            assert_eq!(self.numbers["faults"][name], self.stats["fault_us"][stat]);
        }
        let order = ["p50_us", "p90_us", "p99_us", "p99_9_us", "max_us"];
        let order: Vec<_> = order.iter().filter_map(|name| self.numbers["faults"][name].as_f64()).collect();
        assert!(order.is_sorted() && order.len() == if timed > 0 { 5 } else { 0 });
        let cells = self.list("/latency/columns").iter().flat_map(|column| column.as_array().unwrap());
        assert_eq!(cells.map(|cell| cell[1].as_u64().unwrap()).sum::<u64>(), seen);

        let compressed = self.number("/stats/pages_compressed");
        // The sizes include incompressible pages, although those are not stored.
        let tried = compressed + self.number("/stats/pages_incompressible");
        let sizes =
            ["zeros", "repeated"].map(|name| self.number(&format!("/sizes/{name}"))).iter().sum::<u64>();
        let sizes = sizes + sum(&self.numbers["sizes"]["pages"]);
        assert!(sizes <= tried && sizes + cut * 32 >= tried, "{sizes} {tried}");
        assert_eq!(self.list("/sizes/pages").last(), self.numbers.pointer("/sizes/incompressible"));

        let (mut faults, mut went) =
            (self.number("/space/faults_left_out"), self.number("/space/pages_compressed_left_out"));
        let columns = self.list("/time/resident_bytes").len().div_ceil(3);
        let mut last = None;
        for row in self.list("/space/rows") {
            let cells: Vec<[u64; 3]> = serde_json::from_value(row["cells"].clone()).unwrap();
            assert!(
                cells.is_sorted_by(|a, b| a[0] < b[0]) && cells.iter().all(|cell| cell[0] < columns as u64)
            );
            let sums = cells.iter().fold([0, 0], |sum, cell| [sum[0] + cell[1], sum[1] + cell[2]]);
            assert_eq!(
                [&row["faults"], &row["pages_compressed"]],
                [&Value::from(sums[0]), &Value::from(sums[1])]
            );
            assert!(row["address"].as_u64().unwrap().is_multiple_of(self.number("/space/block_bytes")));
            let place = (row["pid"].as_u64(), row["address"].as_u64());
            assert!(
                last.is_none_or(|last: (Option<u64>, Option<u64>)| last.0 != place.0 || last.1 < place.1)
            );
            (faults, went, last) = (faults + sums[0], went + sums[1], Some(place));
        }
        assert_eq!(faults, seen);
        assert!(went <= compressed && (lost > 0 || went + cut * 32 >= compressed), "{went} of {compressed}");

        let pages = self.list("/pages/list");
        assert!(pages.is_sorted_by(|a, b| a["faults"].as_u64() >= b["faults"].as_u64()));
        let error = self.number("/pages/error");
        assert!(pages.iter().all(|page| {
            page["faults_at_most"].as_u64().unwrap() == page["faults"].as_u64().unwrap() + error
        }));
        assert!(self.sum_of("/pages/list", "faults") <= seen && (seen == 0) == pages.is_empty());
        assert!(pages.iter().all(|page| page["address"].as_u64().unwrap().is_multiple_of(4096)));
    }

    fn check_processes(&self) {
        for name in ["pages_faulted", "pages_compressed"] {
            let left_out = self.number(&format!("/processes_left_out/{name}"));
            assert_eq!(
                self.sum_of("/processes", name) + left_out,
                self.number(&format!("/stats/{name}")),
                "{name}"
            );
        }
        assert_eq!(self.sum_of("/processes", "pages_rescued"), self.number("/stats/pages_rescued"));
        let listed = self.list("/processes").len() as u64 + self.number("/processes_left_out/count");
        assert_eq!(listed, self.number("/stats/processes"));
        let wall = self.stats["wall_seconds"].as_f64().unwrap();
        for process in self.list("/processes") {
            let (from, to) = (process["from_seconds"].as_f64().unwrap(), process["to_seconds"].as_f64());
            assert!(to.is_none_or(|to| from <= to && to < wall + 0.5) && from < wall + 0.5, "{process}");
        }
        let stalled: f64 =
            self.list("/processes").iter().map(|it| it["stalled_seconds"].as_f64().unwrap()).sum();
        assert!((stalled - self.stats["stalled_seconds"].as_f64().unwrap()).abs() < 1e-6);
        let share = self.numbers["stall_share"].as_f64().unwrap();
        assert!((share - stalled / wall).abs() < 1e-9);
    }

    /// Checks that the page is well-formed and self-contained, and that its text agrees with its JSON.
    fn check_page(&self) {
        let page = &self.page;
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        // The namespace of a drawing is a name, not an address from which something is loaded.
        let named = page.replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
        for outside in ["http", "src=", "url(", "@import", "<link"] {
            assert!(!named.contains(outside), "{outside}");
        }
        assert!(page.len() < 1 << 20, "{}", page.len());
        let main = &page[page.find("<main>").unwrap()..page.find("</main>").unwrap() + "</main>".len()];
        let document = Document::parse(main).unwrap();
        let data: Vec<Node> = document.descendants().filter(|node| node.has_tag_name("data")).collect();
        assert!(data.len() > 30, "{}", data.len());
        for node in data {
            let (at, raw) = (node.attribute("data-at").unwrap(), node.attribute("value").unwrap());
            let wanted = self.numbers.pointer(at).unwrap_or_else(|| panic!("{at} is not in the JSON"));
            let raw: f64 = raw.parse().unwrap();
            // Parsing JSON may be off in the last bit.
            let wanted = wanted.as_f64().unwrap();
            assert!((raw - wanted).abs() <= wanted.abs() * 1e-15, "{at}: {raw}, {wanted}");
            let text = node.text().unwrap();
            let (said, by) = said(text);
            assert!((said - raw * unit(at)).abs() <= by, "{at}: {text} for {raw}");
        }
        // Tables contain no numbers except these, and shares that follow from them.
        let cells = document.descendants().filter(|node| node.has_tag_name("td"));
        for cell in cells.filter(|cell| cell.descendants().all(|node| !node.has_tag_name("data"))) {
            let text: String = cell.descendants().filter_map(|node| node.text()).collect();
            let is_words = !text.starts_with(|c: char| c.is_ascii_digit()) || text.ends_with('%');
            assert!(is_words || text.contains("MiB"), "{text}");
        }
        let drawings: Vec<Node> = document.descendants().filter(|node| node.has_tag_name("svg")).collect();
        assert!(!drawings.is_empty());
        for svg in drawings {
            // It can be a file of its own: nothing in it refers to the page's style.
            assert_eq!(svg.tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
            assert!(["width", "height", "viewBox"].iter().all(|name| svg.attribute(*name).is_some()));
            let mut values = svg.descendants().flat_map(|node| node.attributes()).map(|it| it.value());
            assert!(!values.any(|value| value.contains("var(")));
            for node in
                svg.descendants().filter(|node| node.has_tag_name("path") || node.has_tag_name("text"))
            {
                assert!(node.attribute("fill").is_some() || node.attribute("stroke").is_some(), "{node:?}");
            }
            assert!(svg.attribute("aria-label").is_some_and(|label| !label.is_empty()));
            assert!(
                !svg.descendants()
                    .any(|node| node.attribute("d").is_some_and(|d| d.contains("NaN") || d.contains("inf")))
            );
        }
        for about in self.list("/advice") {
            assert!(page.contains(&format!("<li data-about=\"{}\">", about["about"].as_str().unwrap())));
        }
    }
}

/// The unit of the text relative to the JSON, where shares are fractions of one, and fault times are in
/// microseconds.
fn unit(at: &str) -> f64 {
    match at {
        "/stall_share" => 100.0,
        _ if at.contains("_us") => 1e-6,
        _ => 1.0,
    }
}

/// A number in text, and its possible rounding error in the last digit shown.
fn said(text: &str) -> (f64, f64) {
    if let Some(digits) = text.strip_prefix("0x") {
        return (u64::from_str_radix(digits, 16).unwrap() as f64, 0.0);
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    let (number, rest) = (text[..end].replace(',', ""), text[end..].replace('\u{a0}', " "));
    let factor = match rest.as_str() {
        " KiB" => 1024.0,
        " MiB" => 1024f64.powi(2),
        " GiB" => 1024f64.powi(3),
        " ms" => 1e-3,
        " µs" => 1e-6,
        "" | " bytes" | " byte" | " s" | " %" | " : 1" => 1.0,
        other => panic!("what is '{other}'?"),
    };
    let digits = number.split_once('.').map_or(0, |(_, digits)| digits.len() as i32);
    (number.parse::<f64>().unwrap() * factor, factor * 10f64.powi(-digits) * 0.5001)
}

/// Holds this many MiB of text-like data, touches some parts more often than others, and ends.
const LOAD: &str = r#"
import hashlib, os, random, sys
random.seed(5)
# First and not lazily: whatever the machine does meanwhile, the rest can't be made without evicting most of them.
zeros = bytearray(16 << 20)
zeros[::4096] = bytes(4096)
blocks, noise = [], []
for i in range(16 * int(sys.argv[1])):
    blocks.append(bytearray(b"".join(b"line %08d of block %06d: %s\n" % (j, i, hashlib.md5(b"%d" % (i * 1000 + j)).hexdigest()[:8].encode()) for j in range(1560))))
    # Between text: what is random as a whole is left alone without a try.
    noise.append(os.urandom(8 << 10))
total = 0
for _ in range(4000):
    block = blocks[min(random.randrange(len(blocks)), random.randrange(len(blocks)))]
    total += block[random.randrange(len(block))]
total += sum(page[4096] for page in noise) + sum(zeros[::4096])
sys.stdout.flush()
exec(sys.argv[2])
"#;

#[test]
fn a_program_over_its_limit() {
    let Some(python) = python() else { return };
    let report = report("36M", &[python, "-c", LOAD, "40", "pass"], 0);
    report.check(0);
    assert!(report.number("/faults/timed") > 500 && report.number("/stats/pages_compressed") > 2000);
    let (zeros, incompressible) = (report.number("/sizes/zeros"), report.number("/sizes/incompressible"));
    assert!(zeros > 100 && incompressible > 100, "{zeros} {incompressible}");
    assert!(report.number("/peak_saved_bytes") > 4 << 20);
    assert_eq!(report.list("/processes").len(), 1);
    let process = &report.list("/processes")[0];
    assert_eq!(process["state"], "managed");
    assert!(process["command"].as_str().unwrap().contains("python"));
    assert!(process["peak_resident_bytes"].as_u64() <= report.stats["peak_resident_bytes"].as_u64());
    let named = report.list("/space/rows").iter().filter(|row| row["mapping"].is_string()).count();
    assert!(named * 2 > report.list("/space/rows").len(), "{named} have names");
    // The page has a picture for each of these.
    for id in ["memory", "stall", "rate", "density", "latency", "space", "sizes"] {
        assert!(report.page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn a_tree_of_processes() {
    let Some(python) = python() else { return };
    let end = "
pids = [os.fork() or [sum(block[7] for block in blocks), os._exit(0)] for _ in range(2)]
import subprocess
for _ in range(5): subprocess.run(['true'])
for pid in pids: os.waitpid(pid, 0)";
    let report = report("40M", &[python, "-c", LOAD, "40", end], 0);
    report.check(0);
    assert!(report.list("/processes").len() >= 3, "{:?}", report.list("/processes"));
    let first = report.list("/processes")[0]["pid"].as_i64();
    let children = report.list("/processes").iter().filter(|it| it["parent"].as_i64() == first);
    assert!(children.filter(|child| child["to_seconds"].is_f64()).count() >= 2);
    assert!(report.page.contains("class=\"life\""));
}

#[test]
fn faults_are_where_the_program_touches() {
    let Some(python) = python() else { return };
    const TOUCH: &str = r#"
import ctypes, mmap
size = 64 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
for at in range(0, size, 4096): memory[at:at + 4096] = (b"%d, " % at) * (4096 // len(b"%d, " % at)) + bytes(4096 % len(b"%d, " % at))
for _ in range(2):
    for at in range(0, size, 4096): memory[at]
"#;
    let here = tempfile::tempdir().unwrap();
    let html = here.path().join("r.html");
    let said =
        finish(run_with(&["--limit", "40M", "--report", html.to_str().unwrap()], &[python, "-c", TOUCH]));
    assert_eq!(said.status, 0, "{}", said.err);
    let start: u64 = said.out.trim().parse().unwrap();
    let page = std::fs::read_to_string(&html).unwrap();
    let json = page.split_once("id=\"numbers\">").unwrap().1.split_once("</script>").unwrap().0;
    let numbers: Value = serde_json::from_str(json).unwrap();
    let block = numbers["space"]["block_bytes"].as_u64().unwrap();
    let (mut inside, mut all, mut named) = (0, 0, false);
    for row in numbers["space"]["rows"].as_array().unwrap() {
        let (address, faults) = (row["address"].as_u64().unwrap(), row["faults"].as_u64().unwrap());
        let is_inside = address + block > start && address < start + (64 << 20);
        (inside, all) = (inside + if is_inside { faults } else { 0 }, all + faults);
        // The mapping may have merged with its neighbours.
        let mib =
            row["mapping"].as_str().and_then(|name| name.strip_prefix("[anonymous] ")?.split(' ').next());
        let mib = mib.and_then(|size| size.parse::<f64>().ok()).unwrap_or(0.0);
        named |= is_inside && (64.0..96.0).contains(&mib);
    }
    assert!(all > 200 && inside * 10 > all * 6, "{inside} of {all}");
    assert!(named, "no row has the mapping's name");
}

#[test]
fn a_short_program_far_from_its_limit() {
    let report = report("1G", &["sh", "-c", "sleep 0.2; exit 3"], 3);
    report.check(0);
    assert_eq!((report.number("/faults/timed"), report.list("/space/rows").len()), (0, 0));
    assert!(report.advice("unneeded"), "{}", report.numbers["advice"]);
    assert!(!report.page.contains("id=\"latency\"") && report.page.contains("id=\"memory\""));
    self::report("1G", &["true"], 0).check(0);
}

#[test]
fn a_program_that_is_killed() {
    let Some(python) = python() else { return };
    let report = report("36M", &[python, "-c", LOAD, "40", "os.kill(os.getpid(), 9)"], 137);
    report.check(4);
    assert!(report.page.contains("ended by signal 9"));
    assert!(report.number("/faults/timed") > 500);
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_start() {
    let here = tempfile::tempdir().unwrap();
    let ran = here.path().join("ran");
    for file in [here.path().join("no/such/place.html"), here.path().to_owned()] {
        let options = ["--limit", "1G", "--report", file.to_str().unwrap()];
        let said = finish(run_with(&options, &["touch", ran.to_str().unwrap()]));
        said.is_refusal(125, &["--report", file.to_str().unwrap()]);
    }
    assert!(!ran.exists());
}

#[test]
fn markup_in_arguments_stays_text() {
    let report = report("1G", &["sh", "-c", "exit 0", "</script><b>&amp;\"'`x`"], 0);
    report.check(0);
    assert!(!report.page.contains("</script><b>"));
    let words = report.numbers["stats"]["command"][3].as_str().unwrap();
    assert_eq!(words, "</script><b>&amp;\"'`x`");
}
