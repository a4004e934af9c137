//! `--show`: how much memory programs are told that there is. The preload library shows it where programs ask the
//! C library (`interpose/shown` of the runtime); here it is chosen, and told to language runtimes whose sizes are
//! options.
//!
//! | variable | what is set | unless there is |
//! | --- | --- | --- |
//! | `NODE_OPTIONS` | `--max-old-space-size`, 3/4 of it in MiB, added | that option, or less than 256 MiB |
//! | `GOMEMLIMIT` | 9/10 of it | any value |
//! | `DOTNET_GCHeapHardLimit` | 3/4 of it | a hard limit of .NET's, by any of its names |
//!
//! A variable that the user has set keeps its value. V8 never limits itself to less than 256 MiB, so it is told
//! nothing below that. The JVM needs no option, since it reads the files; and `JAVA_TOOL_OPTIONS` would make it
//! print a line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use memfold::size::{self, Human};
use memfold_proc::{cgroup, memory};
use memfold_shared::page::{self, show};

use super::limit::AUTO;
use crate::output::failure::Failure;

const OFF: &str = "off";
/// The least heap that V8 takes as its limit by itself, in MiB.
const LEAST_OF_NODE: u64 = 256;

/// The value for the shared page.
pub(super) fn show(text: Option<&str>, limit_is_auto: bool) -> Result<u64, Failure> {
    let Some(text) = text else {
        let is_limited = limit_is_auto && cgroup::own().is_some_and(|group| group.limit.is_some());
        return Ok(if is_limited { show::AUTO } else { show::OFF });
    };
    match text.trim() {
        AUTO => return Ok(show::AUTO),
        OFF => return Ok(show::OFF),
        _ => {}
    }
    const HOW: &str = "give a size like --show 2G, or --show auto, or --show off";
    let size = size::parse(text)
        .map_err(|why| Failure::new(format!("the size '{text}' that programs are to see {why}; {HOW}")))?;
    let bytes = size.of(memory::usable().unwrap_or(0));
    if !(page::SMALLEST_LIMIT..=page::LARGEST_LIMIT).contains(&bytes) {
        return Err(Failure::new(format!(
            "the size '{text}' ({}) that programs are to see is not between {} and what machines have; {HOW}",
            Human(bytes),
            Human(page::SMALLEST_LIMIT)
        )));
    }
    Ok(bytes)
}

/// The variables that language runtimes are told by, for programs that see this much.
pub fn environment(shown: u64, user: impl Fn(&str) -> Option<OsString>) -> Vec<(&'static str, OsString)> {
    let mut told = Vec::new();
    const NODE: &str = "NODE_OPTIONS";
    let options = user(NODE).unwrap_or_default();
    let mib = (shown / 4 * 3) >> 20;
    if mib > LEAST_OF_NODE && !limits_node(&options) {
        let mut options = options;
        let space = if options.is_empty() { "" } else { " " };
        options.push(format!("{space}--max-old-space-size={mib}"));
        told.push((NODE, options));
    }
    const GO: &str = "GOMEMLIMIT";
    if user(GO).is_none() {
        told.push((GO, (shown / 10 * 9).to_string().into()));
    }
    const DOTNET: [&str; 4] = [
        "DOTNET_GCHeapHardLimit",
        "DOTNET_GCHeapHardLimitPercent",
        "COMPlus_GCHeapHardLimit",
        "COMPlus_GCHeapHardLimitPercent",
    ];
    if DOTNET.iter().all(|name| user(name).is_none()) {
        // .NET reads it as a hexadecimal number.
        told.push((DOTNET[0], format!("{:x}", shown / 4 * 3).into()));
    }
    told
}

/// Whether options of node limit its heap; node reads `_` as `-`.
fn limits_node(options: &OsStr) -> bool {
    let options: Vec<u8> =
        options.as_bytes().iter().map(|byte| if *byte == b'_' { b'-' } else { *byte }).collect();
    let name = b"--max-old-space-size";
    options.windows(name.len()).any(|part| part == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(show(Some("auto"), false), Ok(show::AUTO));
        assert_eq!(show(Some("off"), true), Ok(show::OFF));
        assert_eq!(show(Some("2G"), true), Ok(2 << 30));
        assert_eq!(show(None, false), Ok(show::OFF));
        for (text, word) in
            [("much", "not a size"), ("1M", "not between"), ("10E", "not between"), ("0", "zero")]
        {
            let failure = show(Some(text), true).unwrap_err();
            assert!(failure.text.contains(word), "{failure}");
        }
    }

    #[test]
    fn runtimes_get_the_variables_that_the_user_has_not_set() {
        let text = |user: &[(&str, &str)]| -> Vec<String> {
            let get =
                |name: &str| user.iter().find(|(has, _)| *has == name).map(|(_, value)| (*value).into());
            environment(800 << 20, get)
                .into_iter()
                .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
                .collect()
        };
        let go = "GOMEMLIMIT=754974720";
        let dotnet = "DOTNET_GCHeapHardLimit=25800000";
        assert_eq!(text(&[]), ["NODE_OPTIONS=--max-old-space-size=600", go, dotnet]);
        assert_eq!(
            text(&[("NODE_OPTIONS", "--no-warnings")]),
            ["NODE_OPTIONS=--no-warnings --max-old-space-size=600", go, dotnet]
        );
        assert!(environment(300 << 20, |_| None).iter().all(|(name, _)| *name != "NODE_OPTIONS"));
        for own in
            ["--max-old-space-size=100", "--max_old_space_size=9000 -x", "--max-old-space-size-percentage=5"]
        {
            assert_eq!(text(&[("NODE_OPTIONS", own)]), [go, dotnet]);
        }
        assert_eq!(
            text(&[("GOMEMLIMIT", "off"), ("COMPlus_GCHeapHardLimit", "1")]),
            ["NODE_OPTIONS=--max-old-space-size=600"]
        );
    }
}
