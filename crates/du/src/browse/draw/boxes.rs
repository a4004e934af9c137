//! Windows on the screen: at their natural size, or as large as the screen allows.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Padding, Paragraph, Widget, Wrap};

use super::put;
use super::theme::Part;
use crate::browse::Step;
use crate::browse::help;
use crate::browse::options::Colours;
use crate::browse::state::Browser;
use crate::browse::text::format::{self, elapsed, number, size};
use crate::browse::text::{cut, shown};
use crate::browse::view::item::Item;
use crate::browse::windows::{Answer, Delete, HELP, Help, INFO, Info, Message, Window};
use crate::entry::Sum;

/// A window that needs more lines than the screen has gets a frame only if the screen has at least this many.
const FRAMED: u16 = 4;

/// Draws the frame of a window in the middle of the screen; returns its inside.
fn frame(buffer: &mut Buffer, colours: Colours, title: &str, tabs: &[&str], at: usize, size: Size) -> Rect {
    let screen = buffer.area;
    let (width, height) = (size.width.min(screen.width), size.height.min(screen.height));
    let area = Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    let style = |part| colours.style(part, false);
    Clear.render(area, buffer);
    // Otherwise only the frame would be visible.
    if height < size.height && height < FRAMED || width <= 4 {
        buffer.set_style(area, style(Part::Text));
        return area;
    }
    let mut block = Block::bordered()
        .style(style(Part::Text))
        .padding(Padding::horizontal(1))
        .title(Line::styled(format!(" {title} "), style(Part::Title)));
    if !tabs.is_empty() {
        let mut line = Line::default().right_aligned();
        for (number, tab) in tabs.iter().enumerate() {
            let part = if number == at { Part::Head } else { Part::Text };
            line.push_span(ratatui::text::Span::styled(format!(" {}:{tab} ", number + 1), style(part)));
        }
        block = block.title(line);
    }
    let inside = block.inner(area);
    block.render(area, buffer);
    inside
}

/// Writes a line of a window: a name and its value.
fn line(buffer: &mut Buffer, inside: Rect, colours: Colours, y: u16, name: &str, value: &str) {
    let x = put(buffer, inside, inside.x, inside.y + y, name, colours.style(Part::Title, false));
    let left = usize::from(inside.right().saturating_sub(x));
    put(buffer, inside, x, inside.y + y, &cut(value, left), colours.style(Part::Text, false));
}

/// Shows at the bottom right which key closes the window.
fn way_out(buffer: &mut Buffer, inside: Rect, colours: Colours, text: &str) {
    let x = inside.right().saturating_sub(text.len() as u16).max(inside.x);
    if inside.height > 0 {
        put(buffer, inside, x, inside.bottom() - 1, text, colours.style(Part::Text, false));
    }
}

/// Draws the open window.
pub(crate) fn draw(browser: &Browser<'_, '_>, frame: &mut Frame<'_>) {
    let buffer = frame.buffer_mut();
    let colours = browser.options.colours;
    match &browser.window {
        Window::None => (),
        Window::Info(info) => {
            if let Some(item) = browser.item() {
                about(buffer, browser, info, item);
            }
        }
        Window::Help(help) => help_box(buffer, colours, help),
        Window::Delete(delete) => question(buffer, colours, delete),
        Window::Quit => {
            let size = Size { width: 28, height: 3 };
            let inside = self::frame(buffer, colours, "Quit", &[], 0, size);
            put(buffer, inside, inside.x, inside.y, "Really quit? (y/N)", colours.style(Part::Text, false));
        }
        Window::Message(message) => message_box(buffer, colours, message),
    }
}

fn message_box(buffer: &mut Buffer, colours: Colours, Message { title, text }: &Message) {
    let lines = Paragraph::new(text.as_str()).wrap(Wrap { trim: true });
    let width = 60.min(buffer.area.width);
    // The frame and its padding take four columns; each line has at least one character.
    let columns = usize::from(width).saturating_sub(4).max(1);
    let height = text.lines().map(|line| line.len() / columns + 1).sum::<usize>() + text.len() / columns / 4;
    let height = (height.min(1000) as u16 + 4).min(buffer.area.height);
    let inside = frame(buffer, colours, title, &[], 0, Size { width, height });
    let part = if *title == "Error" { Part::Trouble } else { Part::Text };
    let text = Rect { height: inside.height.saturating_sub(1).max(1).min(inside.height), ..inside };
    lines.style(colours.style(part, false)).render(text, buffer);
    if inside.height > 1 {
        way_out(buffer, inside, colours, "Press any key to go on");
    }
}

