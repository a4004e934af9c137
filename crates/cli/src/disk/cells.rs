//! The cells of `memfold disk status`, made from a device's report about itself.

use std::os::unix::ffi::OsStrExt;

use memfold::size::Human;
use memfold_args::disk::columns::Is;
use memfold_disk::status::address;
use memfold_escape::shown;
use serde_json::Value;

/// The format of cells.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Sizes are bare numbers of bytes.
    pub bytes: bool,
    /// For programs: no cell contains a blank.
    pub raw: bool,
}

/// A cell without a value.
const NONE: &str = "-";

/// A cell of a device with its mount points.
pub fn cell(is: Is, device: &Value, style: Style) -> String {
    let number = |name: &str| device[name].as_u64();
    let size = |bytes: u64| if style.bytes { bytes.to_string() } else { Human(bytes).to_string() };
    let bytes = |name: &str| number(name).map(size);
    let count = |name: &str| number(name).map(|count| count.to_string());
    let text = |name: &str| device[name].as_str().map(|text| shown(text.as_bytes()));
    let data = number("logical_bytes").unwrap_or(0);
    let cell = match is {
        Is::Name => text("name"),
        Is::Pid => count("pid"),
        Is::DiskSize => bytes("size_bytes"),
        Is::Data => bytes("logical_bytes"),
        Is::Compr => bytes("payload_bytes"),
        Is::Algorithm => {
            text("fast_codec").map(|fast| fast + "," + &text("dense_codec").unwrap_or("none".into()))
        }
        Is::Streams => count("streams"),
        Is::ZeroPages => number("same_filled_bytes").map(|bytes| (bytes / 4096).to_string()),
        Is::Total => bytes("memory_bytes"),
        Is::MemLimit => number("limit_bytes").filter(|&limit| limit != u64::MAX).map(size),
        Is::MemUsed => bytes("peak_memory_bytes"),
        Is::Migrated => count("blobs_moved"),
        Is::CompRatio => ratio(data, number("memory_bytes").unwrap_or(0), style),
        Is::Dense => number("dense_bytes")
            .filter(|_| data > 0)
            .map(|dense| format!("{:.0} %", dense as f64 * 100.0 / data as f64)),
        Is::Resident => bytes("resident_bytes"),
        Is::Spilled => bytes("spilled_bytes"),
        Is::Refused => count("refused_writes"),
        Is::Door => text("door"),
        Is::Address => address(device).map(|path| shown(path.as_os_str().as_bytes())),
        Is::MountPoint => device["mount_points"].as_array().map(|places| {
            let places: Vec<_> = places.iter().filter_map(Value::as_str).collect();
            places.join(",")
        }),
    };
    let cell = cell.filter(|cell| !cell.is_empty()).unwrap_or(NONE.into());
    match style.raw {
        // A number and its unit become one word, as in zramctl. All other cells are names, in which backslashes
        // are doubled.
        true if !is.is_text() => cell.replace(" bytes", "B").replace(' ', ""),
        true => cell.replace(' ', "\\x20"),
        false => cell,
    }
}

/// An empty device has no ratio: its memory is for data still to be written.
fn ratio(data: u64, memory: u64, style: Style) -> Option<String> {
    let ratio = (data > 0 && memory > 0).then(|| data as f64 / memory as f64)?;
    Some(match ratio {
        // As in zramctl.
        _ if style.raw || style.bytes => format!("{ratio:.4}"),
        _ if ratio < 0.1 => "<0.1".to_owned(),
        _ => format!("{ratio:.2}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLAIN: Style = Style { bytes: false, raw: false };
    const BYTES: Style = Style { bytes: true, raw: false };
    const RAW: Style = Style { bytes: false, raw: true };

    #[test]
    fn ratios_of_much_little_and_nothing() {
        let of = |data: u64, memory: u64, style| {
            cell(Is::CompRatio, &json!({"logical_bytes": data, "memory_bytes": memory}), style)
        };
        assert_eq!(of(0, 1_352_136, PLAIN), "-");
        assert_eq!(of(0, 0, RAW), "-");
        assert_eq!(of(4096, 1_352_136, PLAIN), "<0.1");
        assert_eq!(of(4096, 1_352_136, BYTES), "0.0030");
        assert_eq!(of(300, 1000, PLAIN), "0.30");
        assert_eq!((of(4218, 1000, PLAIN), of(4218, 1000, RAW)), ("4.22".into(), "4.2180".into()));
    }

    #[test]
    fn cells_of_each_style() {
        let device = json!({
            "name": "a b\\c", "size_bytes": 3_u64 << 29, "logical_bytes": 8192, "dense_bytes": 4096, "fast_codec": "lz4",
            "limit_bytes": u64::MAX, "mount_points": ["/mnt/a", "/mnt/b c"], "same_filled_bytes": 12288,
        });
        let all = |is| [PLAIN, BYTES, RAW].map(|style| cell(is, &device, style));
        assert_eq!(all(Is::Name), ["a b\\\\c", "a b\\\\c", "a\\x20b\\\\c"]);
        assert_eq!(all(Is::DiskSize), ["1.50 GiB", "1610612736", "1.50GiB"]);
        assert_eq!(all(Is::Dense), ["50 %", "50 %", "50%"]);
        let few = json!({"memory_bytes": 0});
        assert_eq!([PLAIN, BYTES, RAW].map(|style| cell(Is::Total, &few, style)), ["0 bytes", "0", "0B"]);
        assert_eq!(all(Is::Algorithm), ["lz4,none"; 3]);
        assert_eq!(all(Is::MountPoint), ["/mnt/a,/mnt/b c", "/mnt/a,/mnt/b c", "/mnt/a,/mnt/b\\x20c"]);
        assert_eq!(all(Is::ZeroPages), ["3"; 3]);
        // The device has no limit, and is too old to report some fields.
        assert_eq!(
            (all(Is::MemLimit), all(Is::MemUsed)),
            (["-"; 3].map(Into::into), ["-"; 3].map(Into::into))
        );
        let address = |device| cell(Is::Address, &device, PLAIN);
        assert_eq!(
            address(json!({"address": "/mnt/\u{fffd}/disk", "address_hex": "2f6d6e742fff2f6469736b"})),
            "/mnt/\\xff/disk"
        );
        assert_eq!(address(json!({"address": "/mnt/a", "address_hex": "zz"})), "/mnt/a");
        assert_eq!(address(json!({})), "-");
        assert_eq!(cell(Is::MountPoint, &json!({"mount_points": []}), RAW), "-");
    }
}
