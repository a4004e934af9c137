//! `memfold limit`: shows, raises and lowers the limit of a running tree.

use std::process::{Command, Stdio};

use crate::common::{MEMFOLD, Said, finish, stats, until};
use crate::program::{Program, as_another_user, gone, tree};

const MIB: u64 = 1 << 20;

fn limit(words: &[&str]) -> Said {
    let mut command = Command::new(MEMFOLD);
    command.arg("limit").args(words).stdin(Stdio::null());
    finish(command)
}

#[test]
fn the_limit_is_shown_raised_lowered_and_kept() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("stats.json");
    let program = Program::start("200M", 40, "idle", Some(&path));
    let supervisor = program.supervisor();
    assert_eq!(limit(&[&supervisor]).out, "200 MiB\n");
    let member = tree(&supervisor)["processes"][0]["pid"].to_string();
    assert_eq!(limit(&[&member]).out, "200 MiB\n");

    let said = limit(&[&member, "0.5G"]);
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    assert!(
        said.out.starts_with("the limit of 'python3 -c ")
            && said.out.contains(&format!("(supervisor {supervisor})"))
    );
    assert!(said.out.contains(") is now 512 MiB, previously 200 MiB; "), "{}", said.out);
    assert_eq!(limit(&[&supervisor]).out, "512 MiB\n");
    let before = tree(&supervisor);
    assert!(before["resident_bytes"].as_u64() > Some(40 * MIB) && before["payload_bytes"] == 0, "{before}");

    assert_eq!(limit(&[&supervisor, "24M"]).status, 0);
    until("the lower limit holds", || tree(&supervisor)["resident_bytes"].as_u64() <= Some(24 * MIB));
    let after = tree(&supervisor);
    assert_eq!(after["limit_bytes"], 24 * MIB);
    assert!(after["saved_bytes"].as_i64() > Some(15 << 20), "{after}");
    program.end();
    let stats = stats(&path);
    assert_eq!(
        (&stats["limit_bytes"], &stats["over_limit_bytes"]),
        (&(24 * MIB).into(), &0.into()),
        "{stats}"
    );
    assert!(stats["pages_compressed"].as_u64() > Some(15 * 256), "{stats}");
}

#[test]
fn impossible_arguments_are_refused() {
    let own = std::process::id().to_string();
    limit(&[&own]).is_refusal(125, &[&own, "does not run under memfold", "memfold run --limit"]);
    limit(&[&own, "300M"]).is_refusal(125, &["does not run under memfold"]);
    let gone = gone();
    limit(&[&gone]).is_refusal(125, &["there is no process", &gone]);
    limit(&["0"]).is_refusal(125, &["PID"]);
    limit(&["redis"]).is_refusal(125, &["redis", "not the number of a process"]);
    // A wrong size is reported even if there is no such process.
    limit(&[&own, "5x"]).is_refusal(125, &["the limit '5x' is not a size", "512M"]);
    limit(&[&own, "-1M"]).is_refusal(125, &["-1M"]);
    limit(&[&own, "1M"]).is_refusal(125, &["less than memfold itself needs", "8 MiB"]);
    limit(&[&own, "101%"]).is_refusal(125, &["is too large"]);
    limit(&[]).is_refusal(125, &["PID"]);
}

#[test]
fn a_bad_size_leaves_it_as_it_was() {
    let program = Program::start("200M", 1, "idle", None);
    limit(&[&program.supervisor(), "7M"]).is_refusal(125, &["at least 8 MiB"]);
    assert_eq!(limit(&[&program.supervisor()]).out, "200 MiB\n");
    program.end();
}

#[test]
fn another_users_program_is_his() {
    let here = tempfile::tempdir_in("/tmp").unwrap();
    let program = Program::start("200M", 1, "idle", None);
    let supervisor = program.supervisor();
    let member = tree(&supervisor)["processes"][0]["pid"].to_string();
    for pid in [&supervisor, &member] {
        let Some(mut command) = as_another_user(here.path()) else { return };
        command.args(["limit", pid, "100M"]);
        finish(command).is_refusal(125, &["runs under memfold for user 0", "as root"]);
    }
    assert_eq!(limit(&[&supervisor]).out, "200 MiB\n");
    program.end();
}
