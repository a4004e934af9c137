//! Options that always apply, from files: first the machine's file, then the user's. The command line's
//! options follow and override them.
//!
//! A line contains an option, followed by its value after a blank or '='. Lines that begin with '#' are
//! comments. A mistake in a line that begins with '@' is not an error: the line is ignored. Syntax and
//! options are those of ncdu.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::Parser;
use memfold_args::{Cli, Command, DuArgs};

use crate::output::failure::Failure;

/// The machine's file.
const SYSTEM: &str = "/etc/memfold/du.conf";

/// The options that apply for this command line.
pub fn apply(args: DuArgs, words: &[OsString]) -> Result<DuArgs, Failure> {
    if args.ignore_config {
        return Ok(args);
    }
    let home = absolute("HOME");
    let user = absolute("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let mut options = Vec::new();
    for path in [Some(SYSTEM.into()), user.map(|user| user.join("memfold/du"))].iter().flatten() {
        read(path, home.as_deref(), &mut options)?;
    }
    if options.is_empty() {
        return Ok(args);
    }
    // Skip `memfold du`.
    let (_, given) = words.split_at(words.len().min(2));
    options.extend_from_slice(given);
    parse(&options).map_err(|error| Failure::new(one_line(&error)))
}

/// The directory in a variable, if it holds an absolute path.
fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The options of a file, which need not exist.
fn read(path: &Path, home: Option<&Path>, options: &mut Vec<OsString>) -> Result<(), Failure> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => {
            return Err(Failure::new(format!(
                "cannot read the configuration in '{}': {error}; --ignore-config ignores it",
                memfold_escape::path(path)
            )));
        }
    };
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        let (line, is_optional) =
            line.strip_prefix(b"@").map_or((line, false), |line| (line.trim_ascii(), true));
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let words = words(line, home);
        match check(&words) {
            Ok(()) => options.extend(words),
            Err(_) if is_optional => (),
            Err(why) => {
                return Err(Failure::new(format!(
                    "line {} of '{}': {why}; correct it, put '@' before it to make it optional, or give --ignore-config",
                    number + 1,
                    memfold_escape::path(path)
                )));
            }
        }
    }
    Ok(())
}

/// The words of a line: an option and, possibly, its value.
fn words(line: &[u8], home: Option<&Path>) -> Vec<OsString> {
    let Some(end) = line.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'=')) else {
        return vec![OsStr::from_bytes(line).into()];
    };
    let (option, value) = (&line[..end], line[end + 1..].trim_ascii_start());
    let mut value = value.to_vec();
    if let (b"--exclude" | b"--exclude-from" | b"-X", Some(home)) = (option, home)
        && (value == b"~" || value.starts_with(b"~/"))
    {
        value.splice(..1, home.as_os_str().as_bytes().iter().copied());
    }
    match line[end] {
        // The value may look like an option.
        b'=' => vec![OsString::from_vec([option, b"=", &value].concat())],
        _ => vec![OsStr::from_bytes(option).into(), OsString::from_vec(value)],
    }
}

/// Fails, with the reason, if these words may not be in a file.
fn check(words: &[OsString]) -> Result<(), String> {
    let first = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if !first.starts_with('-') || words.iter().any(|word| word == "--") {
        return Err(format!("'{first}' is not an option"));
    }
    let elsewhere = || format!("'{first}' says what to do, and is allowed only on the command line");
    let args =
        parse(words).map_err(|error| if error.use_stderr() { one_line(&error) } else { elsewhere() })?;
    let files = [&args.import, &args.export, &args.save];
    let does = args.json || args.ignore_config || args.top.is_some() || args.depth.is_some();
    if does || !args.paths.is_empty() || files.iter().any(|file| file.is_some()) {
        return Err(elsewhere());
    }
    let checked =
        super::limit::at_first(&args).map(drop).and_then(|()| super::input::options(&args).map(drop));
    checked.map_err(|failure| failure.text)
}

/// Parses the words after `memfold du`.
fn parse(words: &[OsString]) -> Result<DuArgs, clap::Error> {
    let all = ["memfold", "du"].map(OsString::from);
    match Cli::try_parse_from(all.iter().chain(words))?.command {
        Command::Du(args) => Ok(*args),
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)),
    }
}

