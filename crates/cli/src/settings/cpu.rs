//! `MEMFOLD_CPU` and `--cpu` choose the processor's instructions that the codecs use.
//!
//! All paths produce the same bytes; the slower ones are for measurements and debugging. Only this module
//! reads the variable. It sets the path of this process's codecs directly, and that of a program's codecs
//! through the shared page.

use memfold_codec::cpu::{self, Path};

use crate::output::failure::Failure;

/// The variable that forces a path in every subcommand.
const VARIABLE: &str = "MEMFOLD_CPU";

/// Forces the path that the environment names, if it names one.
pub fn heed_environment() -> Result<(), Failure> {
    if let Some(path) = from_environment()? {
        force(path, VARIABLE)?;
    }
    Ok(())
}

/// The path that the environment names.
pub fn from_environment() -> Result<Option<Path>, Failure> {
    match std::env::var_os(VARIABLE) {
        Some(word) if !word.is_empty() => parse(&word.to_string_lossy(), VARIABLE).map(Some),
        _ => Ok(None),
    }
}

/// The paths of `--cpu`, in the order given, each once.
#[cfg(any(feature = "bench", test))]
pub fn parse_list(text: &str) -> Result<Vec<Path>, Failure> {
    let mut paths = Vec::new();
    for word in text.split(',') {
        let path = parse(word.trim(), "--cpu")?;
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Uses this path from now on.
pub fn force(path: Path, option: &str) -> Result<(), Failure> {
    cpu::force(Some(path)).map_err(|_| lacking(path, option))
}

fn parse(word: &str, option: &str) -> Result<Path, Failure> {
    let path = Path::from_name(word).ok_or_else(|| {
        let names = Path::ALL.map(Path::name).join(", ");
        Failure::new(format!(
            "{option}: '{word}' names no instructions that memfold knows; give one of {names}"
        ))
    })?;
    if path > cpu::best() { Err(lacking(path, option)) } else { Ok(path) }
}

fn lacking(path: Path, option: &str) -> Failure {
    let there: Vec<_> = Path::ALL.into_iter().filter(|path| *path <= cpu::best()).map(Path::name).collect();
    Failure::new(format!(
        "{option}: this processor, or its operating system, does not support {}; supported here: {}",
        path.name(),
        there.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse_list("scalar"), Ok(vec![Path::Scalar]));
        assert_eq!(parse_list("scalar, scalar"), Ok(vec![Path::Scalar]));
        for bad in ["", "scalar,", "AVX2", "sse"] {
            let failure = parse_list(bad).unwrap_err();
            assert!(failure.text.contains("scalar, sse4, avx2, avx512"), "{failure}");
        }
        for path in Path::ALL {
            assert_eq!(parse_list(path.name()).is_ok(), path <= cpu::best());
        }
        assert!(lacking(Path::Avx512, "--cpu").text.contains("supported here: scalar"));
    }
}