fn help_box(buffer: &mut Buffer, colours: Colours, Help { tab, top }: &Help) {
    let inside = frame(buffer, colours, "Help", &help::TABS, *tab, HELP);
    let lines = help::lines(*tab);
    let room = usize::from(inside.height.saturating_sub(1));
    let top = (*top).min(lines.len().saturating_sub(room));
    for (y, (key, text)) in (0..).zip(lines[top..].iter().take(room)) {
        let y = inside.y + y;
        let x = if key.is_empty() || *tab != 0 {
            inside.x
        } else {
            inside.x + 16u16.saturating_sub(key.len() as u16)
        };
        let x = put(buffer, inside, x, y, key, colours.style(Part::Key, false));
        let gap = if key.is_empty() { 0 } else { 2 };
        put(buffer, inside, x + gap, y, text, colours.style(Part::Text, false));
    }
    if top + room < lines.len() {
        let y = inside.y + room as u16;
        put(buffer, inside, inside.x, y, "-- more: down --", colours.style(Part::Title, false));
    }
    way_out(buffer, inside, colours, "Press q to close");
}

fn question(buffer: &mut Buffer, colours: Colours, delete: &Delete) {
    let size = Size { width: 60, height: 7 };
    let inside = frame(buffer, colours, "Confirm delete", &[], 0, size);
    let text = |buffer: &mut Buffer, y, text: &str| {
        put(buffer, inside, inside.x, inside.y + y, text, colours.style(Part::Text, false))
    };
    // The answers must be visible even on a screen of few lines; the name has lower priority.
    let mut y = 0;
    if inside.height > 2 {
        text(buffer, y, "Are you sure you want to delete");
        y += 1;
    }
    if inside.height > 1 {
        let name = cut(&delete.name, usize::from(inside.width).saturating_sub(2));
        text(buffer, y, &format!("\"{name}\""));
        y += 1;
    }
    if inside.height > 3 && delete.is_directory {
        text(buffer, y, "and all of its contents?");
        y += 1;
    }
    y = if inside.height > 4 { inside.height - 1 } else { y };
    let words = |answer| match answer {
        Answer::Yes => "yes",
        Answer::No => "no",
        Answer::Always if inside.width < 38 => "always",
        Answer::Always => "don't ask me again",
    };
    let columns =
        |answers: &[Answer]| answers.iter().map(|answer| words(*answer).len() as u16 + 3).sum::<u16>() - 1;
    let mut answers = &Answer::ALL[..];
    let mut x = inside.x + inside.width.saturating_sub(38) / 2;
    if inside.height == 1 {
        // The name precedes the answers, and takes as much of the line as it needs.
        let all = inside.width.saturating_sub(columns(answers)) >= ALONE - 10;
        answers = if all { answers } else { std::slice::from_ref(&delete.answer) };
        let room = inside.width.saturating_sub(columns(answers) + 4);
        x = text(buffer, 0, &format!("\"{}\"? ", cut(&delete.name, room.into())));
    } else if columns(answers) > inside.width {
        // The selected answer is among those that fit.
        while answers.len() > 1
            && answers[0] != delete.answer
            && columns(&answers[..=position(answers, delete.answer)]) > inside.width
        {
            answers = &answers[1..];
        }
    }
    for answer in answers {
        let style = colours.style(Part::Text, *answer == delete.answer);
        x = put(buffer, inside, x, inside.y + y, &format!(" {} ", words(*answer)), style) + 1;
    }
}

fn position(answers: &[Answer], answer: Answer) -> usize {
    answers.iter().position(|other| *other == answer).unwrap_or(0)
}

/// The columns that a question needs on a single line, and on several.
const ALONE: u16 = 24;
const SEVERAL: u16 = 14;

/// Whether a screen of this size shows enough of the question before a deletion: a part of the name, and the
/// answer.
pub(crate) fn is_question_seen(size: Size) -> bool {
    match size.height {
        0 => false,
        1 => size.width >= ALONE,
        _ => size.width >= SEVERAL,
    }
}

fn about(buffer: &mut Buffer, browser: &Browser<'_, '_>, info: &Info, item: &Item) {
    let colours = browser.options.colours;
    let tabs: &[&str] = if info.of.is_some() { &["Info", "Links"] } else { &[] };
    let inside = frame(buffer, colours, "Item info", tabs, info.links.into(), INFO);
    if info.links {
        links(buffer, inside, colours, info);
    } else {
        for (y, (name, value)) in (0..).zip(facts(browser, info, item)) {
            line(buffer, inside, colours, y, &name, &value);
        }
    }
    way_out(buffer, inside, colours, "Press i to hide this window");
}

