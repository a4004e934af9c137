//! Signals sent to memfold reach the program, and memfold outlives it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

use crate::common::{MEMFOLD, finish, shell, until};

/// Resets signals to their defaults. A shell cannot trap a signal that was ignored at its start, as under
/// `nohup make test` and `make test &`.
fn heeding(mut command: Command) -> Command {
    let prepare = || {
        for number in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
            // SAFETY: the default needs no handler.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
        Ok(())
    };
    // SAFETY: makes only system calls between fork and exec.
    unsafe { command.pre_exec(prepare) };
    command
}

fn start(script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = heeding(shell(script)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    text
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn passed_on() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGWINCH,
    ] {
        let name = &signal.as_str()[3..];
        let script =
            format!("trap 'echo got {name}; exit 42' {name}; echo ready; while :; do sleep 0.05; done");
        let (mut child, mut out) = start(&script);
        assert_eq!(line(&mut out), "ready\n");
        send(&child, signal);
        assert_eq!(line(&mut out), format!("got {name}\n"));
        assert_eq!(child.wait().unwrap().code(), Some(42));
    }
}

#[test]
fn memfold_reports_a_program_that_a_signal_killed() {
    let (mut child, mut out) = start("ulimit -c 0; echo ready; exec sleep 60");
    assert_eq!(line(&mut out), "ready\n");
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.starts_with("memfold: "), "{err}");
}

#[test]
fn memfold_survives_signals_that_the_program_survives() {
    let (mut child, mut out) = start(
        "n=0; trap 'n=$((n+1)); echo again' TERM INT; echo ready; while [ $n -lt 3 ]; do sleep 0.05; done; exit 5",
    );
    assert_eq!(line(&mut out), "ready\n");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGTERM] {
        send(&child, signal);
        assert_eq!(line(&mut out), "again\n");
        assert!(child.try_wait().unwrap().is_none() || signal == Signal::SIGTERM);
    }
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn no_orphan_is_waited_for() {
    let begin = std::time::Instant::now();
    let (mut child, mut out) = start("(sleep 30 >/dev/null 2>&1 & echo $!) ; exit 3");
    let daemon: i32 = line(&mut out).trim().parse().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(begin.elapsed() < Duration::from_secs(20));
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("1 process goes on in the background"), "{err}");
    // The orphan lives on by itself, and its limit can be changed.
    std::thread::sleep(Duration::from_millis(100));
    let mut limit = Command::new(MEMFOLD);
    limit.args(["limit", &daemon.to_string(), "123M"]);
    let said = finish(limit);
    assert!(said.status == 0 && said.out.contains("is now 123 MiB"), "{} {}", said.out, said.err);
    kill(Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
}

/// ^C in a terminal: the kernel sends the signal to the whole group, the program gets it once, and memfold
/// reports how the program ended.
#[test]
fn interrupt_from_a_terminal() {
    use std::os::fd::AsRawFd;
    let pty = nix::pty::openpty(None, None).unwrap();
    let (master, slave) = (std::fs::File::from(pty.master), pty.slave);
    let mut command = heeding(shell(
        "n=0; trap 'n=$((n+1)); echo count $n' INT; echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; sleep 0.3; echo end $n; exit 8",
    ));
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(Stdio::null());
    let terminal = slave.as_raw_fd();
    let prepare = move || {
        nix::unistd::setsid()?;
        // SAFETY: takes numbers only.
        nix::errno::Errno::result(unsafe { nix::libc::ioctl(terminal, nix::libc::TIOCSCTTY, 0) })?;
        Ok(())
    };
    // SAFETY: makes only system calls between fork and exec.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn().unwrap();
    drop(slave);
    drop(command);
    let mut out = BufReader::new(master.try_clone().unwrap());
    let mut text = String::new();
    while !text.contains("ready") {
        out.read_line(&mut text).unwrap();
    }
    std::io::Write::write_all(&mut &master, b"\x03").unwrap();
    while !text.contains("end") {
        if out.read_line(&mut text).unwrap_or(0) == 0 {
            break;
        }
    }
    assert!(text.contains("count 1") && text.contains("end 1"), "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(8));
}

/// ^Z stops both, as a shell expects, and memfold goes on when it is continued.
#[test]
fn stop_and_continue() {
    let (mut child, mut out) = start("echo ready; sleep 0.3; echo done; exit 4");
    assert_eq!(line(&mut out), "ready\n");
    send(&child, Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", child.id());
    until("stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T "));
    std::thread::sleep(Duration::from_millis(400));
    send(&child, Signal::SIGCONT);
    assert_eq!(line(&mut out), "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

/// Prints each signal that it gets, for the given time.
const COUNTS: &str = "\
import signal,sys,time
def got(number,frame): print('got',signal.Signals(number).name,flush=True)
for number in (signal.SIGTERM,signal.SIGUSR1): signal.signal(number,got)
print('ready',flush=True)
end=time.monotonic()+float(sys.argv[1])
while time.monotonic()<end: time.sleep(0.01)
";

/// `timeout` signals memfold and then the whole group; so does `kill -TERM -GROUP`. The program gets one.
#[test]
fn signals_to_the_group_come_once() {
    let Some(python) = crate::common::python() else { return };
    for _ in 0..5 {
        let mut command = Command::new("timeout");
        command.args([
            "1.5",
            crate::common::MEMFOLD,
            "run",
            "-q",
            "--limit",
            "1G",
            "--",
            python,
            "-c",
            COUNTS,
            "2.5",
        ]);
        let said = crate::common::finish(command);
        assert_eq!((said.status, said.out.as_str()), (124, "ready\ngot SIGTERM\n"), "{}", said.err);
    }
    let mut command = crate::common::run(&[python, "-c", COUNTS, "3"]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(line(&mut out), "ready\n");
    let (memfold, group) = (Pid::from_raw(child.id() as i32), Pid::from_raw(-(child.id() as i32)));
    let pause = || std::thread::sleep(Duration::from_millis(150));
    for (to, signal) in [
        (group, Signal::SIGTERM),
        (memfold, Signal::SIGTERM),
        (group, Signal::SIGUSR1),
        (memfold, Signal::SIGUSR1),
    ] {
        kill(to, signal).unwrap();
        pause();
    }
    for _ in 0..3 {
        kill(memfold, Signal::SIGTERM).unwrap();
        pause();
    }
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    let count = |name: &str| text.lines().filter(|line| *line == format!("got {name}")).count();
    assert_eq!((count("SIGTERM"), count("SIGUSR1")), (5, 2), "{text}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A program in its own process group does not get signals to memfold's group, so memfold passes them on.
#[test]
fn signals_to_the_group_are_passed_on_to_who_has_left_it() {
    let Some(python) = crate::common::python() else { return };
    let mut command = crate::common::run(&["setsid", python, "-c", COUNTS, "1"]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    if line(&mut out) != "ready\n" {
        eprintln!("skipped: setsid (util-linux) is not installed");
        child.wait().unwrap();
        return;
    }
    kill(Pid::from_raw(-(child.id() as i32)), Signal::SIGTERM).unwrap();
    assert_eq!(line(&mut out), "got SIGTERM\n");
    child.wait().unwrap();
}
