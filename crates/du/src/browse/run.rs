//! The main loop: keys and screen, until the user quits.

use crossterm::event::KeyCode;
use jiff::tz::TimeZone;
use memfold::heap::Session;

use super::actions::{Actions, Control, Event};
use super::draw::boxes;
use super::keys::Act;
use super::options::Options;
use super::state::Browser;
use super::terminal::screen::{Input, Screen};
use super::windows::Window;
use crate::Error;

/// How the browser ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The user quit.
    Quit,
    /// A signal arrived: its number.
    Signal(i32),
}

/// Browses a tree. Nothing else may use `session`: it keeps the sorted lists. An error means that nothing can be
/// shown: the terminal failed, or the tree's root cannot be read.
pub fn run(
    screen: &mut Screen,
    actions: &mut dyn Actions,
    session: &Session<'_>,
    options: Options,
) -> Result<End, Error> {
    let mut browser = Browser::new(session, actions.source(), options, TimeZone::system())?;
    loop {
        let size = screen.size().map_err(Error::Terminal)?;
        browser.prepare(actions.source(), size);
        screen.draw(|frame| browser.draw(frame)).map_err(Error::Terminal)?;
        let act = match screen.input().map_err(Error::Terminal)? {
            Input::Key(key) => browser.key(actions, key),
            Input::Resize => Act::Nothing,
            Input::Signal(signal) => return Ok(End::Signal(signal)),
        };
        match act {
            Act::Nothing => (),
            Act::Quit => return Ok(End::Quit),
            Act::Delete { directory, slot } => delete(screen, &mut browser, actions, directory, slot)?,
            Act::Refresh => refresh(screen, &mut browser, actions)?,
            Act::Shell => {
                let directory = browser.directory();
                let ended = screen.without(|| actions.shell(directory)).map_err(Error::Terminal)?;
                if let Err(error) = ended {
                    browser.window = Window::error(&format!("The shell could not be started: {error}"));
                }
            }
            Act::Suspend => screen.suspend().map_err(Error::Terminal)?,
        }
    }
}

/// The answer to a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failures {
    Ask,
    Ignore,
}

fn delete(
    screen: &mut Screen,
    browser: &mut Browser<'_, '_>,
    actions: &mut dyn Actions,
    directory: u32,
    slot: u32,
) -> Result<(), Error> {
    screen.begin();
    let mut failures = Failures::Ask;
    let deleted = actions.delete(directory, slot, &mut |event| match event {
        Event::Step(step) => screen.show("Deleting...", || step.clone(), |frame| browser.draw(frame)),
        Event::Failed(_) if failures == Failures::Ignore => Control::Go,
        Event::Failed(error) => match ask(screen, browser, &error.to_string()) {
            Some(answer) => {
                failures = answer;
                Control::Go
            }
            None => Control::Stop,
        },
    });
    browser.deleted(actions, slot, deleted);
    Ok(())
}

/// Asks whether to continue an operation that partly failed; if so, returns how to answer the next failure.
fn ask(screen: &mut Screen, browser: &Browser<'_, '_>, text: &str) -> Option<Failures> {
    let mut answer = 0;
    loop {
        let colours = browser.options.colours;
        let drawn = screen.draw(|frame| {
            browser.draw(frame);
            boxes::failed(frame.buffer_mut(), colours, text, answer);
        });
        let Ok(Input::Key(key)) = drawn.and_then(|()| screen.input()) else { return None };
        match key.code {
            KeyCode::Left | KeyCode::BackTab | KeyCode::Char('h') => answer = answer.saturating_sub(1),
            KeyCode::Right | KeyCode::Tab | KeyCode::Char('l') => answer = 2.min(answer + 1),
            KeyCode::Enter => return [None, Some(Failures::Ask), Some(Failures::Ignore)][answer],
            KeyCode::Esc | KeyCode::Char('q') => return None,
            _ => (),
        }
    }
}

fn refresh(
    screen: &mut Screen,
    browser: &mut Browser<'_, '_>,
    actions: &mut dyn Actions,
) -> Result<(), Error> {
    let name = browser.item().map(|item| item.entry.name.clone()).unwrap_or_default();
    screen.begin();
    let read = actions.refresh(browser.directory(), &mut |step| {
        screen.show("Scanning...", || step.clone(), |frame| browser.draw(frame))
    });
    browser.refreshed(actions, name, read);
    Ok(())
}

impl Browser<'_, '_> {
    /// To be called after a deletion, whether it succeeded, failed, or partly succeeded.
    pub fn deleted(&mut self, actions: &dyn Actions, slot: u32, result: Result<(), Error>) {
        let source = actions.source();
        // A deleted entry is no longer shown, so the next one is in its row.
        let select = if result.is_ok() {
            super::state::Select::Row(self.selected)
        } else {
            super::state::Select::Slot(slot)
        };
        let opened = self.open(source, self.directory(), select);
        self.say_failure(result.and(opened));
    }

    /// To be called after the opened directory was read again, or after that failed. `name` was selected.
    pub fn refreshed(&mut self, actions: &dyn Actions, name: Vec<u8>, result: Result<(), Error>) {
        let opened = self.reopen(actions.source(), name);
        self.say_failure(result.and(opened));
    }

    fn say_failure(&mut self, result: Result<(), Error>) {
        match result {
            Ok(()) | Err(Error::Stopped) => (),
            Err(error) => self.window = Window::error(&error),
        }
    }
}
