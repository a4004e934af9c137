//! Seccomp filters that memfold itself was started under (a container, systemd's `SystemCallFilter=`).
//!
//! A filter may kill a process that makes a call, and only a trial can tell. So a child tries every call that
//! the supervisor and the runtime make, with arguments that change nothing. If the child dies, another child
//! continues with the next call. The parent makes no call before a child has tried it, except two: starting a
//! child and waiting for it. A child can try the second. If the first is fatal, memfold could not start
//! anything anyway.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;

use memfold_shared::calls::{CALLS, Call, TO_SHOW, USERFAULTFD};
use memfold_shared::filters::{BY_DEVICE_ONLY, Status};
use nix::libc;

use crate::output::failure::Failure;
use crate::sys::signals::ChildrenKept;
use crate::sys::{self, Trial};

const NO: usize = usize::MAX;

/// The other calls that the supervisor makes: `man 2 NAME`.
fn own() -> Vec<Call> {
    let call = |name, number: libc::c_long, arguments| Call { name, number: number as usize, arguments };
    vec![
        call("ftruncate", libc::SYS_ftruncate, [NO, 0, 0, 0, 0, 0]),
        call("signalfd4", libc::SYS_signalfd4, [NO, 0, 0, NO, 0, 0]),
        call("rt_sigtimedwait", libc::SYS_rt_sigtimedwait, [0; 6]),
        call("getpgid", libc::SYS_getpgid, [NO, 0, 0, 0, 0, 0]),
        call("pipe2", libc::SYS_pipe2, [0; 6]),
        call("kcmp", libc::SYS_kcmp, [NO, NO, 0, 0, 0, 0]),
        call("clone3", libc::SYS_clone3, [0; 6]),
        call("set_robust_list", libc::SYS_set_robust_list, [0; 6]),
        call("sigaltstack", libc::SYS_sigaltstack, [0; 6]),
        call("lseek", libc::SYS_lseek, [NO, 0, 0, 0, 0, 0]),
        call("getrandom", libc::SYS_getrandom, [0; 6]),
        call("clock_nanosleep", libc::SYS_clock_nanosleep, [NO, 0, 0, 0, 0, 0]),
        call("getrusage", libc::SYS_getrusage, [NO, 0, 0, 0, 0, 0]),
        call("getuid", libc::SYS_getuid, [0; 6]),
        call("geteuid", libc::SYS_geteuid, [0; 6]),
        call("getgid", libc::SYS_getgid, [0; 6]),
        call("getcwd", libc::SYS_getcwd, [0; 6]),
        call("faccessat", libc::SYS_faccessat, [NO, 0, 0, 0, 0, 0]),
        call("newfstatat", libc::SYS_newfstatat, [NO, 0, 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        call("poll", libc::SYS_poll, [NO, NO, 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        call("readlink", libc::SYS_readlink, [0; 6]),
        #[cfg(target_arch = "x86_64")]
        call("access", libc::SYS_access, [0; 6]),
    ]
}

/// The calls of the page server (`run/page_server.rs`).
fn door() -> Vec<Call> {
    let call =
        |name, number: libc::c_long| Call { name, number: number as usize, arguments: [NO, 0, 0, 0, 0, 0] };
    vec![
        call("socket", libc::SYS_socket),
        call("bind", libc::SYS_bind),
        call("listen", libc::SYS_listen),
        call("accept4", libc::SYS_accept4),
        call("getsockopt", libc::SYS_getsockopt),
        call("setsockopt", libc::SYS_setsockopt),
        call("recvfrom", libc::SYS_recvfrom),
        call("sendmsg", libc::SYS_sendmsg),
    ]
}

/// The result.
pub struct Proven {
    /// What the shared page tells the runtime about the filters.
    pub filters: u32,
    /// Sockets may be used.
    pub may_listen: bool,
}

/// Tries every call if there is a filter.
pub fn prove() -> Result<Proven, Failure> {
    let own = File::open("/proc/self/status")
        .ok()
        .and_then(|mut file| Status::read(|piece| file.read(piece).unwrap_or(0)));
    let Some(status) = own.filter(|status| status.mode != 0) else {
        return Ok(Proven { filters: 0, may_listen: true });
    };
    let fatal = fatal_calls().map_err(|errno| {
        Failure::new(format!("cannot test what the seccomp filter forbids: {}", errno.desc()))
    })?;
    let door = door();
    let is_of_door = |name: &&str| door.iter().any(|call| call.name == *name);
    let is_needed = |name: &&str| *name != USERFAULTFD.name && !is_of_door(name);
    let needed: Vec<&str> = fatal.iter().copied().filter(is_needed).collect();
    if !needed.is_empty() {
        return Err(Failure::new(format!(
            "the seccomp filter that memfold was started under kills a process for {}, which memfold needs; allow {} in the filter (systemd: SystemCallFilter={}), or let it return an error (SystemCallErrorNumber=EPERM)",
            listed(&needed),
            if needed.len() == 1 { "that call" } else { "those calls" },
            needed.join(" ")
        )));
    }
    // Before Linux 5.9 the kernel does not report the number of filters, so the runtime cannot tell whether a
    // program has the same ones. Then no program with filters is managed.
    let count = status.count.unwrap_or(0);
    let only = if count > 0 && fatal.contains(&USERFAULTFD.name) { BY_DEVICE_ONLY } else { 0 };
    Ok(Proven { filters: count | only, may_listen: !fatal.iter().any(is_of_door) })
}

fn listed(names: &[&str]) -> String {
    match names {
        [one] => format!("the system call {one}"),
        [first @ .., last] => format!("the system calls {} and {last}", first.join(", ")),
        [] => String::new(),
    }
}

/// Names of the calls that end the process that makes them.
fn fatal_calls() -> nix::Result<Vec<&'static str>> {
    if !sys::can_wait_for_children()? {
        return Ok(vec!["wait4", "rt_sigaction"]);
    }
    let _kept = ChildrenKept::new()?;
    let calls: Vec<Call> =
        own().into_iter().chain(door()).chain(CALLS).chain(TO_SHOW).chain([USERFAULTFD]).collect();
    let trial = Trial::new()?;
    let (mut fatal, mut next) = (Vec::new(), 0);
    while let Some(rest) = calls.get(next..).filter(|rest| !rest.is_empty()) {
        let is_alive = trial.run(|at| {
            for (index, call) in rest.iter().enumerate() {
                at.store(index as u32, Relaxed);
                sys::try_call(call.number, call.arguments);
            }
        })?;
        let reached = trial.at.load(Relaxed) as usize;
        if !is_alive {
            fatal.push(rest[reached].name);
        }
        next += reached + 1;
    }
    Ok(fatal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_calls() {
        assert_eq!(listed(&["a"]), "the system call a");
        assert_eq!(listed(&["a", "b", "c"]), "the system calls a, b and c");
    }
}
