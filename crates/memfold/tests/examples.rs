//! Compiles and runs the examples as a user would: in a crate outside of this workspace that depends only on
//! memfold and on the crates that the examples name.
//!
//! Examples are all blocks of Rust in README.md, docs/*.md and the crate's documentation. A block without a
//! `main` is the body of a function that returns a `Result`. `no_run` only compiles a block, and `ignore`
//! leaves it out (for pieces of memfold's own sources). Documentation tests would not do: they can use all
//! dependencies of memfold.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example and its place.
struct Example {
    file: PathBuf,
    /// The number of its first line.
    line: usize,
    text: String,
    runs: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// All examples in a text. A block without a language is Rust in documentation comments, but not in Markdown.
fn examples(file: &Path, text: &str) -> Vec<Example> {
    let is_source = file.extension().is_some_and(|name| name == "rs");
    let mut found: Vec<Example> = Vec::new();
    let mut block: Option<Option<Example>> = None;
    for (number, line) in text.lines().enumerate() {
        let line = if is_source {
            let Some(comment) =
                line.trim_start().strip_prefix("///").or(line.trim_start().strip_prefix("//!"))
            else {
                assert!(block.is_none(), "{}:{number}: a block has no end", file.display());
                continue;
            };
            comment.strip_prefix(' ').unwrap_or(comment)
        } else {
            line
        };
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if let Some(Some(example)) = &mut block {
                let line = if is_source && line == "#" { "" } else { line };
                let line = if is_source { line.strip_prefix("# ").unwrap_or(line) } else { line };
                example.text += line;
                example.text += "\n";
            }
            continue;
        };
        if let Some(ended) = block.take() {
            found.extend(ended);
            continue;
        }
        let mut words = language.split(',');
        let is_rust = match words.next() {
            Some("rust") => true,
            Some("" | "no_run" | "ignore") => is_source,
            _ => false,
        };
        let says = |word: &str| language.split(',').any(|said| said == word);
        let is_known = language.split(',').all(|word| ["", "rust", "no_run", "ignore"].contains(&word));
        assert!(!is_rust || is_known, "{}:{}: {language} is not known here", file.display(), number + 1);
        block = Some((is_rust && !says("ignore")).then(|| Example {
            file: file.to_owned(),
            line: number + 2,
            text: String::new(),
            runs: !says("no_run"),
        }));
    }
    assert!(block.is_none(), "{}: a block has no end", file.display());
    found
}

/// All files below a directory with this extension, in order.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path, end));
        } else if path.extension().is_some_and(|name| name == end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn all() -> Vec<Example> {
    let root = root();
    let mut from = vec![root.join("README.md")];
    from.extend(files(&root.join("docs"), "md"));
    from.extend(files(&root.join("crates/memfold/src"), "rs"));
    from.iter()
        .flat_map(|file| examples(file.strip_prefix(&root).unwrap(), &fs::read_to_string(file).unwrap()))
        .collect()
}

/// The module of an example. Its lines have the same numbers as in the file, so that the compiler's messages
/// lead there.
fn module(example: &Example) -> String {
    let Example { text, line, .. } = example;
    let mut module = "\n".repeat(line - 2);
    let last = text.trim_end().lines().last().unwrap_or_default();
    if text.contains("fn main()") {
        write!(module, "\n{text}\npub fn run() {{ crate::Outcome::check(main()) }}\n").unwrap();
    } else if last.starts_with("Ok::<") {
        write!(module, "pub fn run() {{ crate::Outcome::check((|| {{\n{text}\n}})()) }}\n").unwrap();
    } else {
        let result = "Result<(), Box<dyn std::error::Error>>";
        write!(
            module,
            "pub fn run() {{ crate::Outcome::check((|| -> {result} {{\n{text}\nOk(())\n}})()) }}\n"
        )
        .unwrap();
    }
    module
}

const MAIN: &str = r#"
#![allow(dead_code, unused_variables, unused_must_use, clippy::all)]

/// What an example ends with.
pub trait Outcome {
    fn check(self);
}

impl Outcome for () {
    fn check(self) {}
}

impl<E: std::fmt::Debug> Outcome for Result<(), E> {
    fn check(self) {
        self.unwrap()
    }
}
"#;

/// Features that README.md names in its lines for `Cargo.toml`.
fn features() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, lines) = text.split_once("```toml\n").expect("lines for Cargo.toml");
    let (lines, _) = lines.split_once("```").unwrap();
    let list = lines.lines().find(|line| line.starts_with("memfold =")).expect("memfold is named");
    let (_, list) = list.split_once("features = [").expect("features are named");
    let (list, _) = list.split_once(']').unwrap();
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

