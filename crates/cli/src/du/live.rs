//! A tree that was just scanned: its files can be deleted, and its directories read again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use memfold_args::DuArgs;
use memfold_du::browse::{Actions, Control, Event, Step};
use memfold_du::scan::{self, Progress};
use memfold_du::source::Source;
use memfold_du::tree::Tree;
use memfold_du::{Error, delete};

/// The variable for the depth of nested shells, as in ncdu.
const LEVEL: &str = "NCDU_LEVEL";

/// The tree with its actions; see the module.
pub struct Live<'t, 's> {
    tree: &'t mut Tree<'s>,
    options: scan::Options,
    may_delete: bool,
    may_refresh: bool,
    may_shell: bool,
}

impl<'t, 's> Live<'t, 's> {
    /// The tree, with the permitted actions.
    pub fn new(tree: &'t mut Tree<'s>, options: scan::Options, args: &DuArgs) -> Self {
        Live {
            tree,
            options,
            may_delete: args.may.delete,
            may_refresh: !args.disable_refresh,
            may_shell: args.may.shell,
        }
    }

    fn rescan(&mut self, directory: u32, tick: impl FnMut(&Progress) -> bool) -> Result<(), Error> {
        scan::rescan(self.tree, directory, &self.options, &Progress::default(), tick)
    }
}

impl Actions for Live<'_, '_> {
    fn source(&self) -> &dyn Source {
        self.tree
    }

    fn no_delete(&self) -> Option<&str> {
        (!self.may_delete).then_some("Deleting is switched off (-r or --disable-delete).")
    }

    fn no_refresh(&self) -> Option<&str> {
        (!self.may_refresh).then_some("Refreshing is switched off (--disable-refresh).")
    }

    fn no_shell(&self) -> Option<&str> {
        (!self.may_shell).then_some("The shell is switched off (-rr or --disable-shell).")
    }

    fn delete(
        &mut self,
        directory: u32,
        slot: u32,
        progress: &mut dyn FnMut(Event<'_>) -> Control,
    ) -> Result<(), Error> {
        // If nothing was deleted, the directory is not read again unless the user asks for it: otherwise new
        // entries could be mistaken for those that were shown.
        delete::delete(self.tree, directory, slot, &self.options, &mut |event| {
            let control = match event {
                delete::Event::Step(delete::Progress { seen, deleted, path }) => {
                    let items = *deleted.max(seen);
                    progress(Event::Step(&Step { items, path: path.clone(), ..Step::default() }))
                }
                delete::Event::Failed(failure) => progress(Event::Failed(failure)),
            };
            control == Control::Go
        })?;
        Ok(())
    }

    fn refresh(&mut self, directory: u32, progress: &mut dyn FnMut(&Step) -> Control) -> Result<(), Error> {
        self.rescan(directory, |read| progress(&Step::from(read)) == Control::Go)
    }

    fn shell(&mut self, directory: u32) -> io::Result<()> {
        let path = self.tree.path(directory).map_err(io::Error::other)?;
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let shell = set("NCDU_SHELL").or_else(|| set("SHELL")).unwrap_or_else(|| "/bin/sh".into());
        let level = set(LEVEL).and_then(|level| level.to_str()?.parse::<u32>().ok()).unwrap_or(0);
        println!("{}", memfold_escape::shown(&path));
        let level = level.saturating_add(1).to_string();
        // The shell's exit status does not matter.
        Command::new(shell).current_dir(OsStr::from_bytes(&path)).env(LEVEL, level).status().map(|_| ())
    }
}
