//! `--codec FAST[,DENSE]`.

use memfold_codec::{codec, is_optional};
use memfold_shared::page;

use crate::output::failure::Failure;

/// The names of the two codecs, as the registry writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codecs {
    /// For data that were just evicted.
    pub fast: String,
    /// For data that stay cold.
    pub dense: Option<String>,
}

/// Parses the option.
pub fn parse(text: &str) -> Result<Codecs, Failure> {
    let mut names = split(text);
    let (fast, dense) = (names.next().unwrap_or(""), names.next());
    if names.next().is_some() {
        return Err(refused(text, "that is more than two codecs"));
    }
    Ok(Codecs { fast: known(fast)?, dense: dense.map(known).transpose()? })
}

/// The names in a list, split at commas outside brackets.
pub fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// Checks a codec for a program: the preload library must support it, too. The library receives its name
/// through the shared page.
fn known(name: &str) -> Result<String, Failure> {
    let found = codec(name).map_err(|error| refused(name, &error.to_string()))?;
    if is_optional(found) {
        let why = "that codec is only for comparisons with 'memfold bench'; the library that programs load does not have it";
        return Err(refused(name, why));
    }
    let most = page::CODEC_NAME_BYTES - 1;
    if found.name().len() > most {
        let why =
            format!("a name may have {most} bytes here, and this one, in full, has {}", found.name().len());
        return Err(refused(name, &why));
    }
    Ok(found.name().to_owned())
}

fn refused(name: &str, why: &str) -> Failure {
    Failure::new(format!("--codec '{name}': {why}; give FAST or FAST,DENSE, for example lz4,zstd:1"))
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
            assert_eq!(failure.status, crate::output::failure::FAILED);
            assert!(failure.text.contains("lz4") && failure.text.contains("zstd"), "{failure}");
        }
    }

    #[test]
    fn brackets_keep_lists_together() {
        assert_eq!(split("a,b(c,d),e").collect::<Vec<_>>(), ["a", "b(c,d)", "e"]);
        assert_eq!(split("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn codecs_that_programs_cannot_use() {
        for name in ["xz:6", "bzip2", "lz4hc:9", "pbpm", "shuffle:8+deflate:6", "auto=lz4/842"] {
            let text = parse(&format!("lz4,{name}")).unwrap_err().text;
            assert!(text.contains(name) && text.contains("memfold bench"), "{text}");
        }
        let long = ["bitshuffle:8"; 6].join("+") + "+zstd";
        assert!(codec(&long).is_ok());
        let text = parse(&long).unwrap_err().text;
        assert!(text.contains("63 bytes"), "{text}");
        let fits = ["bitshuffle:8"; 4].join("+") + "+zstd:1";
        assert_eq!(parse(&fits).map(|codecs| codecs.fast), Ok(fits));
    }
}
