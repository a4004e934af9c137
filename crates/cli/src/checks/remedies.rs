//! Commands that give a user, or a container, what memfold needs: only those that exist here.
//!
//! Some things can only be changed outside of the container. It is not known which commands exist there, so
//! those lines assume `sudo`.

use nix::errno::Errno;

use super::machine::{Container, Machine};
use super::uffd::DEVICE;

/// A possible remedy: a command, and its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// The command to type.
    pub command: String,
    /// What it does.
    pub effect: &'static str,
}

pub fn remedy(command: impl Into<String>, effect: &'static str) -> Remedy {
    Remedy { command: command.into(), effect }
}

/// A command that only root may run, as this user types it.
pub fn as_root(machine: &Machine, command: &str) -> String {
    let is_simple = !command.contains(['|', '&', '>', '$', '"', '\'']);
    let quoted = || {
        let mut quoted = String::from("\"");
        for letter in command.chars() {
            if ['"', '\\', '$', '`'].contains(&letter) {
                quoted.push('\\');
            }
            quoted.push(letter);
        }
        quoted + "\""
    };
    if machine.user == 0 {
        return command.to_owned();
    }
    for tool in ["sudo", "doas"] {
        if machine.tools.has(tool) {
            return if is_simple {
                format!("{tool} {command}")
            } else {
                format!("{tool} sh -c {}", quoted())
            };
        }
    }
    format!("su -c {}", quoted())
}

/// Where the device is missing, or may not be opened.
pub fn for_device(call: Option<Errno>, device: Option<Errno>, machine: &Machine) -> Vec<Remedy> {
    match device {
        Some(Errno::EACCES) if machine.user != 0 => for_user(machine),
        // This root is an ordinary user outside of its user namespace.
        Some(Errno::EACCES) => {
            let place = if machine.container.is_some() { "container" } else { "user namespace" };
            let one = format!("outside of this {place}: sudo setfacl -m u:USER:rw {DEVICE}");
            let all = format!("outside of this {place}: sudo chmod 666 {DEVICE}");
            vec![
                remedy(one, "for the user who has started it, until the next reboot"),
                remedy(all, "for all users of the machine, until the next reboot"),
            ]
        }
        // Missing, or forbidden by the container's list of devices.
        Some(Errno::ENOENT | Errno::EPERM | Errno::ENXIO) if machine.container.is_some() => {
            vec![for_container(machine.container)]
        }
        Some(Errno::ENOENT | Errno::ENXIO) if call == Some(Errno::ENOSYS) && !machine.filtered => {
            vec![remedy("use a kernel built with CONFIG_USERFAULTFD=y", "this one has no userfaultfd")]
        }
        Some(Errno::ENOENT) if machine.kernel_version >= (6, 1) => {
            let command = format!(
                "mknod -m 666 {DEVICE} c 10 \"$(awk '$2 == \"userfaultfd\" {{print $1}}' /proc/misc)\""
            );
            vec![remedy(as_root(machine, &command), "makes the missing device")]
        }
        _ => Vec::new(),
    }
}

/// The device exists, and this user may not open it.
fn for_user(machine: &Machine) -> Vec<Remedy> {
    // Containers have no password for root.
    if machine.container.is_some() && !["sudo", "doas"].iter().any(|tool| machine.tools.has(tool)) {
        return for_user_in_container(machine.container);
    }
    const RULE: &str = "echo 'KERNEL==\"userfaultfd\", MODE=\"0666\"' > /etc/udev/rules.d/90-userfaultfd.rules && udevadm control --reload && udevadm trigger /dev/userfaultfd";
    let user = &machine.user_name;
    let (for_one, for_all) = match machine.container {
        None => ("for this user, until the next reboot", "for all users, until the next reboot"),
        Some(_) => ("for this user, in this container", "for all users of this container"),
    };
    let one = match machine.tools.has("setfacl") {
        true => format!("setfacl -m u:{user}:rw {DEVICE}"),
        false => format!("chown {user} {DEVICE}"),
    };
    let all = match machine.container.is_none() && machine.tools.has("udevadm") {
        true => remedy(as_root(machine, RULE), "for all users, permanently"),
        false => remedy(as_root(machine, &format!("chmod 666 {DEVICE}")), for_all),
    };
    let group = machine.device.as_ref().and_then(|device| device.open_to()).map(|group| {
        let command = as_root(machine, &format!("usermod -aG {group} {user}"));
        remedy(
            command,
            "for this user, permanently, from the next login on: the device is open to that group",
        )
    });
    group.into_iter().chain([remedy(as_root(machine, &one), for_one), all]).collect()
}

fn for_user_in_container(container: Option<Container>) -> Vec<Remedy> {
    let tool = match container {
        Some(Container::Docker) => Some("docker"),
        Some(Container::Podman) => Some("podman"),
        _ => None,
    };
    let now = tool.map(|tool| {
        let command = format!("outside of the container: {tool} exec --user 0 CONTAINER chmod 666 {DEVICE}");
        remedy(command, "for all users of this container")
    });
    let before = format!("outside of the container, before it starts: sudo chmod 666 {DEVICE}");
    now.into_iter().chain([remedy(before, "for all users of containers that get the device")]).collect()
}

