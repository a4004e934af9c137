//! A strict parser of Prometheus's text format.

use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Samples by name.
pub struct Exposition(BTreeMap<String, Vec<(Labels, f64)>>);

impl Exposition {
    /// The sample with exactly these labels.
    #[track_caller]
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Labels =
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.of(name, |of| *of == labels)
    }

    /// The sample in which a label has this value.
    #[track_caller]
    pub fn value_of(&self, name: &str, label: &str, value: &str) -> f64 {
        self.of(name, |of| of.get(label).is_some_and(|is| is == value))
    }

    #[track_caller]
    fn of(&self, name: &str, is_it: impl Fn(&Labels) -> bool) -> f64 {
        let samples = self.0.get(name).unwrap_or_else(|| panic!("there is no {name}"));
        let found: Vec<f64> = samples.iter().filter(|(of, _)| is_it(of)).map(|(_, value)| *value).collect();
        assert_eq!(found.len(), 1, "{name}: {samples:?}");
        found[0]
    }
}

/// Parses the text; panics at any error.
#[track_caller]
pub fn parse(text: &str) -> Exposition {
    assert!(text.ends_with('\n') && !text.contains('\r'));
    let mut all = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(help) = lines.next() {
        let (name, words) = help.strip_prefix("# HELP ").expect(help).split_once(' ').expect(help);
        assert!(is_name(name) && !words.is_empty(), "{help}");
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).expect("its type");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        assert!(["counter", "gauge"].contains(&kind), "{kind}");
        let mut samples: Vec<(Labels, f64)> = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (labels, value) = labels(line.strip_prefix(name).expect(line));
            let value: f64 = value.strip_prefix(' ').expect(line).parse().expect(line);
            assert!(value.is_finite() && (kind == "gauge" || value >= 0.0), "{line}");
            assert!(samples.iter().all(|(of, _)| *of != labels), "twice: {line}");
            samples.push((labels, value));
        }
        assert!(all.insert(name.to_owned(), samples).is_none(), "{name} twice");
    }
    Exposition(all)
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Labels in braces, and the rest of the line.
fn labels(text: &str) -> (Labels, &str) {
    let mut rest = text.strip_prefix('{').expect(text);
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"").expect(rest);
        assert!(is_name(name), "{text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("a quote at the end") {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().map(|(_, c)| c) {
                    Some('n') => '\n',
                    Some(c @ ('\\' | '"')) => c,
                    c => panic!("escaped {c:?} in {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} twice in {text}");
        match after[end..].strip_prefix(',') {
            Some(after) => rest = after,
            None => return (labels, after[end..].strip_prefix('}').expect(text)),
        }
    }
}
