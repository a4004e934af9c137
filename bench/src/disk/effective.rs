//! The effective speed, as zBeWalgo's evaluation defines it: how fast a file is written to memory that is too
//! small for it, with a slower device for the rest.
//!
//! ```text
//!  device bytes    = incompressible + max(0, packed - room) * ratio of the packed pages
//!  effective speed = original / (time + device bytes / speed of the device)
//! ```
//!
//! *packed* is the compressed size of the pages that are stored compressed. *room* is the *packed* of the
//! codec with the best ratio on the file, as in `memfold bench`.

use crate::measure::Measured;

/// The speed of the device, in bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    pub write: f64,
    pub read: f64,
}

impl Device {
    /// Megabytes (10^6 bytes) per second, for writing and reading.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (write, read) = text.split_once(',').unwrap_or((text, text));
        let speed = |text: &str| match text.trim().parse::<f64>() {
            Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed * 1e6),
            _ => Err(format!("'{text}' is not a speed; give megabytes (10^6 bytes) a second")),
        };
        Ok(Device { write: speed(write)?, read: speed(read)? })
    }
}

/// The size of the memory: what the best codec needs for the pages that it compresses. `all` are the results
/// for one file.
pub fn room<'a>(all: impl IntoIterator<Item = &'a Measured>) -> u64 {
    let best = all.into_iter().min_by_key(|one| one.written_payload_bytes);
    best.map_or(0, |best| best.written_payload_bytes - best.written_incompressible_bytes)
}

/// Bytes per second for writing and reading. For writing, the sizes right after writing count, even if the
/// background thread compresses pages more densely later.
pub fn speeds(one: &Measured, room: u64, device: Device) -> [f64; 2] {
    let original = one.original_bytes as f64;
    let on_device = |payload: u64, raw: u64| {
        let packed = payload - raw;
        let left_over = packed.saturating_sub(room) as f64;
        let ratio = if packed == 0 { 1.0 } else { (one.original_bytes - raw) as f64 / packed as f64 };
        raw as f64 + left_over * ratio
    };
    let written = on_device(one.written_payload_bytes, one.written_incompressible_bytes);
    let read = on_device(one.payload_bytes, one.incompressible_bytes);
    [original / (one.write_s + written / device.write), original / (one.read_s + read / device.read)]
}
