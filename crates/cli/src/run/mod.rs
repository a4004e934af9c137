//! `memfold run`: starts the program, and stays as its supervisor.
//!
//! ```text
//!   checked ──> shared page, tier opened ──> spawn (a process that waits) ──> page server, service, lookout
//!                                              └─ goes on ──> supervisor ──> results written ──> exit status
//! ```
//!
//! Every refusal happens before anything starts. The program finds everything as without memfold, except
//! three variables of its environment, and, with `--show`, how much memory there is.

mod killed;
mod page_server;
mod spawn;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use memfold_args::RunArgs;
use memfold_proc::kills::Kills;
use memfold_proc::{cgroup, process};
use memfold_shared::page;
use memfold_spill::Tier;

use crate::checks::filters::{self, Proven};
use crate::checks::preload::{self, Library};
use crate::checks::{machine, program, userfault};
use crate::output::failure::{Failure, say};
use crate::output::file::Output;
use crate::report;
use crate::report::stats::Stats;
use crate::settings::Settings;
use crate::settings::shared_page::SharedPage;
use crate::settings::show;
use crate::settings::spill::Spill;
use crate::spill::service::Service;
use crate::supervisor::Supervisor;
use crate::supervisor::group::Group;
use crate::supervisor::lookout::{self, Known, Lookout};
use crate::supervisor::witness::Witness;
use crate::sys::signals::Signals;
use crate::sys::{self, rlimits};
use page_server::PageServer;
use spawn::Start;

/// The results of all checks, which are made before anything starts.
struct Checked {
    settings: Settings,
    path: PathBuf,
    library: Library,
    proven: Proven,
    limits: rlimits::Inherited,
    stats_file: Option<Output>,
    report_file: Option<Output>,
}

impl Checked {
    fn new(args: &RunArgs) -> Result<Self, Failure> {
        machine::proc_must_be_mounted()?;
        let proven = filters::prove()?;
        let limits = rlimits::Inherited::raise()
            .map_err(|e| Failure::new(format!("cannot block a signal: {}", e.desc())))?;
        let settings = Settings::new(args)?;
        let name = args.command.first().cloned().unwrap_or_default();
        let path = program::find(&name).map_err(|failure| value_meant(args, &name, failure))?;
        program::check(&path, args.command.get(1..).unwrap_or_default())?;
        userfault::must_work()?;
        let library = preload::find()?;
        if args.stats.is_some() && args.stats == args.report {
            return Err(Failure::new("--stats and --report name the same file; give each its own"));
        }
        let stats_file = args.stats.as_deref().map(|path| Output::prepare(path, "--stats")).transpose()?;
        let report_file = args.report.as_deref().map(|path| Output::prepare(path, "--report")).transpose()?;
        Ok(Self { settings, path, library, proven, limits, stats_file, report_file })
    }
}

/// `--proactive 5 PROGRAM` is a mistake for `--proactive=5 PROGRAM`.
fn value_meant(args: &RunArgs, name: &OsStr, mut failure: Failure) -> Failure {
    let number = name.to_str().filter(|name| name.parse::<f64>().is_ok());
    if let (Some(_), Some(number)) = (args.proactive, number) {
        failure.text += &format!("; the seconds of --proactive follow an equals sign: --proactive={number}");
    }
    failure
}

