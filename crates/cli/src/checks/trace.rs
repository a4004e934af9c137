//! Explains why a process's memory may not be read, and how to fix it.

use std::io::{Error, ErrorKind};

use memfold_escape::shown;
use memfold_proc::process;
use nix::errno::Errno;

use super::machine::Machine;
use super::remedies;
use crate::output::failure::Failure;

/// The message for the user; `again` is the command that root would run.
pub fn refused(pid: i32, error: &Error, again: &str) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            return Failure::new(format!("there is no process {pid}; 'ps -e' lists all processes"));
        }
        ErrorKind::PermissionDenied => {}
        _ if error.raw_os_error() == Some(Errno::ESRCH as i32) => return no_memory(pid),
        _ => return Failure::new(format!("cannot read the memory of process {pid}: {error}")),
    }
    let name = shown(&process::name(pid).unwrap_or_default());
    let own = nix::unistd::geteuid();
    let user = process::user(pid).unwrap_or(own.as_raw());
    let scope = memfold_proc::number("/proc/sys/kernel/yama/ptrace_scope").unwrap_or(0);
    let remedy = if own.is_root() {
        "a container or a security module prevents it: run memfold outside of the container, or give the container SYS_PTRACE".to_owned()
    } else if user != own.as_raw() {
        format!("it belongs to user {user}: try {}", as_root(again))
    } else if scope > 0 {
        format!(
            "kernel.yama.ptrace_scope denies access even to your own processes: try {}, or allow it until the next reboot: {}",
            as_root(again),
            as_root("sysctl -w kernel.yama.ptrace_scope=0")
        )
    } else {
        format!("it has more privileges than you, or forbids tracing: try {}", as_root(again))
    };
    Failure::new(format!("you may not read the memory of process {pid} ({name}); {remedy}"))
}

/// The command as this user can run it with root's rights.
fn as_root(command: &str) -> String {
    remedies::as_root(&Machine::new(), command)
}

/// The message for a process without memory of its own.
pub fn no_memory(pid: i32) -> Failure {
    Failure::new(format!("process {pid} has no memory of its own: it has ended, or it is part of the kernel"))
}
