//! The verdict on userfaultfd: whether it works for the programs started here and, if not, exactly how to fix
//! it.
//!
//! The runtime tries the system call first and the device second, so this module tries them in the same order.

use nix::errno::Errno;

use super::machine::Machine;
use super::remedies::{self, Remedy, remedy};
use super::uffd::{self, DEVICE, Kind, NEEDED, Report, Step, Verdict, Way};
use crate::output::failure::Failure;

/// Why userfaultfd does not work, and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// One sentence without a full stop.
    pub what: String,
    /// Any one of these helps.
    pub remedies: Vec<Remedy>,
}

/// Fails if userfaultfd does not work.
pub fn must_work() -> Result<(), Failure> {
    let by_call = uffd::attempt(Way::Syscall, Kind::Full);
    if by_call.works() {
        return Ok(());
    }
    let by_device = uffd::attempt(Way::Device, Kind::Full);
    match diagnose(&by_call, &by_device, &Machine::new()) {
        None => Ok(()),
        Some(problem) => Err(Failure::new(problem.line())),
    }
}

impl Problem {
    /// The message in one line.
    pub fn line(&self) -> String {
        let first = self.remedies.first().map_or("", |remedy| &remedy.command);
        format!("{}; 'memfold doctor' says what helps, for example: {first}", self.what)
    }
}

/// The problem; None if one of the two ways works.
pub fn diagnose(by_call: &Verdict, by_device: &Verdict, machine: &Machine) -> Option<Problem> {
    if by_call.works() || by_device.works() {
        return None;
    }
    let mut what = format!(
        "userfaultfd cannot be used here: the system call says '{}', {DEVICE} says '{}'",
        describe(by_call),
        describe(by_device)
    );
    if is_filtered(by_call, failed_open(by_call), machine) {
        what += ", and a seccomp filter is in place";
    }
    Some(Problem { what, remedies: remedies(by_call, by_device, machine) })
}

/// The result of a trial, in a few words.
pub fn describe(verdict: &Verdict) -> String {
    let report = match verdict {
        Verdict::Ran(report) => report,
        Verdict::Killed(signal) => return format!("ended by {signal}, as a seccomp filter does"),
        Verdict::Hung => return "no answer, a fault was not served".into(),
        Verdict::NotTried(errno) => return format!("not tried: {}", errno.desc()),
    };
    match report.step {
        Step::Done => "works".into(),
        Step::Open => report.errno.desc().to_owned(),
        Step::Handshake => format!("opens, but the handshake fails: {}", report.errno.desc()),
        Step::Features => {
            format!("opens, but the kernel lacks {}", names(NEEDED & !report.features).join(", "))
        }
        Step::Memory => format!("no memory to try it with: {}", report.errno.desc()),
        Step::Register => format!("opens, but cannot register memory: {}", report.errno.desc()),
        Step::TakeAway => format!("opens, but pages cannot be evicted: {}", report.errno.desc()),
        Step::Fault => format!("opens, but does not serve system calls: {}", report.errno.desc()),
    }
}

/// Names of the features in a set.
pub fn names(features: u64) -> Vec<&'static str> {
    uffd::FEATURES.iter().filter(|(bit, _)| features & bit != 0).map(|(_, name)| *name).collect()
}

/// What helps; never empty.
fn remedies(by_call: &Verdict, by_device: &Verdict, machine: &Machine) -> Vec<Remedy> {
    let too_old = |verdict: &Verdict| matches!(verdict, Verdict::Ran(r) if matches!(r.step, Step::Handshake | Step::Features | Step::TakeAway));
    if too_old(by_call) || too_old(by_device) {
        return vec![remedy("install Linux 5.7 or newer", "this kernel's userfaultfd is too old")];
    }
    let no_task = |verdict: &Verdict| match verdict {
        Verdict::Ran(report) => report.step != Step::Done && report.errno == Errno::EAGAIN,
        Verdict::NotTried(errno) => *errno == Errno::EAGAIN,
        _ => false,
    };
    if no_task(by_call) || no_task(by_device) {
        let command = "allow some more tasks (pids.max, --pids-limit, ulimit -u)";
        return vec![remedy(command, "no thread or process can be started for a trial")];
    }
    let (call, device) = (failed_open(by_call), failed_open(by_device));
    let mut found = remedies::for_device(call, device, machine);
    if is_filtered(by_call, call, machine) || matches!(by_device, Verdict::Killed(_)) {
        found.push(remedies::for_filter(machine));
    }
    // A container's filter most often refuses the call whatever the setting is.
    let setting_is_enough = !(machine.filtered && machine.container.is_some());
    let by_setting = call == Some(Errno::EPERM) && !machine.may_trace && machine.unprivileged == Some(false);
    if by_setting && setting_is_enough {
        found.push(remedies::for_setting(machine));
    }
    if found.is_empty() {
        let command = "run memfold as root, or with the capability CAP_SYS_PTRACE";
        found.push(remedy(command, "which may always use it"));
    }
    found
}

