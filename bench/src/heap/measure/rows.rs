//! Rows of figures, kept as JSON in the same form as that of `bench/run`.
//!
//! ```text
//!   { "version": 1, "machine": {...}, "sections": { NAME: { "rows": [ {...}, ... ] }, ... } }
//! ```
//!
//! The file is written after each row. A row that it already contains is not measured again, so that an
//! interrupted run can be resumed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::model::names::date;

/// See the module.
#[derive(Debug)]
pub struct Rows {
    file: Option<PathBuf>,
    all: Value,
}

impl Rows {
    /// The rows of a file, if it exists. Without a file nothing is kept.
    pub fn open(file: Option<&Path>) -> Result<Self, String> {
        let there = file.filter(|file| file.exists());
        let all = match there {
            Some(file) => {
                let text =
                    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
                let all: Value =
                    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
                if all["version"] != 1 || !all["sections"].is_object() {
                    return Err(format!("{}: these are not rows of a benchmark", file.display()));
                }
                all
            }
            None => json!({ "version": 1, "machine": machine(), "sections": {} }),
        };
        Ok(Rows { file: file.map(Path::to_owned), all })
    }

    /// The row of a section that has all of these fields, if it was measured before.
    pub fn find(&self, section: &str, key: &Value) -> Option<&Value> {
        let wanted = key.as_object()?;
        let rows = self.all["sections"][section]["rows"].as_array()?;
        rows.iter().find(|row| wanted.iter().all(|(name, value)| row.get(name) == Some(value)))
    }

    /// Adds a row that consists of `key` and the measured fields.
    pub fn add(&mut self, section: &str, key: &Value, measured: Value) -> Result<(), String> {
        let mut row: Map<String, Value> = key.as_object().cloned().unwrap_or_default();
        row.extend(measured.as_object().cloned().unwrap_or_default());
        let rows = &mut self.all["sections"][section]["rows"];
        if rows.is_null() {
            *rows = json!([]);
        }
        rows.as_array_mut().ok_or("a section without rows")?.push(Value::Object(row));
        let Some(file) = &self.file else { return Ok(()) };
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        // The file is replaced as a whole or not at all, since the earlier rows took hours.
        let new = file.with_extension("new");
        fs::write(&new, lay_out(&self.all, 0) + "\n").and_then(|()| fs::rename(&new, file)).map_err(failed)
    }
}

/// JSON with a line for each row of figures.
fn lay_out(value: &Value, depth: usize) -> String {
    let has_parts = |value: &Value| value.is_object() || value.is_array();
    let pad = " ".repeat(depth + 1);
    let (ends, lines): (_, Vec<String>) = match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            (['[', ']'], items.iter().map(|item| format!("{pad}{item}")).collect())
        }
        Value::Object(fields) if fields.values().any(has_parts) => {
            let line = |(name, item)| format!("{pad}{}: {}", Value::from(name), lay_out(item, depth + 1));
            (
                ['{', '}'],
                fields.iter().map(|(name, item): (&String, _)| (name.as_str(), item)).map(line).collect(),
            )
        }
        _ => return value.to_string(),
    };
    format!("{}\n{}\n{}{}", ends[0], lines.join(",\n"), " ".repeat(depth), ends[1])
}

/// The machine on which the figures were measured.
fn machine() -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(':').nth(1)).map(|value| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|size| size.strip_suffix(" kB")?.parse::<u64>().ok());
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(now as i64);
    json!({
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "cpu": field(&read("/proc/cpuinfo"), "model name"),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": memory.map(|kib| kib * 1024),
        "load_before": read("/proc/loadavg").split(' ').next().and_then(|load| load.parse::<f64>().ok()),
        "time": format!("{year}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", now / 3600 % 24, now / 60 % 60, now % 60),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again() {
        let directory = std::env::temp_dir().join(format!("memfold-rows-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let file = directory.join("rows.json");
        let mut rows = Rows::open(Some(&file)).expect("no rows yet");
        let key = json!({ "tree": "small", "repeat": 1 });
        assert!(rows.find("a", &key).is_none());
        rows.add("a", &key, json!({ "cpu": 1.5 })).expect("written");
        let rows = Rows::open(Some(&file)).expect("those of before");
        assert_eq!(rows.find("a", &key).expect("the row")["cpu"], 1.5);
        assert!(rows.find("a", &json!({ "tree": "small", "repeat": 2 })).is_none());
        assert!(rows.find("b", &key).is_none());
        fs::write(&file, "{}").expect("written");
        assert!(Rows::open(Some(&file)).is_err());
        fs::remove_dir_all(&directory).expect("removed");
    }
}