/// clap's message without tips and usage, which fit only the command line.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let ends =
        |line: &str| ["tip:", "Usage:", "For more"].iter().any(|word| line.trim_start().starts_with(word));
    let lines = text.lines().take_while(|line| !ends(line));
    let words: Vec<_> = lines.flat_map(str::split_whitespace).skip_while(|&word| word == "error:").collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use memfold_args::du::{Color, Column, May};

    use super::*;

    /// The options that result from files with these contents and a command line.
    fn all(files: &[&str], line: &[&str]) -> Result<DuArgs, Failure> {
        let scratch = tempfile::tempdir().unwrap();
        let mut options = Vec::new();
        for (number, text) in files.iter().enumerate() {
            let path = scratch.path().join(number.to_string());
            std::fs::write(&path, text).unwrap();
            read(&path, Some(Path::new("/my/home")), &mut options)?;
        }
        options.extend(line.iter().map(OsString::from));
        parse(&options).map_err(|error| Failure::new(one_line(&error)))
    }

    #[test]
    fn later_options_override_earlier_ones() {
        let system = "# a comment\n\n  -e \r\n--si\n--color=dark\n--exclude .git\n\t--sort\t name\n-X /dev/null\n-t 3\n-rr";
        let user = "--no-si\n--exclude=-odd = name \n--exclude ~/cache\n--exclude=~\n@--color nothing\n@ --new-option\n@# x\n--hide-graph";
        let args =
            all(&[system, user], &["--sort", "mtime-asc", "--show-graph", "--exclude", "~/x", "/"]).unwrap();
        assert!(args.extended && !args.si && !args.hide_graph);
        assert_eq!((args.color, args.threads), (Some(Color::Dark), Some(3)));
        let sort = args.sort.unwrap();
        assert_eq!((sort.column, sort.descending), (Column::Modified, false));
        assert_eq!(args.exclude, [".git", "-odd = name", "/my/home/cache", "/my/home", "~/x"]);
        assert_eq!(args.exclude_from, [Path::new("/dev/null")]);
        assert_eq!(args.may, May { delete: false, shell: false });
        assert_eq!(args.paths, [Path::new("/")]);
    }

    #[test]
    fn each_option_can_be_given_again_and_undone() {
        for (on, off, is) in [
            ("-e", "--no-extended", (|args| args.extended) as fn(&DuArgs) -> bool),
            ("-x", "--cross-file-system", |args| args.one_file_system),
            ("--exclude-caches", "--include-caches", |args| args.exclude_caches),
            ("--exclude-kernfs", "--include-kernfs", |args| args.exclude_kernfs),
            ("-L", "--no-follow-symlinks", |args| args.follow_symlinks),
            ("-c", "--no-compress", |args| args.compress),
            ("--si", "--no-si", |args| args.si),
            ("--apparent-size", "--disk-usage", |args| args.apparent_size),
            ("--group-directories-first", "--no-group-directories-first", |args| {
                args.group_directories_first
            }),
            ("--disable-natsort", "--enable-natsort", |args| args.disable_natsort),
            ("--hide-hidden", "--show-hidden", |args| args.hide_hidden),
            ("--show-itemcount", "--hide-itemcount", |args| args.show_itemcount),
            ("--show-mtime", "--hide-mtime", |args| args.show_mtime),
            ("--hide-graph", "--show-graph", |args| args.hide_graph),
            ("--show-percent", "--hide-percent", |args| args.show_percent),
            ("--confirm-quit", "--no-confirm-quit", |args| args.confirm_quit),
            ("--no-confirm-delete", "--confirm-delete", |args| args.no_confirm_delete),
            ("--disable-refresh", "--enable-refresh", |args| args.disable_refresh),
            ("-q", "--fast-ui-updates", |args| args.slow),
            ("-1", "-0", |args| args.line),
            ("--disable-delete", "--enable-delete", |args| !args.may.delete),
            ("--disable-shell", "--enable-shell", |args| !args.may.shell),
        ] {
            assert!(is(&all(&[on], &[on]).unwrap()), "{on}");
            assert!(!is(&all(&[on], &[off]).unwrap()), "{off}");
            assert!(is(&all(&[on, off], &[on]).unwrap()), "{on}");
            assert!(!is(&all(&[], &[off]).unwrap()), "{off}");
        }
    }

    #[test]
    fn of_what_switches_deleting_the_last_one_counts() {
        let may = |files: &[&str], line: &[&str]| {
            let May { delete, shell } = all(files, line).unwrap().may;
            (delete, shell)
        };
        assert_eq!(may(&[], &[]), (true, true));
        assert_eq!(may(&["-r"], &[]), (false, true));
        assert_eq!(may(&["-r"], &["-r"]), (false, false));
        assert_eq!(may(&["-rr"], &["--enable-delete"]), (true, false));
        assert_eq!(may(&["-rr"], &["--enable-shell"]), (false, true));
        assert_eq!(may(&["--enable-delete\n--enable-shell"], &["-r"]), (false, true));
        assert_eq!(may(&["--enable-delete\n--enable-shell"], &["-rr"]), (false, false));
        assert_eq!(may(&["-r\n--disable-delete", "--enable-delete"], &[]), (true, true));
        assert_eq!(may(&["--enable-delete", "-r"], &["--disable-shell"]), (false, false));
    }

    #[test]
    fn errors_name_their_file_and_line() {
        for (text, place, what) in [
            ("\n--nosuch", "line 2 of '", "--nosuch"),
            ("--color pink", "line 1 of '", "off, dark, dark-bg"),
            ("--exclude", "line 1", "--exclude"),
            ("--si=yes", "line 1", "yes"),
            ("word", "line 1", "'word' is not an option"),
            ("-e\n-e --", "line 2", "not an option"),
            ("-e /tmp", "line 1", "only on the command line"),
            ("-f x", "line 1", "only on the command line"),
            ("-o-", "line 1", "only on the command line"),
            ("--help", "line 1", "only on the command line"),
            ("--ignore-config", "line 1", "only on the command line"),
            ("--json", "line 1", "only on the command line"),
            ("--limit 1X", "line 1", "--limit 64M"),
            ("-X /nowhere", "line 1", "'/nowhere'"),
        ] {
            let Err(failure) = all(&[text], &[]) else { panic!("{text}") };
            for word in [place, what, "'@'", "--ignore-config"] {
                assert!(failure.text.contains(word), "{text}: {failure}");
            }
            assert!(
                !failure.text.contains("Usage")
                    && !failure.text.contains("tip:")
                    && !failure.text.contains('\n'),
                "{failure}"
            );
            let optional = text.replace("-e\n", "").replace('\n', "\n@");
            let optional = if optional.contains('@') { optional } else { format!("@{optional}") };
            assert!(all(&[&optional], &[]).is_ok(), "{optional}");
        }
    }

    #[test]
    fn files_that_are_not_there_say_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let mut options = Vec::new();
        for name in ["none", "none/below"] {
            read(&scratch.path().join(name), None, &mut options).unwrap();
        }
        assert!(options.is_empty());
        let failure = read(scratch.path(), None, &mut options).unwrap_err();
        assert!(failure.text.contains("--ignore-config"), "{failure}");
    }
}
