//! `memfold disk status`.

use memfold_disk::status::{ask, sockets};
use memfold_escape::shown;
use serde_json::Value;

use super::args::StatusArgs;
use crate::failure::{Failure, say};
use crate::size::Human;
use crate::stdout::{json, print};

/// Asks all devices and prints what they say.
pub fn status(args: &StatusArgs) -> Result<i32, Failure> {
    let mut devices = Vec::new();
    for socket in sockets() {
        match ask(&socket) {
            Ok(Some(text)) => match serde_json::from_str::<Value>(&text) {
                Ok(device) => devices.push(device),
                Err(error) => {
                    say(&format!("{} does not speak as a device of memfold does: {error}", socket.display()))
                }
            },
            Ok(None) => {}
            Err(error) => say(&format!("{} does not answer: {error}", socket.display())),
        }
    }
    devices.retain(|device| {
        args.names.is_empty() || args.names.iter().any(|name| device["name"] == name.as_str())
    });
    for name in &args.names {
        if !devices.iter().any(|device| device["name"] == name.as_str()) {
            return Err(Failure::new(format!(
                "there is no device '{name}'; 'memfold disk status' lists all"
            )));
        }
    }
    let text = if args.json { json(&devices) } else { table(&devices) + &full(&devices) };
    print(&text)?;
    Ok(0)
}

fn table(devices: &[Value]) -> String {
    const COLUMNS: [&str; 10] =
        ["NAME", "SIZE", "DATA", "COMPR", "TOTAL", "LIMIT", "RATIO", "DENSE", "CODEC", "DOOR"];
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(devices.iter().map(row));
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Numbers to the right.
            let cell =
                if (1..8).contains(&at) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line.push_str(&cell);
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line for each device that had no room for a write.
fn full(devices: &[Value]) -> String {
    let refused = |device: &Value| device["refused_writes"].as_u64().filter(|count| *count > 0);
    let line = |device: &Value| {
        let (name, count) = (shown(device["name"].as_str().unwrap_or("-").as_bytes()), refused(device)?);
        let writes = if count == 1 { "write was" } else { "writes were" };
        Some(format!(
            "{name} is full: {count} {writes} refused, and what was to be written is lost. Trim what is not needed (fstrim, mount -o \
             discard), or use a larger --limit\n"
        ))
    };
    devices.iter().filter_map(line).collect()
}

fn row(device: &Value) -> [String; 10] {
    let number = |name: &str| device[name].as_u64().unwrap_or(0);
    let text = |name: &str| shown(device[name].as_str().unwrap_or("-").as_bytes());
    let human = |name: &str| Human(number(name)).to_string();
    let limit = number("limit_bytes");
    let dense = number("dense_bytes") as f64 * 100.0 / (number("logical_bytes") as f64).max(1.0);
    [
        text("name"),
        human("size_bytes"),
        human("logical_bytes"),
        human("payload_bytes"),
        human("memory_bytes"),
        if limit == u64::MAX { "-".to_owned() } else { Human(limit).to_string() },
        format!("{:.2}", device["memory_ratio"].as_f64().unwrap_or(0.0)),
        format!("{dense:.0} %"),
        format!(
            "{},{}",
            text("fast_codec"),
            shown(device["dense_codec"].as_str().unwrap_or("none").as_bytes())
        ),
        format!("{} {}", text("door"), text("address")),
    ]
}
