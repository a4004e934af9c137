//! Facts about this machine and this process that decide what is possible.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use memfold_proc::{field, number, process};

use super::uffd;
use crate::output::failure::Failure;

/// Facts that may prevent userfaultfd from working, or that decide how to fix it.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Kernel release, as the kernel reports it.
    pub kernel: String,
    /// Its first two numbers.
    pub kernel_version: (u32, u32),
    /// Effective user.
    pub user: u32,
    /// That user's name, or the number if it has none.
    pub user_name: String,
    /// CAP_SYS_PTRACE is effective.
    pub may_trace: bool,
    /// `vm.unprivileged_userfaultfd`, if the setting exists.
    pub unprivileged: Option<bool>,
    /// The device, if it exists.
    pub device: Option<Device>,
    /// A seccomp filter is installed.
    pub filtered: bool,
    /// Signs of a container.
    pub container: Option<Container>,
    /// Commands that remedies use.
    pub tools: Tools,
}

/// Who may open the device.
#[derive(Debug, Clone)]
pub struct Device {
    /// Its permissions.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The name of its group, or the number if that has none.
    pub group: String,
}

impl Device {
    fn new() -> Option<Self> {
        let meta = fs::metadata(uffd::DEVICE).ok()?;
        let name = nix::unistd::Group::from_gid(meta.gid().into()).ok().flatten().map(|group| group.name);
        meta.file_type().is_char_device().then(|| Self {
            mode: meta.mode() & 0o777,
            owner: meta.uid(),
            group: name.unwrap_or_else(|| meta.gid().to_string()),
        })
    }

    /// The group that may open it, if that is not root's own.
    pub fn open_to(&self) -> Option<&str> {
        (self.mode & 0o060 == 0o060 && self.group != "root" && self.group != "0").then_some(&self.group)
    }
}

/// Which of the commands that remedies use exist here.
#[derive(Debug, Clone, Default)]
pub struct Tools(pub Vec<&'static str>);

impl Tools {
    const ASKED: [&'static str; 5] = ["sudo", "doas", "setfacl", "udevadm", "sysctl"];

    /// Looks for them.
    fn new() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Users' paths often lack the last three.
        let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
        let directories: Vec<_> = std::env::split_paths(&path).chain(more).collect();
        let exists = |name: &&str| directories.iter().any(|directory| directory.join(name).is_file());
        Tools(Self::ASKED.into_iter().filter(exists).collect())
    }

    /// Whether this one exists.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// Kinds of containers whose options differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Docker, or something that looks like it.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes.
    Kubernetes,
    /// Any other.
    Other,
}

impl Machine {
    /// Collects the facts.
    pub fn new() -> Self {
        let status = process::status("self").unwrap_or_default();
        let user = nix::unistd::geteuid();
        let name = nix::unistd::User::from_uid(user).ok().flatten().map(|user| user.name);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self {
            kernel_version: version(&kernel),
            kernel,
            user: user.as_raw(),
            user_name: name.unwrap_or_else(|| user.to_string()),
            may_trace: has_capability(&status, 19),
            unprivileged: number::<i64>("/proc/sys/vm/unprivileged_userfaultfd").map(|value| value != 0),
            device: Device::new(),
            filtered: field(&status, "Seccomp:") == Some("2"),
            container: container(),
            tools: Tools::new(),
        }
    }
}

/// Fails if `/proc` is not mounted.
pub fn proc_must_be_mounted() -> Result<(), Failure> {
    if std::path::Path::new("/proc/self/status").exists() {
        return Ok(());
    }
    Err(Failure::new(
        "/proc is missing, where memfold reads how much memory processes use; mount it first (mount -t proc proc /proc)",
    ))
}

fn has_capability(status: &str, number: u32) -> bool {
    let effective = field(status, "CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok());
    effective.is_some_and(|set| set >> number & 1 != 0)
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn container() -> Option<Container> {
    let exists = |path: &str| std::path::Path::new(path).exists();
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        Some(Container::Kubernetes)
    } else if exists("/run/.containerenv") {
        Some(Container::Podman)
    } else if exists("/.dockerenv") {
        Some(Container::Docker)
    } else if std::env::var_os("container").is_some() || exists("/run/systemd/container") {
        Some(Container::Other)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.1.0-18-amd64"), (6, 1));
        assert_eq!(version("5.15"), (5, 15));
        assert_eq!(version("x"), (0, 0));
    }

    #[test]
    fn capabilities() {
        assert!(has_capability("CapPrm:\t0\nCapEff:\t0000000000080000\n", 19));
        assert!(!has_capability("CapEff:\t0000000000040000\n", 19));
        assert!(!has_capability("", 19));
    }
}
