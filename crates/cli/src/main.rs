//! The `memfold` command.
//!
//! `analyze` estimates whether compression would help; `run` starts a program with the preload library and
//! stays as its supervisor; `limit` changes the limit of a running tree; `top` shows the running trees;
//! `doctor` reports what the machine offers; `bench` measures codecs; `du` shows what uses the space on a
//! disk; `disk` provides a compressed disk in memory. All figures about memory and faults of running trees
//! come from the shared page (`memfold_shared::page`).
//!
//! ```text
//! memfold_args ──> run ──> settings, checks (is anything refused?)
//!                   ├────> run/spawn (the program), spill (serves its spilled memory)
//!                   ├────> supervisor ──> tree + shared page, sampled
//!                   └────> report (statistics, closing line, page)
//! memfold_args ──> trees (top, limit), checks/doctor, analyze, bench, disk, du
//! all of them  ──> output, sys
//! ```
//!
//! There is no Rust `main`: the standard library's start-up code ignores SIGPIPE and opens closed standard
//! descriptors, and the program that memfold starts would inherit both.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code))]

#[cfg(feature = "analyze")]
mod analyze;
#[cfg(feature = "bench")]
mod bench;
mod checks;
#[cfg(feature = "disk")]
mod disk;
mod du;
mod output;
mod report;
mod run;
mod settings;
mod spill;
mod supervisor;
mod sys;
mod trees;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use memfold_args::{Cli, Command};

use crate::output::failure::{FAILED, say};

/// The entry point that the C library calls.
#[cfg(not(test))]
// SAFETY: this is the one definition of `main` in the program, with the signature that the C library calls.
#[unsafe(no_mangle)]
extern "C" fn main(count: std::ffi::c_int, words: *const *const std::ffi::c_char) -> std::ffi::c_int {
    use std::os::unix::ffi::OsStrExt;
    let words = (0..usize::try_from(count).unwrap_or(0))
        // SAFETY: the C library hands over `count` pointers to strings that end with zero and live as long as
        // the process.
        .map(|i| unsafe { std::ffi::CStr::from_ptr(*words.add(i)) })
        .map(|word| std::ffi::OsStr::from_bytes(word.to_bytes()).to_owned())
        .collect();
    command(words)
}

/// A panic in any thread ends the whole command: the other threads may wait for that one, or rely on it.
fn end_at_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Runs the command and returns the exit status.
fn command(words: Vec<OsString>) -> i32 {
    end_at_panics();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = settings::cpu::heed_environment().and_then(|()| match cli.command {
        Command::Run(args) => run::run(args),
        Command::Doctor(args) => checks::doctor::doctor(&args),
        #[cfg(feature = "analyze")]
        Command::Analyze(args) => analyze::analyze(&args),
        Command::Limit(args) => trees::limit::limit(&args),
        Command::Top(args) => trees::top::top(&args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::bench(&args),
        #[cfg(feature = "disk")]
        Command::Disk(args) => disk::disk(&args),
        Command::Du(args) => du::du(*args, &words),
        #[cfg(not(all(feature = "analyze", feature = "bench", feature = "disk")))]
        _ => Err(output::failure::Failure::new(
            "this memfold was built without that command; 'make install', or 'cargo install' with the default features, builds all of them",
        )),
    });
    result.unwrap_or_else(|failure| {
        say(&failure.text);
        failure.status
    })
}

/// Help goes to standard output. A usage error goes to standard error as one paragraph, with the exit status of
/// every failure before a program starts.
fn usage(error: &clap::Error) -> i32 {
    let text = error.render().to_string();
    if !error.use_stderr() {
        let mut out = std::io::stdout();
        return match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => 0,
            Err(error) => {
                say(&format!("standard output: {error}"));
                FAILED
            }
        };
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        say(
            "nothing to do; try 'memfold run --limit 512M -- PROGRAM', 'memfold top', 'memfold analyze PID', 'memfold doctor', 'memfold bench FILE', 'memfold du DIR', 'memfold disk --help' or 'memfold --help'",
        );
        return FAILED;
    }
    if error.kind() == clap::error::ErrorKind::InvalidUtf8 {
        say(
            "an argument is not UTF-8: only paths, targets, patterns and the program's own arguments may contain other bytes",
        );
        return FAILED;
    }
    let tip = tip(error).map_or(String::new(), |tip| format!("; tip: {tip}"));
    say(&(one_line(&text) + &tip));
    FAILED
}

/// A hint for slips that clap does not recognize.
fn tip(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let all = <Cli as clap::CommandFactory>::command();
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word),
        _ => None,
    };
    let has_tip = |kind| error.get(kind).is_some();
    match error.kind() {
        ErrorKind::InvalidSubcommand if !has_tip(ContextKind::SuggestedSubcommand) => {
            let word = word(ContextKind::InvalidSubcommand)?;
            let names = all.get_subcommands().map(clap::Command::get_name);
            let (distance, name) = names.map(|name| (strsim::osa_distance(name, word), name)).min()?;
            (distance <= 1).then(|| format!("a similar subcommand exists: '{name}'"))
        }
        // `memfold --limit 512M -- PROGRAM`.
        ErrorKind::UnknownArgument if !has_tip(ContextKind::SuggestedArg) => {
            let option = word(ContextKind::InvalidArg)?;
            let name = option.split('=').next()?.strip_prefix("--")?;
            let is_of_run =
                all.find_subcommand("run")?.get_arguments().any(|one| one.get_long() == Some(name));
            is_of_run.then(|| format!("it is an option of 'run': memfold run {option} ..."))
        }
        _ => None,
    }
}

/// Joins the paragraphs of an error message into one sentence.
fn one_line(text: &str) -> String {
    let text = text.replace("\n  tip: ", "\n\n  tip: ");
    let paragraphs = text.trim_start_matches("error: ").split("\n\n");
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<String> = paragraphs.map(words).filter(|part| !part.is_empty()).collect();
    let plain = |part: &String| match part.as_str() {
        "For more information, try '--help'." => "--help says more".to_owned(),
        _ => part.replacen("Usage: ", "usage: ", 1),
    };
    parts.iter().map(plain).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test runs itself once more, as the process that panics.
    #[test]
    fn a_panic_in_any_thread_ends_the_command() {
        use std::os::unix::process::ExitStatusExt;
        const PANICS: &str = "MEMFOLD_TEST_PANICS";
        if std::env::var_os(PANICS).is_some() {
            end_at_panics();
            let _ = std::thread::spawn(|| panic!("as it should")).join();
            std::process::exit(0);
        }
        let test = "tests::a_panic_in_any_thread_ends_the_command";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let output = again.args(["--exact", test]).env(PANICS, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(nix::libc::SIGABRT), "{output:?}");
    }

    #[test]
    fn a_mistake_is_one_sentence() {
        let text = "error: unexpected argument '--frob' found\n\n  tip: a similar argument exists: '--from'\n  tip: to pass '--frob' as a value, use '-- --frob'\n\nUsage: memfold du [DIR]...\n\nFor more information, try '--help'.\n";
        assert_eq!(
            one_line(text),
            "unexpected argument '--frob' found; tip: a similar argument exists: '--from'; tip: to pass '--frob' as a value, use '-- --frob'; usage: memfold du [DIR]...; --help says more"
        );
    }
}