/// Runs the program and returns the exit status.
pub fn run(args: RunArgs) -> Result<i32, Failure> {
    let Checked { settings, path, library, proven, limits, stats_file, report_file } = Checked::new(&args)?;
    let failed = |what: &str, e: nix::errno::Errno| Failure::new(format!("cannot {what}: {}", e.desc()));
    // No file opened from here on may become standard error, to which messages go. (The output files avoid
    // the standard descriptors by themselves.)
    sys::provide_standard_descriptors().map_err(|e| Failure::new(format!("/dev/null: {e}")))?;
    let page = SharedPage::new(&settings)?;
    page.page.proven_filters.store(proven.filters, Relaxed);
    // This may take long. Until it is done, a signal may end memfold at once, because nothing exists yet that
    // would have to end with it.
    let before = sys::descriptors();
    let tier = settings.spill.as_ref().map(Spill::open).transpose()?;
    let connections: Vec<_> = sys::descriptors().into_iter().filter(|fd| !before.contains(fd)).collect();
    let signals = Signals::new().map_err(|e| failed("read signals", e))?;
    // The supervisor adopts the orphans of the tree, so that it keeps track of them.
    nix::sys::prctl::set_child_subreaper(true).map_err(|e| failed("adopt orphans", e))?;
    let group = if args.cgroup { make_group() } else { None };
    // Without a server some programs cannot be managed; the supervisor reports them.
    let server = page.file().filter(|_| proven.may_listen).and_then(|file| PageServer::open(file).ok());

    let waiting = spawn::prepare(&Start {
        path: &path,
        words: &args.command,
        environment: environment(&library.entry, &page, server.as_ref()),
        signals: signals.inherited(),
        limits,
        cgroup: group.as_ref().and_then(|group| group.entrance().ok()),
    })?;
    // The witness starts after the program's process, which must be the first child.
    let witness = Witness::start();
    let outputs = stats_file.iter().chain(&report_file).map(Output::descriptor);
    let own = [2, signals.as_fd().as_raw_fd()];
    let own = own.into_iter().chain(page.descriptor()).chain(waiting.descriptors());
    let own = own.chain(server.iter().flat_map(PageServer::descriptors));
    let_go_of_inherited(&own.chain(outputs).chain(connections).collect::<Vec<_>>());

    let service = serve(&page, tier, &settings);
    let known = Known::new();
    let lookout = look_out(&page, &settings, waiting.pid().as_raw(), &known);
    if let Some(Err(e)) = server.as_ref().map(PageServer::serve) {
        say(&format!("programs that change their user are not managed: cannot start a thread: {e}"));
    }
    let (begin, kills) = (Instant::now(), Kills::now());
    let program = match waiting.go() {
        Ok(program) => program,
        Err(failure) => {
            service.into_iter().for_each(Service::end);
            return Err(failure);
        }
    };
    let wants_report = report_file.is_some();
    let supervisor =
        Supervisor::new(&page, program, begin, &signals, group.as_ref(), wants_report, service.as_ref());
    let (ending, seen, records) = supervisor.telling(known).watch(witness);
    lookout.into_iter().for_each(Lookout::end);
    drop(group);

    let stats = Stats::new(page.page, &settings, &words(&args.command), ending, &seen);
    write(stats_file, "statistics", stats.to_json().as_bytes());
    if let Some(records) = records {
        write(report_file, "report", report::page::page(page.page, &stats, &records).as_bytes());
    }
    close(&stats, args.quiet);
    if !args.quiet {
        tell_of_others(page.page);
    }
    let around = || killed::Surroundings::look(page.page, &stats);
    if let Some(text) = killed::message(Kills::now().since(kills), ending, around, &stats) {
        say(&text);
    }
    service.into_iter().for_each(Service::end);
    if let Some(server) = server {
        server.leave(page.page);
    }
    Ok(ending.status())
}

/// The words of the command as text.
fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| memfold_escape::text(word.as_encoded_bytes()).into_owned()).collect()
}

/// Starts serving the spill area, if there is one. If its threads cannot be started, nothing is spilled, and
/// the limit still applies.
fn serve(page: &SharedPage, tier: Option<Box<dyn Tier>>, settings: &Settings) -> Option<Service> {
    let (area, tier, spill) = (page.area?, tier?, settings.spill.as_ref()?);
    let cannot = |e: &std::io::Error| say(&format!("nothing is spilled: cannot start threads: {e}"));
    Service::start(area, tier, spill).inspect_err(cannot).ok()
}

/// Watches processes from outside while they have no thread of memfold, if that is possible. Otherwise, and
/// with the flag PARANOID, each process has a keeper from the start.
fn look_out(page: &SharedPage, settings: &Settings, child: i32, known: &Arc<Known>) -> Option<Lookout> {
    let can = settings.flags & page::flags::PARANOID == 0 && lookout::are_possible(child);
    can.then(|| Lookout::start(page.page, known.clone())).flatten()
}

