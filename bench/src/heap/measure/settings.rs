//! Options of the heap, on command lines and in rows.

use clap::Args;
use memfold::heap::{Limit, Options, PolicyKind};
use serde::{Deserialize, Serialize};

/// Options of the heap. Those that are not given have the heap's defaults, except for the limit: it is
/// [`Limit::Share`], since small heaps are what is measured.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of a block: 32K for example
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<usize>,
    /// Limits the number of resident blocks, as in compll
    #[arg(long, value_name = "BLOCKS", conflicts_with = "limit")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<u32>,
    /// Limits the bytes of everything in the heap
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The codec
    #[arg(long, value_name = "NAME")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// The policy that chooses blocks to evict: fifo, second-chance, lru, lfu, sieve
    #[arg(long, value_name = "NAME", value_parser = policy)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

impl Settings {
    /// The heap's own form of these options.
    pub fn options(&self) -> Options {
        let mut options = Options::new().limit(Limit::Share);
        if let Some(bytes) = self.block_size {
            options = options.block_size(bytes);
        }
        if let Some(blocks) = self.resident {
            options = options.limit(Limit::Blocks(blocks));
        }
        if let Some(bytes) = self.limit {
            options = options.limit(Limit::Bytes(bytes as u64));
        }
        if let Some(codec) = &self.codec {
            options = options.codec(codec);
        }
        if let Some(policy) = self.policy.as_ref().and_then(|name| name.parse::<PolicyKind>().ok()) {
            options = options.policy(policy);
        }
        options
    }

    /// The command line for these options.
    pub fn arguments(&self) -> Vec<String> {
        let given = [
            ("--block-size", self.block_size.map(|bytes| bytes.to_string())),
            ("--resident", self.resident.map(|blocks| blocks.to_string())),
            ("--limit", self.limit.map(|bytes| bytes.to_string())),
            ("--codec", self.codec.clone()),
            ("--policy", self.policy.clone()),
        ];
        given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
    }
}

/// `32K`, `1M`, or a number of bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: Option<usize> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("'{text}' is not a size: give 32K or 1M, for example"))
}

fn policy(text: &str) -> Result<String, String> {
    text.parse::<PolicyKind>().map(|kind| kind.name().to_owned()).map_err(|unknown| unknown.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("32K"), Ok(32 << 10));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(size("17"), Ok(17));
        for bad in ["", "K", "1.5M", "-1", "99999999999G", "1KiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
