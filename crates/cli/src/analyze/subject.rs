//! The subject of an analysis: processes, a core, or files of pages.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use indicatif::ProgressBar;
use memfold_analyze::Error;
use memfold_analyze::idle::{self, WorkingSet};
use memfold_analyze::source::several::{self, Processes};
use memfold_analyze::source::{self, Source};
use memfold_escape::shown;
use memfold_proc::process;

use crate::checks::trace;
use crate::output::failure::{Failure, say};

/// The subject of an analysis.
pub enum Subject {
    /// Processes, by number.
    Processes(Vec<i32>),
    /// A core, or files of pages.
    Files(Vec<OsString>),
}

/// A subject that can be read.
pub struct Opened {
    /// Its pages.
    pub source: Box<dyn Source>,
    /// `process`, `core` or `pages`.
    pub kind: &'static str,
    /// Its name for people.
    pub what: String,
    /// Its working set, if it was watched.
    pub set: Option<WorkingSet>,
    /// The parts that cannot be analysed, by their index.
    pub failed: BTreeMap<usize, Failure>,
}

impl Subject {
    /// A number is a process; everything else is a file.
    pub fn named(what: &[OsString]) -> Result<Self, Failure> {
        let number = |word: &OsString| {
            word.to_str().filter(|it| it.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned)
        };
        let numbers: Vec<_> = what.iter().filter_map(number).collect();
        match (&numbers[..], what.len()) {
            ([], _) => Ok(Subject::Files(what.to_vec())),
            (all, count) if all.len() == count => {
                let mut pids = Vec::new();
                for text in all {
                    match text.parse::<i32>() {
                        Ok(pid) if pid > 0 && pids.contains(&pid) => {}
                        Ok(pid) if pid > 0 => pids.push(pid),
                        _ => {
                            return Err(Failure::new(format!(
                                "{text} is not a process ID; a file of that name is ./{text}"
                            )));
                        }
                    }
                }
                if pids.len() > several::MOST {
                    return Err(Failure::new(format!("give at most {} processes", several::MOST)));
                }
                Ok(Subject::Processes(pids))
            }
            ([pid, ..], _) => Err(Failure::new(format!(
                "'{pid}' is a process, which cannot be analysed together with files: leave the files out, or give ./{pid} if it is a file"
            ))),
        }
    }

    /// The name of each subject.
    fn names(&self) -> Vec<String> {
        match self {
            Subject::Processes(pids) => {
                let named = |pid: &i32| {
                    let name = process::name(*pid).unwrap_or_default();
                    format!("{pid} ({})", shown(&name))
                };
                pids.iter().map(named).collect()
            }
            Subject::Files(paths) => paths.iter().map(|path| shown(path.as_encoded_bytes())).collect(),
        }
    }

    /// One phrase for several subjects.
    fn said(&self, names: &[&str]) -> String {
        let all = names.join(", ");
        match (self, names.len()) {
            (Subject::Processes(_), 1) => format!("process {all}"),
            (Subject::Processes(_), _) => format!("processes {all}"),
            (Subject::Files(_), _) => all,
        }
    }

    /// Watches for `idle` seconds which memory is in use, and opens the subject. Reports the parts that fail;
    /// if all fail, returns the last failure.
    pub fn open(&self, idle: f64, bar: &ProgressBar) -> Result<Opened, Failure> {
        // Names must be read before the processes end.
        let names = self.names();
        let mut failed = BTreeMap::new();
        // Watching precedes reading, because reading pages counts as use.
        let watched = match self {
            Subject::Processes(pids) if idle > 0.0 => {
                bar.set_message("watching what is in use");
                let progress = |share: f64| bar.set_position((share * 500.0) as u64);
                Some(idle::watch(pids, Duration::from_secs_f64(idle), progress))
            }
            _ => None,
        };
        let watched = watched.map(|mut watched| {
            failed.extend(watched.failed.drain(..).map(|(place, error)| (place, failure(error))));
            watched
        });
        bar.set_message("finding the pages");
        let (source, kind, unopened) = self.source(&failed);
        failed.extend(unopened.into_iter().map(|(place, error)| (place, failure(error))));
        let is_failed = |place: usize| failed.contains_key(&place);
        // Analyse what is available, and report the others.
        let mut told = failed.values().cloned();
        let last = if failed.len() == names.len() { told.next_back() } else { None };
        bar.suspend(|| told.for_each(|failure| say(&failure.text)));
        if let Some(last) = last {
            bar.finish_and_clear();
            return Err(last);
        }
        let set = watched.map(|watched| watched.set(|place| !is_failed(place)));
        let left =
            names.iter().enumerate().filter(|(place, _)| !is_failed(*place)).map(|(_, name)| name.as_str());
        let what = self.said(&left.collect::<Vec<_>>());
        Ok(Opened { source, kind, what, set, failed })
    }

    /// The pages of all parts except the failed ones, their kind, and the parts that cannot be opened.
    fn source(
        &self,
        failed: &BTreeMap<usize, Failure>,
    ) -> (Box<dyn Source>, &'static str, Vec<(usize, Error)>) {
        match self {
            Subject::Processes(pids) => {
                let places = pids.iter().copied().enumerate();
                let left: Vec<_> = places.filter(|(place, _)| !failed.contains_key(place)).collect();
                let (processes, unopened) = Processes::open(&left);
                (Box::new(processes), "process", unopened)
            }
            Subject::Files(paths) => {
                let is_core =
                    matches!(&paths[..], [path] if source::is_core(path.as_ref()).is_ok_and(|it| it));
                let (files, unopened) = source::open(paths);
                (files, if is_core { "core" } else { "pages" }, unopened)
            }
        }
    }

    /// The failure if no page could be read.
    pub fn vanished(&self, opened: &Opened) -> Failure {
        match self {
            Subject::Processes(pids) if pids.len() == opened.failed.len() + 1 => {
                let only = pids.iter().enumerate().find(|(place, _)| !opened.failed.contains_key(place));
                failure(Error::Vanished(only.map_or(0, |(_, pid)| *pid)))
            }
            _ => Failure::new(format!("no page of {} could be read", opened.what)),
        }
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Process(pid, error) => trace::refused(pid, &error, &format!("memfold analyze {pid}")),
        Error::Vanished(pid) if !process::has_ended(pid) => Failure::new(format!(
            "process {pid} has no memory of its own that could be compressed; kernel threads have none"
        )),
        other => Failure::new(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn numbers_are_processes() {
        assert!(matches!(Subject::named(&words(&["17"])), Ok(Subject::Processes(pids)) if pids == [17]));
        assert!(
            matches!(Subject::named(&words(&["17", "4", "17"])), Ok(Subject::Processes(pids)) if pids == [17, 4])
        );
        assert!(matches!(Subject::named(&words(&["./17"])), Ok(Subject::Files(_))));
        assert!(matches!(Subject::named(&words(&["a", "b"])), Ok(Subject::Files(files)) if files.len() == 2));
        assert!(Subject::named(&words(&["17", "a"])).is_err_and(|it| it.text.contains("./17")));
        assert!(Subject::named(&words(&["0"])).is_err() && Subject::named(&words(&["99999999999"])).is_err());
    }
}
