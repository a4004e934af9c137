//! The cells of the table, and the columns that fit on the screen.

use memfold::size::Human;
use memfold_args::top::columns::{COLUMNS, Column, Is};

use super::order::Values;

/// Columns to drop on a narrow screen, the least important first.
const DROPPED: [Is; 11] = [
    Is::Spilled,
    Is::Standby,
    Is::Overhead,
    Is::State,
    Is::Payload,
    Is::Ratio,
    Is::Fault,
    Is::Logical,
    Is::Saved,
    Is::Faults,
    Is::Stall,
];
/// The minimum width for a command.
const COMMAND: usize = 9;
/// The width of a tree's limit: "auto 12.3M".
const LIMIT: u16 = 10;

/// The columns that fit, always including the sort column.
pub fn fitting(width: usize, sort: usize) -> Vec<&'static Column> {
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    // The lines of trees also have a gauge and a limit there.
    let command = COMMAND.max(width * 2 / 7);
    let wanted = |columns: &[&Column]| columns.iter().map(|column| room(column.is, sort)).sum::<usize>();
    for dropped in DROPPED.into_iter().filter(|is| *is != COLUMNS[sort].is) {
        if wanted(&columns) + command <= width {
            break;
        }
        columns.retain(|column| column.is != dropped);
    }
    columns
}

/// The width of a column with the gap before it. One more cell behind the sort column keeps its mark apart
/// from the next title.
pub fn room(is: Is, sort: usize) -> usize {
    width(is) + 1 + usize::from(is == COLUMNS[sort].is)
}

/// How the rest of a tree's line is divided, from the column of commands on: the widths of its command, the
/// gauge and the limit. Parts that do not fit have no width.
pub fn rest(columns: u16) -> [u16; 3] {
    let limit = if columns >= 2 * LIMIT { LIMIT } else { 0 };
    let gauge = if columns >= 36 { (columns / 4).min(24) } else { 0 };
    let gaps = u16::from(limit > 0) + u16::from(gauge > 0);
    [columns.saturating_sub(limit + gauge + gaps), gauge, limit]
}

/// A tree's limit.
pub fn limit(bytes: u64, is_auto: bool) -> String {
    format!("{}{}", if is_auto { "auto " } else { "" }, self::bytes(bytes))
}

/// The width of a column. The command gets the remaining width.
pub fn width(is: Is) -> usize {
    match is {
        Is::Command => 0,
        Is::Fault => 7,
        Is::Ratio => 6,
        Is::Pid | Is::Logical | Is::Spilled | Is::Standby | Is::Payload | Is::Saved | Is::Stall => 7,
        Is::Resident | Is::Overhead | Is::Faults => 8,
        Is::State => 9,
    }
}

/// Whether the column is text and left-aligned.
pub fn is_left(is: Is) -> bool {
    matches!(is, Is::State | Is::Command)
}

/// The text of a cell.
pub fn text(line: &Values<'_>, is: Is) -> String {
    let (memory, rates) = (line.memory, line.rates);
    let or_not = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    match is {
        Is::Pid => line.pid.to_string(),
        Is::State => line.state.into(),
        Is::Logical => bytes(memory.logical_bytes),
        Is::Resident => bytes(memory.resident_bytes),
        Is::Standby => bytes(memory.standby_bytes),
        Is::Payload => bytes(memory.payload_bytes),
        Is::Overhead => bytes(memory.overhead_bytes),
        Is::Spilled => bytes(memory.spilled_bytes),
        Is::Saved if memory.saved_bytes < 0 => format!("-{}", bytes(memory.saved_bytes.unsigned_abs())),
        Is::Saved => bytes(memory.saved_bytes as u64),
        Is::Ratio => or_not(memory.compression_ratio.map(|ratio| format!("{ratio:.2}"))),
        Is::Faults => or_not(rates.faults_per_second.map(|faults| format!("{faults:.0}"))),
        Is::Fault => or_not(rates.fault_us.map(time)),
        Is::Stall => or_not(rates.stall_share.map(|share| format!("{:.1} %", share * 100.0))),
        Is::Command => memfold_escape::shown(line.command),
    }
}

/// A number of bytes in few characters: 12.3M.
pub fn bytes(bytes: u64) -> String {
    let text = Human(bytes).to_string();
    match text.split_once(' ') {
        Some((number, unit)) if unit != "bytes" => format!("{number}{}", &unit[..1]),
        _ => bytes.to_string(),
    }
}

/// A time in few characters: 8.4 µs, 120 ms.
fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_columns() {
        let sizes = [0, 999, 1024, 12_900_000, 3 << 29, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0", "999", "1K", "12.3M", "1.50G", "16E"]);
        let times = [0.4, 8.44, 99.96, 1234.0, 250_000.0, 2_000_000.0].map(time);
        assert_eq!(times, ["0.4 µs", "8.4 µs", "100 µs", "1.2 ms", "250 ms", "2.0 s"]);
        assert!(times.iter().all(|time| time.chars().count() <= width(Is::Fault)));
    }

    #[test]
    fn columns_fit() {
        let names = |width, sort| fitting(width, sort).iter().map(|column| column.is).collect::<Vec<_>>();
        assert_eq!(names(200, 0).len(), COLUMNS.len());
        let shown = names(80, 0);
        for is in [Is::Pid, Is::Logical, Is::Resident, Is::Saved, Is::Faults, Is::Stall, Is::Command] {
            assert!(shown.contains(&is), "{is:?}");
        }
        assert!(!shown.contains(&Is::Fault) && !shown.contains(&Is::State));
        let shown = names(120, 0);
        assert!(shown.contains(&Is::State) && shown.contains(&Is::Payload) && !shown.contains(&Is::Standby));
        assert_eq!(names(20, 0), [Is::Pid, Is::Resident, Is::Command]);
        // Titles fit above the numbers, together with the mark of the sort column.
        for column in COLUMNS.iter().filter(|column| column.is != Is::Command) {
            assert!(column.title.len() <= width(column.is), "{}", column.title);
        }
        // The parts of a tree's line have room.
        for columns in 0..200 {
            let [command, gauge, limit] = rest(columns);
            let gaps = u16::from(gauge > 0) + u16::from(limit > 0);
            assert_eq!(command + gauge + limit + gaps, columns);
            assert!(columns < 9 || command >= 9, "{columns}: {command}");
        }
        for bytes in [0, 1023 << 10, 999 << 20, u64::MAX] {
            assert!(limit(bytes, true).len() <= usize::from(LIMIT));
        }
        // The sort column is visible.
        for (sort, column) in COLUMNS.iter().enumerate() {
            for width in 0..120 {
                assert!(names(width, sort).contains(&column.is));
            }
        }
    }
}