fn failed_open(verdict: &Verdict) -> Option<Errno> {
    match verdict {
        Verdict::Ran(Report { step: Step::Open, errno, .. }) => Some(*errno),
        _ => None,
    }
}

/// Whether a seccomp filter refuses the system call: if the process has the right to make it, nothing else
/// does.
fn is_filtered(by_call: &Verdict, errno: Option<Errno>, machine: &Machine) -> bool {
    let refused = matches!(errno, Some(Errno::EPERM | Errno::ENOSYS | Errno::EACCES));
    let has_right = machine.may_trace || machine.unprivileged == Some(true);
    let by_number = refused && (has_right || errno != Some(Errno::EPERM));
    matches!(by_call, Verdict::Killed(_)) || machine.filtered && by_number
}

#[cfg(test)]
pub mod tests {
    use nix::sys::signal::Signal;

    use super::super::machine::{Container, Device, Tools};
    use super::*;

    pub fn machine() -> Machine {
        Machine {
            kernel: "6.1.0".into(),
            kernel_version: (6, 1),
            user: 1000,
            user_name: "ann".into(),
            may_trace: false,
            unprivileged: Some(false),
            device: Some(Device { mode: 0o600, owner: 0, group: "root".into() }),
            filtered: false,
            container: None,
            tools: Tools(vec!["sudo", "setfacl", "udevadm", "sysctl"]),
        }
    }

    fn failed(step: Step, errno: Errno) -> Verdict {
        Verdict::Ran(Report { step, errno, features: 0, moved: false })
    }

    fn commands(call: Verdict, device: Verdict, machine: &Machine) -> Vec<String> {
        let problem = diagnose(&call, &device, machine).unwrap();
        assert!(!problem.remedies.is_empty());
        problem.remedies.into_iter().map(|remedy| remedy.command).collect()
    }

    #[test]
    fn one_way_is_enough() {
        let works = failed(Step::Done, Errno::UnknownErrno);
        let not = failed(Step::Open, Errno::EPERM);
        assert_eq!(diagnose(&works, &not, &machine()), None);
        assert_eq!(diagnose(&not, &works, &machine()), None);
    }

    #[test]
    fn an_ordinary_user() {
        let found = commands(failed(Step::Open, Errno::EPERM), failed(Step::Open, Errno::EACCES), &machine());
        assert_eq!(found[0], "sudo setfacl -m u:ann:rw /dev/userfaultfd");
        assert_eq!(found[2], "sudo sysctl -w vm.unprivileged_userfaultfd=1");
    }

    #[test]
    fn a_user_outside_of_the_device_s_group() {
        let device = Some(Device { mode: 0o660, owner: 0, group: "kvm".into() });
        let machine = Machine { device, ..machine() };
        let found = commands(failed(Step::Open, Errno::EPERM), failed(Step::Open, Errno::EACCES), &machine);
        assert_eq!(found[0], "sudo usermod -aG kvm ann");
    }

    #[test]
    fn a_container() {
        let docker =
            Machine { container: Some(Container::Docker), filtered: true, may_trace: true, ..machine() };
        let found = commands(failed(Step::Open, Errno::EPERM), failed(Step::Open, Errno::ENOENT), &docker);
        assert!(found[0].contains("--device /dev/userfaultfd"), "{found:?}");
        assert!(found[1].contains("seccomp=PROFILE.json"), "{found:?}");
    }

    #[test]
    fn no_task_is_left() {
        let call = failed(Step::Register, Errno::EAGAIN);
        let found = commands(call, Verdict::NotTried(Errno::EAGAIN), &machine());
        assert!(found.len() == 1 && found[0].contains("--pids-limit"), "{found:?}");
    }

    #[test]
    fn a_filter_that_kills() {
        let found = commands(Verdict::Killed(Signal::SIGSYS), failed(Step::Open, Errno::ENOENT), &machine());
        assert!(found.iter().any(|command| command.contains("seccomp")), "{found:?}");
    }

    #[test]
    fn kernels() {
        let old =
            commands(failed(Step::Features, Errno::ENOTSUP), failed(Step::Open, Errno::ENOENT), &machine());
        assert_eq!(old, ["install Linux 5.7 or newer"]);
        let none = commands(failed(Step::Open, Errno::ENOSYS), failed(Step::Open, Errno::ENOENT), &machine());
        assert!(none[0].contains("CONFIG_USERFAULTFD"), "{none:?}");
    }

    #[test]
    fn userfaultfd_for_user_mode_only_is_recognised() {
        let text = describe(&failed(Step::Fault, Errno::EFAULT));
        assert!(text.contains("does not serve system calls"), "{text}");
    }
}
