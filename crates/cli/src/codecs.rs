//! `--codec FAST[,DENSE]`.

use memfold_codec::codec;

use crate::failure::Failure;

/// The names of the two codecs, as the registry writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codecs {
    /// For what has just gone cold.
    pub fast: String,
    /// For what stays cold.
    pub dense: Option<String>,
}

/// Reads the option.
pub fn parse(text: &str) -> Result<Codecs, Failure> {
    let (fast, dense) = match text.split_once(',') {
        Some((fast, dense)) => (fast, Some(dense)),
        None => (text, None),
    };
    Ok(Codecs { fast: known(fast)?, dense: dense.map(known).transpose()? })
}

fn known(name: &str) -> Result<String, Failure> {
    match codec(name) {
        Ok(found) => Ok(found.name().to_owned()),
        Err(error) => Err(Failure::new(format!(
            "--codec '{name}': {error}; give FAST or FAST,DENSE, for example lz4,zstd:1"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_or_two() {
        let both = Codecs { fast: "lz4".into(), dense: Some("zstd:1".into()) };
        assert_eq!(parse("lz4,zstd"), Ok(both));
        assert_eq!(parse("zstd:3"), Ok(Codecs { fast: "zstd:3".into(), dense: None }));
        for bad in ["", ",", "lz4,", ",lz4", "lz4,zstd,copy", "lzx"] {
            let failure = parse(bad).unwrap_err();
            assert_eq!(failure.status, crate::failure::FAILED);
            assert!(failure.text.contains("lz4") && failure.text.contains("zstd"), "{failure}");
        }
    }
}
