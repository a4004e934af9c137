//! Man pages: the definition of each command, and text written by hand.

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use memfold_args::disk::columns as disk;
use memfold_args::top::columns;

use crate::{definition, help};

/// For each command: its name, and what its page contains after the options.
const WRITTEN: [(&str, &str, &str); 9] = [
    ("memfold", "memfold COMMAND [OPTIONS]", include_str!("man/memfold.man")),
    ("memfold-run", "memfold run [OPTIONS] [--] CMD [ARG]...", include_str!("man/run.man")),
    (
        "memfold-analyze",
        "memfold analyze [OPTIONS] PID\nmemfold analyze [OPTIONS] CORE\nmemfold analyze [OPTIONS] FILE...",
        include_str!("man/analyze.man"),
    ),
    ("memfold-limit", "memfold limit PID [SIZE|auto]", include_str!("man/limit.man")),
    (
        "memfold-top",
        "memfold top [OPTIONS] [PID]\nmemfold top \\-\\-json [OPTIONS] [PID]\nmemfold top \\-\\-prometheus [PID]\nmemfold top \\-\\-listen [ADDRESS:]PORT [PID]",
        include_str!("man/top.man"),
    ),
    ("memfold-doctor", "memfold doctor [OPTIONS]", include_str!("man/doctor.man")),
    (
        "memfold-bench",
        "memfold bench [OPTIONS] FILE...\nmemfold bench --capture PID -o FILE [OPTIONS]",
        include_str!("man/bench.man"),
    ),
    (
        "memfold-disk",
        "memfold disk --size SIZE --socket PATH [OPTIONS] [-- NBDKIT-OPTIONS]\nmemfold disk --size SIZE --mount DIR [OPTIONS]\nmemfold disk status [OPTIONS] [NAME]...",
        include_str!("man/disk.man"),
    ),
    ("memfold-du", "memfold du [OPTIONS] [DIR]\nmemfold du [OPTIONS] -f FILE", include_str!("man/du.man")),
];

/// Paragraphs of help that begin with these words have a section of their own.
const ELSEWHERE: [&str; 3] = ["Example", "Exit status", "Options that always apply"];

/// The heading above options that undo others, and a sentence about them.
const UNDO: (&str, &str) =
    ("Undoing options", "Each of these undoes an option in a configuration file, or one before it.");

/// The names and contents of the pages.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let command = definition::command();
    std::iter::once(&command).chain(command.get_subcommands()).map(page).collect()
}

fn page(command: &Command) -> (String, Vec<u8>) {
    let name = command.get_display_name().unwrap_or("memfold").to_owned();
    let written = WRITTEN.iter().find(|(of, ..)| *of == name);
    let (_, usage, written) = written.unwrap_or_else(|| panic!("there is no man/*.man for {name}"));
    let man = Man::new(command.clone().override_usage(*usage));
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH {} 1 \"\" \"memfold {version}\" \"User Commands\"\n", name.to_uppercase());
    page += &name_section(&name, command);
    page += &rendered(|to| man.render_synopsis_section(to));
    page += &description(command);
    if command.has_subcommands() {
        page += &rendered(|to| man.render_subcommands_section(to)).replace(".SH SUBCOMMANDS", ".SH COMMANDS");
    }
    page += &options(command, &man);
    for line in written.lines() {
        match line {
            "@KEYS@" => page += &keys(),
            "@FLAGS@" => page += &flags(),
            "@COLUMNS@" => page += &columns(),
            "@STATUS@" => page += &status(command),
            "@TREE@" => page += &list(&columns::TREE, "18"),
            "@TOP-KEYS@" => page += &list(&[&columns::KEYS[..], &columns::CHANGES].concat(), "18"),
            _ => page.extend([line, "\n"]),
        }
    }
    (name, page.into_bytes())
}

/// The output of one of clap_mangen's functions.
fn rendered(render: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail, and the output is text.
    render(&mut text).unwrap();
    plain(&String::from_utf8(text).unwrap())
}

