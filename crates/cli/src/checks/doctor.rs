//! `memfold doctor`: reports what this machine offers, whether `run` would work, and the exact commands that
//! would fix any problem.
//!
//! It draws no conclusions from version numbers: it tries everything that matters.

use std::path::PathBuf;

use memfold::size::Human;
use memfold_args::DoctorArgs;
use memfold_proc::{cgroup, field, memory, number, process};
use serde::Serialize;

use super::machine::{self, Machine};
use super::uffd::{self, Kind, Verdict, Way};
use super::{filters, preload, remedies, trials, userfault};
use crate::output::failure::Failure;
use crate::output::text::{json, print};
use crate::supervisor::pids;

/// All findings. The names are a contract: new ones may be added, existing ones never change.
#[derive(Debug, Serialize)]
pub struct Findings {
    version: &'static str,
    /// Whether `memfold run` would work here.
    works: bool,
    kernel: String,
    machine: &'static str,
    user: u32,
    cpus: usize,
    userfaultfd: Userfaultfd,
    referenced_bits: bool,
    pagemap_scan: bool,
    physical_bytes: Option<u64>,
    cgroup: Option<CgroupFinding>,
    overcommit_memory: Option<i64>,
    max_map_count: Option<i64>,
    transparent_hugepages: Option<String>,
    seccomp: &'static str,
    no_new_privs: bool,
    container: bool,
    /// The path of the library that programs load.
    preload_library: Option<String>,
    problems: Vec<Finding>,
    notes: Vec<Finding>,
}

#[derive(Debug, Serialize)]
struct Userfaultfd {
    works: bool,
    /// Result of the system call.
    syscall: String,
    /// Result of the device.
    device: String,
    /// Result of a trial with a descriptor that serves only faults of user code.
    user_mode_only: String,
    /// The device's mode, as digits.
    device_mode: Option<String>,
    unprivileged_userfaultfd: Option<bool>,
    features: Vec<&'static str>,
    /// UFFDIO_MOVE restored a page.
    r#move: bool,
}

#[derive(Debug, Serialize)]
struct CgroupFinding {
    version: u8,
    directory: String,
    limit_bytes: Option<u64>,
}

/// Something that is wrong or could be better, and its remedy.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    remedies: Vec<RemedyFinding>,
}

#[derive(Debug, Serialize)]
struct RemedyFinding {
    command: String,
    effect: String,
}

/// Reports whether `run` would work here, and returns the exit status.
pub fn doctor(args: &DoctorArgs) -> Result<i32, Failure> {
    // Without these nothing else can be tried.
    if let Err(failure) = machine::proc_must_be_mounted().and_then(|()| filters::prove()) {
        return Err(Failure::with(1, format!("memfold run does not work here: {}", failure.text)));
    }
    let findings = Findings::new();
    print(&if args.json { json(&findings) } else { findings.to_text() })?;
    Ok(if findings.works { 0 } else { 1 })
}

impl Findings {
    fn new() -> Self {
        let machine = Machine::new();
        let by_call = uffd::attempt(Way::Syscall, Kind::Full);
        let by_device = uffd::attempt(Way::Device, Kind::Full);
        let user_mode = uffd::attempt(Way::Syscall, Kind::UserModeOnly);
        let library = preload::find();
        let group = cgroup::own();
        let status = process::status("self").unwrap_or_default();
        let mut problems = Vec::new();
        if let Some(problem) = userfault::diagnose(&by_call, &by_device, &machine) {
            let remedies = problem.remedies.into_iter();
            let remedies = remedies.map(|r| RemedyFinding { command: r.command, effect: r.effect.into() });
            problems.push(Finding { what: problem.what, remedies: remedies.collect() });
        }
        if let Err(failure) = &library {
            problems.push(Finding { what: failure.text.clone(), remedies: Vec::new() });
        }
        let max_map_count = number("/proc/sys/vm/max_map_count");
        Self {
            version: env!("CARGO_PKG_VERSION"),
            works: problems.is_empty(),
            machine: std::env::consts::ARCH,
            user: machine.user,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            userfaultfd: Userfaultfd::new(&by_call, &by_device, &user_mode, &machine),
            referenced_bits: trials::referenced_bits(),
            pagemap_scan: trials::pagemap_scan(),
            physical_bytes: memory::physical(),
            cgroup: group.map(|group| CgroupFinding {
                version: group.version,
                directory: text(group.directory),
                limit_bytes: group.limit,
            }),
            overcommit_memory: number("/proc/sys/vm/overcommit_memory"),
            max_map_count,
            transparent_hugepages: huge_pages(),
            seccomp: match field(&status, "Seccomp:") {
                Some("0") => "none",
                Some("1") => "strict",
                Some("2") => "filter",
                _ => "unknown",
            },
            no_new_privs: field(&status, "NoNewPrivs:") == Some("1"),
            container: machine.container.is_some(),
            preload_library: library.ok().map(|library| text(library.file)),
            problems,
            notes: notes(max_map_count, &machine),
            kernel: machine.kernel,
        }
    }