fn make_group() -> Option<Group> {
    let made = match cgroup::own() {
        Some(own) => Group::new(&own).map_err(|e| format!("{}: {e}", memfold_escape::path(&own.directory))),
        None => Err("no memory cgroup is mounted".to_owned()),
    };
    made.map_err(|why| {
        say(&format!("cannot create a cgroup to measure with ({why}): measuring by page tables"))
    })
    .ok()
}

/// The program's environment: the one that memfold was started with, plus the library, the shared page, and
/// what language runtimes are told with `--show`.
fn environment(library: &OsStr, page: &SharedPage, server: Option<&PageServer>) -> Vec<(OsString, OsString)> {
    const PRELOAD: &str = "LD_PRELOAD";
    // A program with AddressSanitizer refuses to start after another preloaded library, unless this check is
    // turned off.
    const ASAN: &str = "ASAN_OPTIONS";
    let mut asan = std::env::var_os(ASAN).unwrap_or_default();
    asan.push(if asan.is_empty() { "" } else { ":" });
    asan.push("verify_asan_link_order=0");
    let preload = preload::with_users_own(library, std::env::var_os(PRELOAD).as_deref());
    let place = server.map_or_else(|| page.path(), |server| format!("{};{}", page.path(), server.address()));
    let mut set: Vec<(&str, OsString)> =
        vec![(PRELOAD, preload), (page::ENV_SHARED, place.into()), (ASAN, asan)];
    if let Some(shown) = page.page.shown() {
        set.extend(show::environment(shown.total, |name| std::env::var_os(name)));
    }
    let is_set = |name: &OsString| set.iter().any(|(own, _)| name == own);
    let mut all: Vec<_> = std::env::vars_os().filter(|(name, _)| !is_set(name)).collect();
    all.extend(set.into_iter().map(|(name, value)| (name.into(), value)));
    all
}

/// Closes inherited files and leaves the current directory. The supervisor must not keep open what the
/// program has released: ends of pipes, locked files, the directory it was started in.
fn let_go_of_inherited(own: &[i32]) {
    sys::close_all_but(own);
    // Occupy standard input and output, so that no file of ours gets these numbers.
    std::mem::forget([std::fs::File::open("/dev/null"), std::fs::File::open("/dev/null")]);
    let _ = std::env::set_current_dir("/");
}

/// Writes a file. The program has already ended with its own status, so a failure is only reported.
fn write(file: Option<Output>, what: &str, text: &[u8]) {
    let Some(file) = file else { return };
    let name = memfold_escape::path(file.path());
    if let Err(e) = file.write(text) {
        say(&format!("the {what} could not be written to '{name}': {e}"));
    }
}

/// Daemons go on after the program has ended. One that was forked a moment ago has no slot yet; it is an
/// orphan that this process has adopted, and has inherited the library.
fn tell_of_others(page: &page::Shared) {
    let mut pids: Vec<_> = page.live_slots().map(|slot| slot.pid.load(Relaxed) as i32).collect();
    let mut orphans = Vec::new();
    process::children(std::process::id() as i32, 1, &mut orphans);
    orphans.retain(|pid| !pids.contains(pid) && preload::is_loaded_by(*pid));
    pids.extend(orphans);
    match pids.into_iter().filter(|pid| !process::has_ended(*pid)).count() {
        0 => {}
        1 => say("1 process goes on in the background, within the limit: 'memfold top' shows it"),
        count => say(&format!(
            "{count} processes go on in the background, within the limit: 'memfold top' shows them"
        )),
    }
}

fn close(stats: &Stats, quiet: bool) {
    if stats.processes == 0 && stats.wall_seconds > 0.1 {
        say(
            "the program never loaded memfold's library: nothing was managed (is it static, or does it clear its environment?)",
        );
        return;
    }
    if !quiet || stats.passed_limit() {
        say(&stats.closing_line());
    }
    if !quiet {
        stats.too_little(cgroup::own().and_then(|group| group.limit)).iter().for_each(|hint| say(hint));
    }
}