/// Removes the definition of the apostrophe string that roff repeats each time: groff and mandoc both know
/// apostrophes by name.
fn plain(text: &str) -> String {
    let definition = Roff::new().render();
    text.strip_prefix(&definition).unwrap_or(text).replace(r"\*(Aq", r"\(aq").replace(".br\n\n.br\n", ".sp\n")
}

fn name_section(name: &str, command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.split_once(": ").map_or(&*about, |(first, _)| first);
    let (first, rest) = about.split_at(about.len().min(1));
    let mut roff = Roff::new();
    roff.control("SH", ["NAME"]).text([roman(format!("{name} - {}{rest}", first.to_lowercase()))]);
    plain(&roff.render())
}

/// The text of help before and after the options.
fn description(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]).text([roman(about + ".")]);
    for paragraph in after.split("\n\n").filter(|text| !text.is_empty()) {
        if !ELSEWHERE.iter().any(|word| paragraph.starts_with(word)) {
            roff.control("PP", []).text([roman(paragraph)]);
        }
    }
    plain(&roff.render())
}

/// One section; the headings of help become its parts.
fn options(command: &Command, man: &Man) -> String {
    let headings = command.get_arguments().filter_map(|arg| arg.get_help_heading()).collect::<Vec<_>>();
    let text = rendered(|to| man.render_options_section(to));
    let mut all = String::new();
    for line in text.lines() {
        let heading = line.strip_prefix(".SH ").map(|heading| heading.trim_matches('"'));
        let part = heading.and_then(|heading| headings.iter().find(|known| known.to_uppercase() == heading));
        match part {
            Some(&part) if part == UNDO.0 => all.extend([".SS \"", part, "\"\n", UNDO.1, "\n"]),
            Some(part) => all.extend([".SS \"", part, "\"\n"]),
            None => all.extend([line, "\n"]),
        }
    }
    all
}

/// A list of terms and their meanings; lines without a term become paragraphs after it.
fn list(lines: &[(&str, &str)], columns: &str) -> String {
    let mut roff = Roff::new();
    roff.control("PD", ["0"]);
    for (thing, meaning) in lines {
        match thing.is_empty() {
            true => roff.control("PD", []).control("PP", []).text([roman(*meaning)]),
            false => roff.control("TP", [columns]).text([bold(*thing)]).text([roman(*meaning)]),
        };
    }
    plain(&roff.control("PD", []).render())
}

/// The lines of a tab of the browser's help.
fn tab(name: &str) -> &'static [(&'static str, &'static str)] {
    help::lines(help::TABS.iter().position(|tab| *tab == name).unwrap())
}

fn keys() -> String {
    list(tab("Keys"), "18")
}

fn flags() -> String {
    let lines = tab("Format");
    list(&lines[lines.iter().position(|(flag, _)| !flag.is_empty()).unwrap_or(0)..], "4")
}

/// The options and columns of `memfold disk status`.
fn status(command: &Command) -> String {
    let status = command.find_subcommand("status").unwrap();
    let options = status.get_arguments().filter(|arg| !arg.is_positional()).map(|arg| {
        let short = arg.get_short().map_or(String::new(), |short| format!("-{short}, "));
        let value = arg.get_action().takes_values().then(|| arg.get_value_names()).flatten();
        let value = value.map_or(String::new(), |names| format!(" {}", names[0]));
        (format!("{short}--{}{value}", arg.get_long().unwrap()), arg.get_help().unwrap().to_string() + ".")
    });
    let columns =
        disk::COLUMNS.iter().map(|column| (column.name.to_owned(), capital(column.definition) + "."));
    let written = |lines: Vec<(String, String)>| {
        list(&lines.iter().map(|(thing, meaning)| (&**thing, &**meaning)).collect::<Vec<_>>(), "18")
    };
    let shown = disk::SHOWN.map(|is| is.column().name).join(", ");
    let about = format!("Columns, of which these are shown if none are named: {shown}.\n");
    written(options.collect()) + ".PP\n" + &about + &written(columns.collect())
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(text.len().min(1));
    first.to_uppercase() + rest
}

/// The columns of `memfold top`.
fn columns() -> String {
    let columns = columns::COLUMNS.iter().map(|column| (column.title, column.definition));
    list(&columns.chain(columns::BELOW).collect::<Vec<_>>(), "18")
}