/// The profile with which this test was built, and the target directory.
fn built() -> (String, PathBuf) {
    let program = std::env::current_exe().unwrap();
    let directory = program.ancestors().nth(2).unwrap();
    let name = directory.file_name().unwrap().to_str().unwrap();
    let profile = if name == "debug" { "dev" } else { name };
    (profile.to_owned(), directory.parent().unwrap().to_owned())
}

#[test]
fn blocks_are_found() {
    let text = "a\n```rust\nlet x = 1;\n```\n```sh\nls\n```\n   ```rust,no_run\n   y\n   ```\n```rust,ignore\nz\n```\n```\nplain\n```\n";
    let found = examples(Path::new("a.md"), text);
    let seen: Vec<_> = found.iter().map(|it| (it.line, it.text.trim(), it.runs)).collect();
    assert_eq!(seen, [(3, "let x = 1;", true), (9, "y", false)]);
    let source = "//! ```\n//! # use a;\n//! b\n//! #\n//! ```\nfn f() {}\n    /// ```text\n    /// no\n    /// ```\n    /// ```no_run\n    /// c\n    /// ```\n";
    let found = examples(Path::new("a.rs"), source);
    let seen: Vec<_> = found.iter().map(|it| (it.line, it.text.as_str(), it.runs)).collect();
    assert_eq!(seen, [(2, "use a;\nb\n\n", true), (11, "c\n", false)]);
}

/// For `make test-all`.
mod slow {
    use super::*;

    #[test]
    fn all_examples_compile_in_a_users_crate_and_run() {
        let (root, examples) = (root(), all());
        let of = |name: &str| examples.iter().filter(|example| example.file.starts_with(name)).count();
        // Notices if this file no longer finds all examples.
        assert!(of("README.md") >= 1 && of("docs") >= 9 && of("crates") >= 15, "{}", examples.len());

        let (profile, target) = built();
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("src");
        fs::create_dir(&source).unwrap();
        let (mut main, mut calls) = (String::from(MAIN), String::new());
        for example in &examples {
            let place = format!("{}_{}", example.file.display(), example.line);
            let name: String =
                place.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            fs::write(source.join(format!("{name}.rs")), module(example)).unwrap();
            writeln!(main, "#[allow(non_snake_case)] mod {name};").unwrap();
            if example.runs {
                writeln!(calls, "    println!({place:?});\n    {name}::run();").unwrap();
            }
        }
        write!(main, "fn main() {{\n{calls}}}\n").unwrap();
        fs::write(source.join("main.rs"), main).unwrap();

        // The same profiles and versions as in the workspace, so that its dependencies need not be built again.
        // Only memfold's crates are, without optimisation.
        let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let profiles = &workspace[workspace.find("[profile.").unwrap()..];
        let path = |name: &str| root.join("crates").join(name).display().to_string();
        let mut manifest = format!(
            "[package]\nname = \"memfold-examples\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\nmemfold = {{ path = {:?}, features = {:?} }}\n\
         # An example of the feature serde.\nserde = \"1\"\nserde_json = \"1\"\ntempfile = \"3\"\n\n{profiles}\n",
            path("memfold"),
            features(),
        );
        for name in ["memfold", "memfold-codec", "memfold-spill", "memfold-proc", "memfold-examples"] {
            writeln!(manifest, "[profile.{profile}.package.{name}]\nopt-level = 0\n").unwrap();
        }
        fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
        fs::copy(root.join("Cargo.lock"), directory.path().join("Cargo.lock")).unwrap();

        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(directory.path()).env("CARGO_TARGET_DIR", &target);
        let output = cargo.args(["run", "--quiet", "--offline", "--profile", &profile]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the last one that began: {:?}\n{errors}", said.lines().last());
        let ran = examples.iter().filter(|example| example.runs).count();
        assert!(said.lines().count() >= ran, "{said}");
    }
}
