//! The full screen, which alternates between keys and looks.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use memfold::size::Human;
use memfold_du::browse::{self, Colours, Input, Screen};
use memfold_shared::page::SMALLEST_LIMIT;

use super::look::Looker;
use super::state::{Page, Prompt, Question, State, Wish};
use super::view::View;
use crate::output::failure::Failure;
use crate::settings::limit;
use crate::trees::Tree;

/// The time to the second look, so that the first rates appear soon.
const FIRST: Duration = Duration::from_millis(500);
/// The maximum length of a limit that is typed.
const LONGEST: usize = 32;
const MIB: u64 = 1 << 20;

/// The action that a key requests, beyond the state of the screen.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// Quit.
    Quit,
    /// Stop until the shell continues it.
    Suspend,
    /// Continue after a pause.
    Look,
    /// Set a tree's limit to the one that was typed.
    Enter,
    /// Raise or lower a tree's limit by this many percent.
    Change(i32, i64),
}

/// Looks and draws until the user quits or `count` looks have been taken; returns the exit status.
pub fn run(mut looker: Looker, interval: Duration, count: u64, is_read_only: bool) -> Result<i32, Failure> {
    let colours = Colours::default();
    let options = browse::Options { colours, ..browse::Options::default() };
    let mut screen = Screen::new(&options).map_err(|error| Failure::new(error.to_string()))?;
    let failed = |error: std::io::Error| Failure::new(format!("the terminal: {error}"));
    let view = View { colours: colours != Colours::Off, interval: interval.as_secs_f64() };
    let (mut state, mut looks, mut next) = (State::new(), 0, Instant::now());
    state.is_read_only = is_read_only;
    loop {
        let now = Instant::now();
        if now >= next && !state.is_paused && !state.has_ended {
            if looks == count {
                return Ok(0);
            }
            let look = looker.look();
            if looker.has_ended() {
                state.end();
            } else {
                state.take(look);
            }
            next = now + if looks == 0 { interval.min(FIRST) } else { interval };
            looks += 1;
        }
        screen.draw(|frame| view.draw(frame, &mut state)).map_err(failed)?;
        let left = match state.is_paused || state.has_ended {
            true => Duration::MAX / 4,
            false => next.saturating_duration_since(Instant::now()),
        };
        let act = match screen.input_within(left.min(Duration::from_secs(3600))).map_err(failed)? {
            Some(Input::Key(key)) => key_pressed(&mut state, key),
            Some(Input::Signal(signal)) => return Ok(128 + signal),
            Some(Input::Resize) | None => Act::Nothing,
        };
        match act {
            Act::Nothing => {}
            Act::Quit => return Ok(0),
            Act::Suspend => screen.suspend().map_err(failed)?,
            Act::Look => next = Instant::now(),
            Act::Enter => enter(&mut state, &looker),
            Act::Change(supervisor, percent) => change(&mut state, &looker, supervisor, percent),
        }
    }
}

/// Handles a key.
fn key_pressed(state: &mut State, key: KeyEvent) -> Act {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => return Act::Quit,
        KeyCode::Char('z') if is_control => return Act::Suspend,
        _ => {}
    }
    if let Some(question) = state.question.take() {
        if !matches!(key.code, KeyCode::Char('y' | 'Y')) {
            state.message = Some("its limit stays".into());
            return Act::Nothing;
        }
        state.allowed.insert(question.supervisor);
        return wished(state, question.supervisor, question.wish);
    }
    if state.prompt.is_some() {
        return typed(state, key.code, is_control);
    }
    if let Some((shown, from)) = state.help {
        let page = state.visible;
        state.help = match key.code {
            KeyCode::Down | KeyCode::Char('j') => Some((shown, from + 1)),
            KeyCode::Up | KeyCode::Char('k') => Some((shown, from.saturating_sub(1))),
            KeyCode::PageDown => Some((shown, from + page)),
            KeyCode::PageUp => Some((shown, from.saturating_sub(page))),
            KeyCode::Char('?') | KeyCode::F(1) if shown == Page::Keys => Some((Page::Columns, 0)),
            _ => None,
        };
        return Act::Nothing;
    }
    state.message = None;
    let page = state.visible as isize;
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Act::Quit,
        KeyCode::Char('?') | KeyCode::F(1) => state.help = Some((Page::Keys, 0)),
        KeyCode::Down | KeyCode::Char('j') => state.move_by(1),
        KeyCode::Up | KeyCode::Char('k') => state.move_by(-1),
        KeyCode::PageDown => state.move_by(page),
        KeyCode::PageUp => state.move_by(-page),
        KeyCode::Home => state.move_by(isize::MIN),
        KeyCode::End => state.move_by(isize::MAX),
        KeyCode::Right | KeyCode::Char('s') => state.sort_by(1),
        KeyCode::Left => state.sort_by(-1),
        KeyCode::Char('r') => state.is_reversed = !state.is_reversed,
        KeyCode::Char(' ') => {
            state.is_paused = !state.is_paused && !state.has_ended;
            return if state.is_paused { Act::Nothing } else { Act::Look };
        }
        KeyCode::Char(key @ ('l' | '+' | '=' | '-')) => {
            let Some(tree) = state.tree() else { return Act::Nothing };
            let (supervisor, user, asks) = (tree.supervisor, tree.user, state.asks(tree));
            let wish = match key {
                'l' => Wish::Type,
                '-' => Wish::Change(-5),
                _ => Wish::Change(5),
            };
            if state.is_read_only {
                state.message = Some("read-only: keys do not change limits (--read-only)".into());
            } else if asks {
                state.question = Some(Question { supervisor, user, wish });
            } else {
                return wished(state, supervisor, wish);
            }
        }
        _ => {}
    }
    Act::Nothing
}