    fn to_text(&self) -> String {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let number = |value: Option<i64>| value.map_or("unknown".into(), |value| value.to_string());
        let uffd = &self.userfaultfd;
        let group = match &self.cgroup {
            None => "none".to_owned(),
            Some(group) => {
                let limit =
                    group.limit_bytes.map_or("no limit".into(), |bytes| format!("limit {}", Human(bytes)));
                format!("version {}, {limit}", group.version)
            }
        };
        let mode = uffd.device_mode.as_deref().map_or(String::new(), |mode| format!(" (mode {mode})"));
        let rows = [
            ("kernel", format!("{} on {}, {} CPUs", self.kernel, self.machine, self.cpus)),
            ("userfaultfd, system call", uffd.syscall.clone()),
            ("userfaultfd, device", format!("{}{mode}", uffd.device)),
            ("  for faults of user code only", uffd.user_mode_only.clone()),
            (
                "  vm.unprivileged_userfaultfd",
                uffd.unprivileged_userfaultfd.map_or("not there".into(), |on| u8::from(on).to_string()),
            ),
            ("  features", uffd.features.join(" ")),
            ("  UFFDIO_MOVE", yes(uffd.r#move)),
            ("referenced bits", yes(self.referenced_bits)),
            ("PAGEMAP_SCAN", yes(self.pagemap_scan)),
            (
                "physical memory",
                self.physical_bytes.map_or("unknown".into(), |bytes| Human(bytes).to_string()),
            ),
            ("memory cgroup", group),
            ("vm.overcommit_memory", number(self.overcommit_memory)),
            ("vm.max_map_count", number(self.max_map_count)),
            ("transparent huge pages", self.transparent_hugepages.clone().unwrap_or_else(|| "none".into())),
            ("seccomp", self.seccomp.to_owned()),
            ("preload library", self.preload_library.clone().unwrap_or_else(|| "none".into())),
        ];
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, value) in rows {
            text += format!("{name:width$}  {value}").trim_end();
            text.push('\n');
        }
        for (title, list) in [("problem", &self.problems), ("note", &self.notes)] {
            for finding in list {
                text += &format!("\n{title}: {}\n", finding.what);
                for remedy in &finding.remedies {
                    text += &format!("    {}\n        {}\n", remedy.command, remedy.effect);
                }
            }
        }
        text + if self.works { "\nmemfold run works here.\n" } else { "\nmemfold run does not work here.\n" }
    }
}

impl Userfaultfd {
    fn new(by_call: &Verdict, by_device: &Verdict, user_mode: &Verdict, machine: &Machine) -> Self {
        let report = |verdict: &Verdict| match verdict {
            Verdict::Ran(report) => Some(*report),
            _ => None,
        };
        let reports = || [by_call, by_device, user_mode].into_iter().filter_map(report);
        Self {
            works: by_call.works() || by_device.works(),
            syscall: userfault::describe(by_call),
            device: userfault::describe(by_device),
            user_mode_only: userfault::describe(user_mode),
            device_mode: machine
                .device
                .as_ref()
                .map(|device| format!("{:04o}, owner {}, group {}", device.mode, device.owner, device.group)),
            unprivileged_userfaultfd: machine.unprivileged,
            features: userfault::names(reports().fold(0, |all, report| all | report.features)),
            r#move: reports().any(|report| report.moved),
        }
    }
}

fn notes(max_map_count: Option<i64>, machine: &Machine) -> Vec<Finding> {
    let mut notes = Vec::new();
    if let Some((left, few)) = pids::few_left() {
        notes.push(Finding {
            what: format!(
                "only {left} more tasks (processes and threads) may start in this cgroup: memfold needs 6 and one for each process that it compresses, and ends its own when fewer than {few} are left"
            ),
            remedies: vec![RemedyFinding {
                command: "allow more tasks (pids.max, --pids-limit, systemd: TasksMax=)".into(),
                effect: "room for memfold's own".into(),
            }],
        });
    }
    if max_map_count.is_some_and(|count| count < 65_530) {
        notes.push(Finding {
            what:
                "the limit of mappings per process is low, so that less can be evicted from large processes"
                    .into(),
            remedies: vec![RemedyFinding {
                command: remedies::as_root(machine, "sysctl -w vm.max_map_count=65530"),
                effect: "the usual number, until the next reboot".into(),
            }],
        });
    }
    notes
}

/// The setting in force: `always`, `madvise` or `never`.
fn huge_pages() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}
fn text(path: PathBuf) -> String {
    memfold_escape::text(path.as_os_str().as_encoded_bytes()).into_owned()
}
