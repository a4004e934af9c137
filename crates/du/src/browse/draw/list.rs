//! Draws the list.
//!
//! ```text
//!   memfold du ~ Use the arrow keys to navigate, press ? for help            [note]
//!   --- /path -----------------------------------------------------------------
//!   .    2.6 MiB S   1.0 MiB [###########]    429  2026-11-22 15:09:35 +0000 /codec
//!   flag size     shared     graph          items  time                      name
//!    Total disk usage:   5.7 MiB  Apparent size:   4.0 MiB  Items: 825
//! ```
//!
//! If there are too few columns for everything, the name has priority, then the columns that were requested
//! first.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::theme::Part;
use super::{boxes, put};
use crate::browse::options::{Graph, Links};
use crate::browse::state::{Browser, LINES, Line};
use crate::browse::text::format::{self, items, number, size};
use crate::browse::text::{cut, shown, width};
use crate::browse::view::Column;
use crate::browse::view::item::Item;
use crate::entry::Sum;

/// The columns for which there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Columns {
    links: Links,
    graph: Graph,
    /// The width of the bar.
    bar: usize,
    items: bool,
    modified: bool,
}

impl Columns {
    fn width(self) -> usize {
        // A flag, a space, the size.
        let mut width = 2 + format::SIZE;
        width += if self.links == Links::None { 0 } else { 3 + format::SIZE };
        width += match self.graph {
            Graph::None => 0,
            Graph::Bar => 3 + self.bar,
            Graph::Percent => 3 + 6,
            Graph::Both => 4 + 6 + self.bar,
        };
        width += if self.items { 1 + format::ITEMS } else { 0 };
        width + if self.modified { 2 + format::TIME } else { 0 }
    }

    /// Drops the columns for which there is no room beside names of this width.
    fn fit(mut self, columns: usize) -> Self {
        let name = 16.min(columns / 3) + 2;
        let shorter: [fn(&mut Self); 5] = [
            |columns| columns.modified = false,
            |columns| {
                if columns.graph == Graph::Both {
                    columns.graph = Graph::Percent;
                }
            },
            |columns| columns.links = Links::None,
            |columns| columns.graph = Graph::None,
            |columns| columns.items = false,
        ];
        for shorten in shorter {
            if self.width() + name > columns {
                shorten(&mut self);
            }
        }
        self
    }
}

/// The part in thousandths of the whole, rounded to nearest, at most 1000.
fn thousandths(part: u64, all: u64) -> u64 {
    if all == 0 {
        0
    } else {
        ((u128::from(part) * 2000 + u128::from(all)) / (2 * u128::from(all))).min(1000) as u64
    }
}