/// Handles a permitted request for another limit.
fn wished(state: &mut State, supervisor: i32, wish: Wish) -> Act {
    match wish {
        Wish::Type => state.prompt = Some(Prompt { supervisor, ..Prompt::default() }),
        Wish::Change(percent) => return Act::Change(supervisor, percent),
    }
    Act::Nothing
}

/// Handles a key while a limit is being typed.
fn typed(state: &mut State, code: KeyCode, is_control: bool) -> Act {
    let Some(prompt) = &mut state.prompt else { return Act::Nothing };
    match code {
        KeyCode::Enter if prompt.text.trim().is_empty() => state.prompt = None,
        KeyCode::Enter => return Act::Enter,
        KeyCode::Esc => state.prompt = None,
        KeyCode::Backspace => drop(prompt.text.pop()),
        KeyCode::Char('u') if is_control => prompt.text.clear(),
        KeyCode::Char(key) if !is_control && !key.is_control() && prompt.text.len() < LONGEST => {
            prompt.text.push(key);
            prompt.error = None;
        }
        _ => {}
    }
    Act::Nothing
}

/// Applies the limit that was typed, or reports the error in it.
fn enter(state: &mut State, looker: &Looker) {
    let Some(prompt) = &mut state.prompt else { return };
    match limit::read_limit(&prompt.text, limit::HOW, Some(prompt.supervisor)) {
        Err(failure) => prompt.error = Some(failure.text),
        Ok(limit) => {
            let supervisor = prompt.supervisor;
            state.prompt = None;
            set(state, looker, supervisor, limit.bytes, |tree| tree.set_limit(&limit), &limit.warning);
        }
    }
}

fn change(state: &mut State, looker: &Looker, supervisor: i32, percent: i64) {
    let Some(tree) = state.look.trees.iter().find(|tree| tree.supervisor == supervisor) else { return };
    // Change by whole MiB, at least one, so that the limit can move in both directions.
    let limit = tree.limit_bytes;
    let step = (limit / 100 * percent.unsigned_abs()).max(MIB);
    let changed = if percent < 0 { limit.saturating_sub(step) } else { limit.saturating_add(step) };
    let changed = if percent < 0 { changed / MIB * MIB } else { changed.div_ceil(MIB).saturating_mul(MIB) };
    if changed < SMALLEST_LIMIT {
        state.message = Some(format!("memfold itself needs {} to work", Human(SMALLEST_LIMIT)));
        return;
    }
    set(state, looker, supervisor, changed, |tree| tree.set_bytes(changed), &None);
}

fn set(
    state: &mut State,
    looker: &Looker,
    supervisor: i32,
    bytes: u64,
    set: impl FnOnce(&Tree) -> u64,
    warning: &Option<String>,
) {
    let tree = looker.tree(supervisor).filter(|tree| tree.is_there());
    state.message = Some(match tree {
        None => format!("{supervisor} has ended: it no longer has a limit"),
        Some(tree) => {
            let before = set(tree);
            state.limit_is(supervisor, bytes);
            let warning = warning.as_ref().map_or(String::new(), |warning| format!("; {warning}"));
            format!("limit of {supervisor}: {}, was {}{warning}", Human(bytes), Human(before))
        }
    });
}

#[cfg(test)]
mod tests;