fn links(buffer: &mut Buffer, inside: Rect, colours: Colours, info: &Info) {
    let names = info.of.as_ref().map_or(0, |(_, link, _)| link.names);
    let here = number(info.names.len() as u64);
    let text = match names {
        0 => format!("{here} names are here (enter opens):"),
        _ => format!("{here} of {names} names are here (enter opens):"),
    };
    put(buffer, inside, inside.x, inside.y, &text, colours.style(Part::Text, false));
    for (y, path) in (0..).zip(&info.paths) {
        let style = colours.style(Part::Text, info.top + usize::from(y) == info.selected);
        put(buffer, inside, inside.x, inside.y + 1 + y, path, style);
    }
}

/// The known facts about an entry: names and values.
fn facts(browser: &Browser<'_, '_>, info: &Info, item: &Item) -> Vec<(String, String)> {
    let si = browser.options.si;
    let bytes = |bytes| format!("{} ({} B)", size(bytes, si), number(bytes));
    let fact = |name: &str, value: String| (format!("{name:>13}: "), value);
    let mut facts = vec![
        (String::from("Name: "), shown(&item.entry.name)),
        (String::from("Path: "), info.path.clone()),
        (String::from("Type: "), item.what().into()),
    ];
    if let Some(extended) = item.entry.extended {
        let (user, group) = (extended.user, extended.group);
        let mode = format!("{}  UID: {user}  GID: {group}", format::mode(extended.mode));
        facts.push((String::from("Mode: "), mode));
        let time = |time| format::time(time, &browser.zone).trim_start().into();
        facts.push((String::from("Last modified: "), time(extended.modified)));
    }
    if let Some(trouble) = item.trouble() {
        facts.push((String::from("Note: "), trouble));
    }
    let all = item.sum();
    facts.push(fact("Disk usage", bytes(all.disk_bytes())));
    facts.push(fact("Apparent size", bytes(all.size)));
    if item.row.is_some() {
        facts.push(fact("Items", format!("{:>1$}", number(item.items()), format::SIZE)));
        if item.shared() != Sum::default() {
            let both =
                |sum: Sum| if browser.options.apparent { bytes(sum.size) } else { bytes(sum.disk_bytes()) };
            facts.push(fact("Shared", both(item.shared())));
            facts.push(fact("Unique", both(item.unique())));
        }
    }
    if let Some((_, link, _)) = &info.of {
        // Exports of old versions of ncdu do not contain the number.
        let names = if link.names == 0 { String::from("several") } else { link.names.to_string() };
        facts.push(fact("Names", format!("{names} (press 2 to see them)")));
    }
    facts
}

/// Draws the progress of a long operation.
pub(crate) fn progress(
    buffer: &mut Buffer,
    colours: Colours,
    si: bool,
    title: &str,
    step: &Step,
    seconds: u64,
) {
    let inside = frame(buffer, colours, title, &[], 0, Size { width: 60, height: 8 });
    let text = format!("{}   size: {}", number(step.items), size(step.bytes, si).trim_start());
    line(buffer, inside, colours, 0, "Total items: ", &text);
    line(buffer, inside, colours, 1, "Current: ", &shown(&step.path));
    line(buffer, inside, colours, 2, "Time: ", &elapsed(seconds));
    if step.failures > 0 {
        let text = match step.failures {
            1 => String::from("one thing could not be read"),
            failures => format!("{} things could not be read", number(failures)),
        };
        let style = colours.style(Part::Trouble, false);
        put(buffer, inside, inside.x, inside.y + 3, &text, style);
    }
    way_out(buffer, inside, colours, "Press q to stop");
}

/// Asks whether to continue an operation that partly failed.
pub(crate) fn failed(buffer: &mut Buffer, colours: Colours, text: &str, answer: usize) {
    let inside = frame(buffer, colours, "Error", &[], 0, Size { width: 60, height: 7 });
    let lines = Rect { height: inside.height.saturating_sub(1), ..inside };
    Paragraph::new(text)
        .wrap(Wrap { trim: true })
        .style(colours.style(Part::Trouble, false))
        .render(lines, buffer);
    let mut x = inside.x + inside.width.saturating_sub(28) / 2;
    for (number, text) in [" stop ", " ignore ", " ignore all "].into_iter().enumerate() {
        let style = colours.style(Part::Text, number == answer);
        x = put(buffer, inside, x, inside.bottom().saturating_sub(1), text, style) + 1;
    }
}