impl Browser<'_, '_> {
    /// Draws what [`prepare`](Self::prepare) has read.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        buffer.set_style(area, self.style(Part::Text));
        self.draw_head(buffer, area);
        self.draw_rows(buffer, area);
        self.draw_foot(buffer, area);
        boxes::draw(self, frame);
    }

    pub(crate) fn style(&self, part: Part) -> Style {
        self.options.colours.style(part, false)
    }

    /// The kind of size that is shown.
    fn bytes(&self, sum: Sum) -> u64 {
        if self.options.apparent { sum.size } else { sum.disk_bytes() }
    }

    fn draw_head(&self, buffer: &mut Buffer, area: Rect) {
        let line = Rect { height: area.height.min(1), ..area };
        buffer.set_style(line, self.style(Part::Head));
        let (head, key) = (self.style(Part::Head), self.style(Part::HeadNumber));
        let mut x = put(buffer, line, 0, 0, "memfold du ~ Use the arrow keys to navigate, press ", head);
        x = put(buffer, line, x, 0, "?", key);
        x = put(buffer, line, x, 0, " for help", head);
        let note = &self.options.note;
        let from = usize::from(area.width).saturating_sub(width(note) + 2);
        if !note.is_empty() && from > usize::from(x) {
            put(buffer, line, from as u16, 0, &format!("[{note}]"), head);
        }
        if area.height < LINES {
            return;
        }
        let text = self.style(Part::Text);
        put(buffer, area, 0, 1, &"-".repeat(area.width.into()), text);
        // The path is at most so long that the line stays visible at both its ends.
        let path = cut(&self.path.1, usize::from(area.width).saturating_sub(8));
        if !path.is_empty() {
            let x = put(buffer, area, 3, 1, " ", text);
            let x = put(buffer, area, x, 1, &path, self.style(Part::Directory));
            put(buffer, area, x, 1, " ", text);
        }
    }

    fn draw_rows(&self, buffer: &mut Buffer, area: Rect) {
        if area.height < LINES {
            return;
        }
        let rows = Rect { y: 2, height: area.height - LINES, ..area };
        let columns = Columns {
            links: self.options.links,
            graph: self.options.graph,
            bar: usize::from(area.width / 7).max(1),
            items: self.options.items,
            modified: self.options.modified && self.has_times,
        };
        let columns = columns.fit(area.width.into());
        let mut lines = 0;
        for (row, line) in self.lines().take(rows.height.into()) {
            let y = rows.y + (row - self.top) as u16;
            self.draw_row(buffer, Rect { y, height: 1, ..rows }, columns, &line, row == self.selected);
            lines += 1;
        }
        if self.view.is_empty() && lines < rows.height {
            let why = self.own.trouble().unwrap_or_else(|| String::from("empty"));
            let hidden = self.own.items() > 0 && !self.options.sort.hidden;
            let why = if hidden { "all entries are hidden: press e to see them" } else { &why };
            let part = if hidden || self.own.trouble().is_none() { Part::Text } else { Part::Trouble };
            put(buffer, rows, 2, rows.y + lines, why, self.style(part));
        }
    }

    fn draw_row(&self, buffer: &mut Buffer, row: Rect, columns: Columns, line: &Line<'_>, is_selected: bool) {
        let style = |part| self.options.colours.style(part, is_selected);
        if is_selected {
            buffer.set_style(row, style(Part::Text));
        }
        let name = columns.width() as u16 + 1;
        let y = row.y;
        let Line::Item(item) = line else {
            put(buffer, row, name, y, "/..", style(Part::Directory));
            return;
        };
        let flag = item.flag();
        put(buffer, row, 0, y, flag.encode_utf8(&mut [0; 4]), style(Part::Flag));
        let sum = item.sum();
        let mut x = put(buffer, row, 2, y, &size(self.bytes(sum), self.options.si), style(Part::Number));
        let links = match columns.links {
            Links::None => None,
            Links::Shared => Some(("S", item.shared())),
            Links::Unique => Some(("U", item.unique())),
        };
        if let Some((letter, sum)) = links {
            let bytes = self.bytes(sum);
            let text = if bytes == 0 { String::new() } else { size(bytes, self.options.si) };
            x = put(
                buffer,
                row,
                x,
                y,
                &format!(" {} ", if bytes == 0 { " " } else { letter }),
                style(Part::Text),
            );
            x = put(buffer, row, x, y, &format!("{text:>0$}", format::SIZE), style(Part::Number));
        }
        if columns.graph != Graph::None {
            x = self.draw_graph(buffer, row, x, columns, self.bytes(sum), is_selected);
        }
        if columns.items {
            // Only directories have a count.
            let count = if item.row.is_some() { items(item.items()) } else { " ".repeat(format::ITEMS) };
            x = put(buffer, row, x, y, &format!(" {count}"), style(Part::Number));
        }
        if columns.modified {
            let time = item.modified().map_or(String::new(), |time| format::time(time, &self.zone));
            put(buffer, row, x, y, &format!("  {time:>0$}", format::TIME), style(Part::Number));
        }
        self.draw_name(buffer, row, name, item, is_selected);
    }

    fn draw_graph(
        &self,
        buffer: &mut Buffer,
        row: Rect,
        mut x: u16,
        columns: Columns,
        bytes: u64,
        is_selected: bool,
    ) -> u16 {
        let style = |part| self.options.colours.style(part, is_selected);
        let y = row.y;
        x = put(buffer, row, x, y, " [", style(Part::Text));
        if columns.graph != Graph::Bar {
            let part = thousandths(bytes, self.bytes(self.own.sum()));
            let text = format!("{:3}.{}", part / 10, part % 10);
            x = put(buffer, row, x, y, &text, style(Part::Number));
            x = put(buffer, row, x, y, "%", style(Part::Text));
        }
        if columns.graph == Graph::Both {
            x = put(buffer, row, x, y, " ", style(Part::Text));
        }
        if columns.graph != Graph::Percent {
            let part = thousandths(bytes, self.bytes(self.view.most)) as usize * columns.bar / 1000;
            let bar = format!("{:<1$}", "#".repeat(part), columns.bar);
            x = put(buffer, row, x, y, &bar, style(Part::Bar));
        }
        put(buffer, row, x, y, "]", style(Part::Text))
    }

    fn draw_name(&self, buffer: &mut Buffer, row: Rect, x: u16, item: &Item, is_selected: bool) {
        use crate::entry::Kind::{Directory, KernelFileSystem, OtherFileSystem};
        let is_directory = matches!(item.entry.kind, Directory(_) | KernelFileSystem | OtherFileSystem);
        let (mark, part) = if is_directory { ("/", Part::Directory) } else { (" ", Part::Text) };
        let style = self.options.colours.style(part, is_selected);
        let x = put(buffer, row, x, row.y, mark, style);
        let left = usize::from(row.width).saturating_sub(x.into());
        put(buffer, row, x, row.y, &cut(&shown(&item.entry.name), left), style);
    }

    fn draw_foot(&self, buffer: &mut Buffer, area: Rect) {
        if area.height < LINES - 1 {
            return;
        }
        let line = Rect { y: area.height - 1, height: 1, ..area };
        let (head, bold) = (self.style(Part::Head), self.style(Part::HeadNumber));
        buffer.set_style(line, head);
        let (sum, si) = (self.own.sum(), self.options.si);
        let (disk, apparent) = (size(sum.disk_bytes(), si), size(sum.size, si));
        let count = number(self.own.items());
        let long = [" Total disk usage: ", &disk, "  Apparent size: ", &apparent, "  Items: ", &count];
        let short = [" ", &disk, " ", &apparent, " ", &count];
        let is_long = long.iter().map(|text| text.len()).sum::<usize>() <= area.width.into();
        let mut x = 0;
        for (at, text) in (if is_long { long } else { short }).iter().enumerate() {
            x = put(buffer, line, x, line.y, text, if at % 2 == 0 { head } else { bold });
        }
        let sort = self.sort_text();
        let from = usize::from(area.width).saturating_sub(sort.len() + 1);
        if from > usize::from(x) + 1 {
            put(buffer, line, from as u16, line.y, &sort, head);
        }
    }

    /// The order as a text.
    fn sort_text(&self) -> String {
        let sort = self.options.sort;
        let column = match sort.column {
            Column::Name => "name",
            Column::DiskUsage => "disk usage",
            Column::ApparentSize => "apparent size",
            Column::Items => "items",
            Column::Modified => "time",
        };
        let (first, way) = (sort.directories_first, if sort.descending { "descending" } else { "ascending" });
        format!("Sort: {}{column}, {way}", if first { "directories, " } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn shares_are_rounded() {
        let cases = [
            ((2, 3), 667),
            ((12, 14_660), 1),
            ((1, 2000), 1),
            ((1, 2001), 0),
            ((1, 3), 333),
            ((0, 0), 0),
            ((5, 4), 1000),
            ((u64::MAX, u64::MAX), 1000),
        ];
        for ((part, all), share) in cases {
            assert_eq!(thousandths(part, all), share, "{part} of {all}");
        }
    }
}
