//! The verdict on userfaultfd: whether it works for the programs started here and, if not, exactly how to fix
//! it.
//!
//! The runtime tries the system call first and the device second, so this module tries them in the same order.

use nix::errno::Errno;

use super::machine::{Container, Machine};
use super::uffd::{self, DEVICE, Kind, NEEDED, Report, Step, Verdict, Way};
use crate::output::failure::Failure;

/// A possible remedy: a command, and its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// The command to type.
    pub command: String,
    /// Its effect.
    pub effect: &'static str,
}

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
        Some(problem) => Err(Failure::new(problem.paragraph())),
    }
}

impl Problem {
    /// The whole message in one paragraph.
    pub fn paragraph(&self) -> String {
        let remedies: Vec<String> =
            self.remedies.iter().map(|remedy| format!("{} ({})", remedy.command, remedy.effect)).collect();
        format!(
            "{}, and memfold needs userfaultfd to restore pages when they are touched; what helps: {}; 'memfold doctor' says more",
            self.what,
            remedies.join(", or ")
        )
    }
}

/// The problem; None if one of the two ways works.
pub fn diagnose(by_call: &Verdict, by_device: &Verdict, machine: &Machine) -> Option<Problem> {
    if by_call.works() || by_device.works() {
        return None;
    }
    let what = format!(
        "userfaultfd cannot be used here: the system call says '{}', {DEVICE} says '{}'",
        describe(by_call),
        describe(by_device)
    );
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

fn remedy(command: impl Into<String>, effect: &'static str) -> Remedy {
    Remedy { command: command.into(), effect }
}

fn remedies(by_call: &Verdict, by_device: &Verdict, machine: &Machine) -> Vec<Remedy> {
    let too_old = |verdict: &Verdict| matches!(verdict, Verdict::Ran(r) if matches!(r.step, Step::Handshake | Step::Features | Step::TakeAway));
    if too_old(by_call) || too_old(by_device) {
        return vec![remedy("install Linux 5.7 or newer", "this kernel's userfaultfd is too old")];
    }
    let (call, device) = (failed_open(by_call), failed_open(by_device));
    let mut found = for_device(call, device, machine);
    if is_filtered(by_call, call, machine) || matches!(by_device, Verdict::Killed(_)) {
        found.push(for_filter(machine));
    }
    if call == Some(Errno::EPERM) && !machine.may_trace && machine.unprivileged == Some(false) {
        let command = "sudo sysctl -w vm.unprivileged_userfaultfd=1";
        found.push(remedy(command, "for all users, until the next reboot"));
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

fn for_device(call: Option<Errno>, device: Option<Errno>, machine: &Machine) -> Vec<Remedy> {
    match device {
        Some(Errno::EACCES) => {
            let user = &machine.user_name;
            let rule = "echo 'KERNEL==\"userfaultfd\", MODE=\"0666\"' | sudo tee /etc/udev/rules.d/90-userfaultfd.rules && sudo udevadm control --reload && sudo udevadm trigger /dev/userfaultfd";
            vec![
                remedy(
                    format!("sudo setfacl -m u:{user}:rw {DEVICE}"),
                    "for this user, until the next reboot",
                ),
                remedy(rule, "for all users, permanently"),
            ]
        }
        // The device is missing, or forbidden by the container's list of devices.
        Some(Errno::ENOENT | Errno::EPERM | Errno::ENXIO) if machine.container.is_some() => {
            vec![for_container(machine.container)]
        }
        Some(Errno::ENOENT | Errno::ENXIO) if call == Some(Errno::ENOSYS) && !machine.filtered => {
            vec![remedy("use a kernel built with CONFIG_USERFAULTFD=y", "this one has no userfaultfd")]
        }
        Some(Errno::ENOENT) if machine.kernel_version >= (6, 1) => {
            let command = "sudo mknod -m 666 /dev/userfaultfd c 10 \"$(awk '$2 == \"userfaultfd\" {print $1}' /proc/misc)\"";
            vec![remedy(command, "makes the missing device")]
        }
        _ => Vec::new(),
    }
}

fn for_filter(machine: &Machine) -> Remedy {
    let command = match machine.container {
        Some(Container::Docker | Container::Podman) => {
            "docker run --security-opt seccomp=PROFILE.json, a copy of the default profile with \"userfaultfd\" added to its allowed names"
        }
        Some(Container::Kubernetes) => {
            "securityContext.seccompProfile: a Localhost profile that allows userfaultfd"
        }
        _ => {
            "allow the system call userfaultfd in the seccomp filter that this process runs under (systemd: SystemCallFilter=userfaultfd)"
        }
    };
    remedy(command, "a seccomp filter blocks it")
}

fn for_container(container: Option<Container>) -> Remedy {
    match container {
        Some(Container::Podman) => {
            remedy("podman run --device /dev/userfaultfd ...", "gives the container the device")
        }
        Some(Container::Kubernetes) => remedy(
            "add a device plugin for /dev/userfaultfd, or securityContext.capabilities.add: [SYS_PTRACE] with a seccomp profile that allows userfaultfd",
            "gives the pod the device or the right",
        ),
        _ => remedy("docker run --device /dev/userfaultfd ...", "gives the container the device"),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::*;

    fn machine() -> Machine {
        Machine {
            kernel: "6.1.0".into(),
            kernel_version: (6, 1),
            user: 1000,
            user_name: "ann".into(),
            may_trace: false,
            unprivileged: Some(false),
            device: Some((0o600, 0)),
            filtered: false,
            container: None,
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
    fn a_container() {
        let docker =
            Machine { container: Some(Container::Docker), filtered: true, may_trace: true, ..machine() };
        let found = commands(failed(Step::Open, Errno::EPERM), failed(Step::Open, Errno::ENOENT), &docker);
        assert!(found[0].contains("--device /dev/userfaultfd"), "{found:?}");
        assert!(found[1].contains("seccomp=PROFILE.json"), "{found:?}");
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
    fn user_mode_only_is_told_apart() {
        let text = describe(&failed(Step::Fault, Errno::EFAULT));
        assert!(text.contains("does not serve system calls"), "{text}");
    }
}