/// `vm.unprivileged_userfaultfd` is off.
pub fn for_setting(machine: &Machine) -> Remedy {
    if machine.container.is_some() {
        let command = "outside of the container: sudo sysctl -w vm.unprivileged_userfaultfd=1";
        return remedy(command, "for all users of the machine, until the next reboot");
    }
    let command = match machine.tools.has("sysctl") {
        true => "sysctl -w vm.unprivileged_userfaultfd=1",
        false => "echo 1 > /proc/sys/vm/unprivileged_userfaultfd",
    };
    remedy(as_root(machine, command), "for all users, until the next reboot")
}

/// A seccomp filter refuses the system call.
pub fn for_filter(machine: &Machine) -> Remedy {
    let command = match machine.container {
        Some(Container::Docker) => {
            "docker run --security-opt seccomp=PROFILE.json ..., a copy of the default profile with \"userfaultfd\" added to its allowed names"
        }
        Some(Container::Podman) => {
            "podman run --security-opt seccomp=PROFILE.json ..., a copy of /usr/share/containers/seccomp.json with \"userfaultfd\" added to its allowed names"
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
        _ => remedy(
            "docker run --device /dev/userfaultfd ...",
            "gives the container the device; in a compose file: devices: [/dev/userfaultfd]",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Tools;
    use super::*;

    fn machine(tools: &[&'static str], container: Option<Container>) -> Machine {
        Machine { tools: Tools(tools.to_vec()), container, ..super::super::userfault::tests::machine() }
    }

    fn commands(tools: &[&'static str], container: Option<Container>) -> [String; 3] {
        let machine = machine(tools, container);
        let [one, all] = for_user(&machine).try_into().unwrap();
        [one.command, all.command, for_setting(&machine).command]
    }

    #[test]
    fn only_commands_that_exist() {
        let all = ["sudo", "setfacl", "udevadm", "sysctl"];
        let [one, permanently, setting] = commands(&all, None);
        assert_eq!(one, "sudo setfacl -m u:ann:rw /dev/userfaultfd");
        assert_eq!(
            permanently,
            r#"sudo sh -c "echo 'KERNEL==\"userfaultfd\", MODE=\"0666\"' > /etc/udev/rules.d/90-userfaultfd.rules && udevadm control --reload && udevadm trigger /dev/userfaultfd""#
        );
        assert_eq!(setting, "sudo sysctl -w vm.unprivileged_userfaultfd=1");
        assert_eq!(
            commands(&[], None),
            [
                r#"su -c "chown ann /dev/userfaultfd""#,
                r#"su -c "chmod 666 /dev/userfaultfd""#,
                r#"su -c "echo 1 > /proc/sys/vm/unprivileged_userfaultfd""#
            ]
        );
        let [one, all, setting] = commands(&["doas", "udevadm"], Some(Container::Docker));
        assert_eq!(
            (one.as_str(), all.as_str()),
            ("doas chown ann /dev/userfaultfd", "doas chmod 666 /dev/userfaultfd")
        );
        assert!(setting.starts_with("outside of the container: "), "{setting}");
    }

    #[test]
    fn users_of_containers() {
        let of = |container| -> Vec<String> {
            for_user(&machine(&["setfacl"], Some(container))).into_iter().map(|one| one.command).collect()
        };
        let before = "outside of the container, before it starts: sudo chmod 666 /dev/userfaultfd";
        let podman = "outside of the container: podman exec --user 0 CONTAINER chmod 666 /dev/userfaultfd";
        assert_eq!(of(Container::Podman), [podman, before]);
        assert!(of(Container::Docker)[0].contains("docker exec --user 0"));
        assert_eq!(of(Container::Kubernetes), [before]);
    }

    #[test]
    fn root_of_a_user_namespace() {
        let root = |container| Machine { user: 0, ..machine(&[], container) };
        let found = |container, call| for_device(Some(call), Some(Errno::EACCES), &root(container));
        let [one, all] = found(None, Errno::EPERM).try_into().unwrap();
        assert_eq!(one.command, "outside of this user namespace: sudo setfacl -m u:USER:rw /dev/userfaultfd");
        assert_eq!(all.command, "outside of this user namespace: sudo chmod 666 /dev/userfaultfd");
        let [one, _] = found(Some(Container::Podman), Errno::EPERM).try_into().unwrap();
        assert_eq!(one.command, "outside of this container: sudo setfacl -m u:USER:rw /dev/userfaultfd");
    }

    /// The shell must make of it what was meant.
    #[test]
    fn quoting_for_the_shell() {
        let machine = machine(&[], None);
        let line = as_root(&machine, r#"printf '%s|' 'a "b"' $((1+1)) `printf c` 'd\e'"#);
        let script = line.replacen("su -c", "sh -c", 1);
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "a \"b\"|2|c|d\\e|");
    }
}
