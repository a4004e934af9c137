//! `memfold disk status`.

use memfold_args::StatusArgs;
use memfold_args::disk::columns::{COLUMNS, Is, SHOWN, named};
use memfold_disk::status::{address, ask, sockets};
use memfold_escape::{shown, text};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::cells::{Style, cell};
use super::mount_points::MountPoints;
use crate::output::failure::{Failure, say};
use crate::output::text::{json, print};

/// Asks all devices and prints their answers.
pub fn status(args: &StatusArgs) -> Result<i32, Failure> {
    let columns = columns(args)?;
    let mut devices = Vec::new();
    for socket in sockets() {
        match ask(&socket) {
            Ok(Some(text)) => match serde_json::from_str::<Value>(&text) {
                Ok(device) => devices.push(device),
                Err(error) => say(&format!(
                    "{} does not answer like a device of memfold: {error}",
                    memfold_escape::path(&socket)
                )),
            },
            Ok(None) => {}
            Err(error) => say(&format!("{} does not answer: {error}", memfold_escape::path(&socket))),
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
    let mount_points = MountPoints::look();
    for device in &mut devices {
        let places = address(device).map(|address| mount_points.of(&address)).unwrap_or_default();
        // In text output the name is escaped.
        let name = |place: &Vec<u8>| if args.json { text(place).into_owned() } else { shown(place) };
        device["mount_points"] = places.iter().map(name).collect();
    }
    if args.json {
        print(&json(&devices))?;
        return Ok(0);
    }
    let style = Style { bytes: args.bytes, raw: args.raw };
    let rows: Vec<_> =
        devices.iter().map(|device| columns.iter().map(|&is| cell(is, device, style)).collect()).collect();
    print(&table(&columns, rows, args))?;
    // A program that reads the table expects no other lines.
    match args.raw || args.noheadings {
        true => full(&devices).for_each(|line| say(&line)),
        false => print(&full(&devices).map(|line| line + "\n").collect::<String>())?,
    }
    Ok(0)
}

fn columns(args: &StatusArgs) -> Result<Vec<Is>, Failure> {
    match &args.output {
        _ if args.output_all => Ok(COLUMNS.iter().map(|column| column.is).collect()),
        None => Ok(SHOWN.into()),
        Some(list) => named(list).map_err(|unknown| {
            let all = COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
            Failure::new(format!("--output: there is no column '{unknown}'; the columns are {all}"))
        }),
    }
}

fn table(columns: &[Is], mut rows: Vec<Vec<String>>, args: &StatusArgs) -> String {
    if !args.noheadings {
        rows.insert(0, columns.iter().map(|is| is.column().name.to_owned()).collect());
    }
    let width = |at: usize| rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(columns).map(|((cell, &width), is)| match is {
            _ if args.raw => cell.clone(),
            is if is.is_text() => cell.clone() + &" ".repeat(width - cell.width()),
            // Numbers are right-aligned.
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join(if args.raw { " " } else { "  " });
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A line for each device that has refused writes for lack of room, or soon will.
fn full(devices: &[Value]) -> impl Iterator<Item = String> {
    let refused = |device: &Value| device["refused_writes"].as_u64().filter(|count| *count > 0);
    devices.iter().filter_map(move |device| {
        let name = shown(device["name"].as_str().unwrap_or("-").as_bytes());
        let Some(count) = refused(device) else {
            return (device["nearly_full"] == true).then(|| {
                format!(
                    "{name} is nearly full: 90 % of its limit is in use, and at the limit writes are \
                     refused. Trim data that is not needed (fstrim, mount -o discard), or use a larger \
                     --limit"
                )
            });
        };
        let (writes, whose) = if count == 1 { ("write was", "its") } else { ("writes were", "their") };
        Some(format!(
            "{name} is full: {count} {writes} refused, and {whose} data is lost. Trim data that is not needed (fstrim, mount -o \
             discard), or use a larger --limit"
        ))
    })
}
