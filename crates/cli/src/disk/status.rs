//! `memfold disk status`.

use std::io::Write;

use memfold_disk::status::{ask, sockets};
use serde_json::Value;

use super::args::StatusArgs;
use crate::failure::{Failure, say};
use crate::size::Human;

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
    let text = if args.json { format!("{:#}\n", Value::Array(devices)) } else { table(&devices) };
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}")))?;
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

fn row(device: &Value) -> [String; 10] {
    let number = |name: &str| device[name].as_u64().unwrap_or(0);
    let text = |name: &str| device[name].as_str().unwrap_or("-");
    let human = |name: &str| Human(number(name)).to_string();
    let limit = number("limit_bytes");
    let dense = number("dense_bytes") as f64 * 100.0 / (number("logical_bytes") as f64).max(1.0);
    [
        text("name").to_owned(),
        human("size_bytes"),
        human("logical_bytes"),
        human("payload_bytes"),
        human("memory_bytes"),
        if limit == u64::MAX { "-".to_owned() } else { Human(limit).to_string() },
        format!("{:.2}", device["memory_ratio"].as_f64().unwrap_or(0.0)),
        format!("{dense:.0} %"),
        format!("{},{}", text("fast_codec"), device["dense_codec"].as_str().unwrap_or("none")),
        format!("{} {}", text("door"), text("address")),
    ]
}
