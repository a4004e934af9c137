//! Handles keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::actions::Actions;
use super::draw::boxes;
use super::help;
use super::state::{Browser, Select};
use super::view::{Column, Sort};
use super::windows::{Answer, Delete, Help, Info, Message, Window};
use crate::Error;

/// An action that the browser cannot carry out itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// End the browser.
    Quit,
    /// Delete the entry in a slot. The user has confirmed it, if the options ask for that.
    Delete {
        /// The directory's number.
        directory: u32,
        /// The slot in it.
        slot: u32,
    },
    /// Read the opened directory again.
    Refresh,
    /// Run a shell there.
    Shell,
    /// Stop the program until the shell continues it.
    Suspend,
}

/// Whether the first press of a column's key sorts in descending order.
fn is_first_descending(column: Column) -> bool {
    column != Column::Name
}

impl Browser<'_, '_> {
    /// Handles a key. Errors are shown in a window.
    pub fn key(&mut self, actions: &dyn Actions, key: KeyEvent) -> Act {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Act::Quit,
            KeyCode::Char('z') if is_control => return Act::Suspend,
            KeyCode::Char('q') if self.broken => return Act::Quit,
            // Redraws, as these keys do in other programs: the caller redraws after each key.
            KeyCode::Char(_) if is_control || key.modifiers.contains(KeyModifiers::ALT) => {
                return Act::Nothing;
            }
            _ => (),
        }
        let done = match self.window {
            Window::None => self.list_key(actions, key.code),
            Window::Info(_) => self.info_key(actions, key.code),
            Window::Help(_) => {
                self.help_key(key.code);
                Ok(Act::Nothing)
            }
            Window::Delete(_) => Ok(self.delete_key(key.code)),
            Window::Quit => Ok(self.quit_key(key.code)),
            Window::Message(_) => {
                self.window = Window::None;
                Ok(Act::Nothing)
            }
        };
        done.unwrap_or_else(|error| {
            self.window = Window::error(&error);
            Act::Nothing
        })
    }

    fn list_key(&mut self, actions: &dyn Actions, key: KeyCode) -> Result<Act, Error> {
        let source = actions.source();
        let row = self.selected;
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.select(row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(row + 1),
            KeyCode::PageUp => self.select(row.saturating_sub(self.height)),
            KeyCode::PageDown => self.select(row + self.height),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(u64::MAX),
            KeyCode::Right | KeyCode::Enter | KeyCode::Char('l') => self.enter(source)?,
            KeyCode::Left | KeyCode::Backspace | KeyCode::Char('<' | 'h') => self.leave(source)?,
            KeyCode::Char('n') => self.sort_by(actions, Column::Name)?,
            KeyCode::Char('s') => self.sort_by(actions, self.size_column())?,
            KeyCode::Char('C') => self.sort_by(actions, Column::Items)?,
            KeyCode::Char('M') if self.has_times => self.sort_by(actions, Column::Modified)?,
            KeyCode::Char('t') => {
                self.change(actions, |sort| sort.directories_first = !sort.directories_first)?;
            }
            KeyCode::Char('e') => self.change(actions, |sort| sort.hidden = !sort.hidden)?,
            KeyCode::Char('a') => self.toggle_apparent(actions)?,
            KeyCode::Char('g') => self.options.graph = self.options.graph.next(),
            KeyCode::Char('c') => self.options.items = !self.options.items,
            KeyCode::Char('m') if self.has_times => self.options.modified = !self.options.modified,
            KeyCode::Char('m' | 'M') => {
                self.say("Times", "Times are unknown. They are known if the tree is scanned with -e.");
            }
            KeyCode::Char('u') => self.options.links = self.options.links.next(),
            KeyCode::Char('i') if self.position().is_some() => {
                self.window = Window::Info(Box::default());
            }
            KeyCode::Char('?') | KeyCode::F(1) => self.window = Window::Help(Help::default()),
            KeyCode::Char('q') if self.options.confirm_quit => self.window = Window::Quit,
            KeyCode::Char('q') => return Ok(Act::Quit),
            KeyCode::Char('d') => return self.ask_delete(actions),
            KeyCode::Char('r') => match actions.no_refresh() {
                Some(why) => self.say("Refresh", why),
                None => return Ok(Act::Refresh),
            },
            KeyCode::Char('b') => match actions.no_shell() {
                Some(why) => self.say("Shell", why),
                None => return Ok(Act::Shell),
            },
            _ => (),
        }
        Ok(Act::Nothing)
    }

    fn say(&mut self, title: &'static str, text: &str) {
        self.window = Window::Message(Message { title, text: text.into() });
    }

    /// The size that is shown.
    fn size_column(&self) -> Column {
        if self.options.apparent { Column::ApparentSize } else { Column::DiskUsage }
    }

    /// Changes the order. If that fails, the old order stays.
    fn change(&mut self, actions: &dyn Actions, change: impl FnOnce(&mut Sort)) -> Result<(), Error> {
        let before = self.options.sort;
        change(&mut self.options.sort);
        let sorted = self.sort(actions.source());
        if sorted.is_err() {
            self.options.sort = before;
        }
        sorted
    }

    fn sort_by(&mut self, actions: &dyn Actions, column: Column) -> Result<(), Error> {
        self.change(actions, |sort| {
            sort.descending =
                if sort.column == column { !sort.descending } else { is_first_descending(column) };
            sort.column = column;
        })
    }

    fn toggle_apparent(&mut self, actions: &dyn Actions) -> Result<(), Error> {
        self.options.apparent = !self.options.apparent;
        let column = self.size_column();
        match self.options.sort.column {
            Column::DiskUsage | Column::ApparentSize => self.change(actions, |sort| sort.column = column),
            _ => Ok(()),
        }
    }

    fn ask_delete(&mut self, actions: &dyn Actions) -> Result<Act, Error> {
        if let Some(why) = actions.no_delete() {
            self.say("Delete", why);
            return Ok(Act::Nothing);
        }
        // An entry that is not on the screen cannot be deleted.
        let (Some(slot), Some(item)) = (self.slot()?, self.item()) else { return Ok(Act::Nothing) };
        let directory = self.directory();
        if !boxes::is_question_seen(self.size) {
            let item = "There is too little room on the screen to show what would be deleted.";
            self.say("Delete", item);
            return Ok(Act::Nothing);
        }
        if !self.options.confirm_delete {
            return Ok(Act::Delete { directory, slot });
        }
        self.window = Window::Delete(Delete::new(directory, slot, item));
        Ok(Act::Nothing)
    }

    fn delete_key(&mut self, key: KeyCode) -> Act {
        let is_seen = boxes::is_question_seen(self.size);
        let Window::Delete(delete) = &mut self.window else { return Act::Nothing };
        match key {
            KeyCode::Left | KeyCode::Up | KeyCode::BackTab | KeyCode::Char('h' | 'k') => {
                delete.answer = delete.answer.moved(-1);
                return Act::Nothing;
            }
            KeyCode::Right | KeyCode::Down | KeyCode::Tab | KeyCode::Char('l' | 'j') => {
                delete.answer = delete.answer.moved(1);
                return Act::Nothing;
            }
            KeyCode::Enter => (),
            KeyCode::Esc | KeyCode::Char('q' | 'n') => delete.answer = Answer::No,
            _ => return Act::Nothing,
        }
        let Delete { directory, slot, answer, .. } = *delete;
        self.window = Window::None;
        // The screen may have become smaller since the question was shown.
        if answer == Answer::No || !is_seen {
            return Act::Nothing;
        }
        self.options.confirm_delete = answer != Answer::Always;
        Act::Delete { directory, slot }
    }

    fn quit_key(&mut self, key: KeyCode) -> Act {
        match key {
            KeyCode::Char('y' | 'Y') => Act::Quit,
            _ => {
                self.window = Window::None;
                Act::Nothing
            }
        }
    }

    fn help_key(&mut self, key: KeyCode) {
        let Window::Help(help) = &mut self.window else { return };
        let last_tab = help::TABS.len() - 1;
        let tab = match key {
            KeyCode::Char(digit @ '1'..='3') => digit as usize - '1' as usize,
            KeyCode::Right | KeyCode::Tab | KeyCode::Char('l') => last_tab.min(help.tab + 1),
            KeyCode::Left | KeyCode::BackTab | KeyCode::Char('h') => help.tab.saturating_sub(1),
            KeyCode::Down | KeyCode::PageDown | KeyCode::Char('j' | ' ') => {
                // Drawing corrects this for the number of lines that fit.
                help.top = (help.top + 1).min(help::lines(help.tab).len().saturating_sub(1));
                return;
            }
            KeyCode::Up | KeyCode::PageUp | KeyCode::Char('k') => {
                help.top = help.top.saturating_sub(1);
                return;
            }
            _ => {
                self.window = Window::None;
                return;
            }
        };
        *help = Help { tab, top: 0 };
    }

    fn info_key(&mut self, actions: &dyn Actions, key: KeyCode) -> Result<Act, Error> {
        let Window::Info(info) = &mut self.window else { return Ok(Act::Nothing) };
        let Info { links, of, names, selected, .. } = &mut **info;
        match key {
            KeyCode::Char('i' | 'q') | KeyCode::Esc => self.window = Window::None,
            KeyCode::Char('1') | KeyCode::Left | KeyCode::Char('h') => *links = false,
            KeyCode::Char('2') | KeyCode::Right | KeyCode::Char('l') => *links = of.is_some(),
            KeyCode::Up | KeyCode::Char('k') if *links => *selected = selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') if *links => *selected += 1,
            KeyCode::PageUp if *links => *selected = selected.saturating_sub(8),
            KeyCode::PageDown if *links => *selected += 8,
            KeyCode::Home if *links => *selected = 0,
            KeyCode::End if *links => *selected = names.len(),
            KeyCode::Enter if *links => {
                if let Some(name) = names.get(*selected) {
                    let (directory, slot) = (name.directory, name.slot);
                    self.open(actions.source(), directory, Select::Slot(slot))?;
                    self.window = Window::None;
                }
            }
            KeyCode::Enter => self.window = Window::None,
            // Other keys act on the list, which is still visible.
            _ => return self.list_key(actions, key),
        }
        Ok(Act::Nothing)
    }
}
