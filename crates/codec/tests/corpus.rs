//! The fuzz targets' checks, run over inputs that fuzzing found: each reached code that no other had reached.
//! `corpus/` has a file for each target:
//!
//! ```text
//! | length, 2 bytes | input ... | length | input ... | ...
//! ```
//!
//! To continue fuzzing from these inputs, and to save the result:
//!
//! ```sh
//! cargo test -p memfold-codec --features peers --test corpus unpack -- --ignored   # into fuzz/corpus/
//! cargo +nightly fuzz run codec_decode
//! cargo +nightly fuzz cmin codec_decode
//! cargo test -p memfold-codec --features peers --test corpus keep -- --ignored     # back
//! ```

mod checks;

use std::fs;
use std::path::{Path, PathBuf};

/// The largest file that `keep` writes. Short inputs come first.
const MOST: usize = 64 << 10;

fn kept(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target)
}

fn found(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// The inputs in a file of `corpus/`.
fn inputs(file: &[u8]) -> Vec<&[u8]> {
    let (mut inputs, mut rest) = (Vec::new(), file);
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (input, behind) = behind.split_at(u16::from_le_bytes(*len).into());
        inputs.push(input);
        rest = behind;
    }
    assert!(rest.is_empty());
    inputs
}

fn holds(target: &str) {
    let file = fs::read(kept(target)).expect("a file for each target");
    let inputs = inputs(&file);
    assert!(inputs.len() > 30, "{} inputs are few for {target}", inputs.len());
    for (i, input) in inputs.into_iter().enumerate() {
        let result = std::panic::catch_unwind(|| checks::run(target, input));
        assert!(result.is_ok(), "input {i} of {target}: {input:02x?}");
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(concat!("codec_", stringify!($name)));
        })*

        #[test]
        fn every_check_has_its_test() {
            let tests = [$(concat!("codec_", stringify!($name))),*];
            assert_eq!(checks::ALL.map(|(name, _)| name), tests);
        }
    };
}

tests!(auto decode mutate name pipeline round_trip stride);

#[test]
#[ignore = "writes files"]
fn unpack() {
    for (target, _) in checks::ALL {
        fs::create_dir_all(found(target)).unwrap();
        for (i, input) in inputs(&fs::read(kept(target)).unwrap()).into_iter().enumerate() {
            fs::write(found(target).join(format!("kept-{i}")), input).unwrap();
        }
    }
}

#[test]
#[ignore = "writes files"]
fn keep() {
    for (target, _) in checks::ALL {
        let Ok(found) = fs::read_dir(found(target)) else { continue };
        let mut inputs: Vec<Vec<u8>> = found.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
        inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        inputs.dedup();
        let mut file = Vec::new();
        for input in inputs {
            let Ok(len) = u16::try_from(input.len()) else { break };
            if file.len() + 2 + input.len() > MOST {
                break;
            }
            file.extend(len.to_le_bytes());
            file.extend(input);
        }
        fs::create_dir_all(kept(target).parent().unwrap()).unwrap();
        fs::write(kept(target), file).unwrap();
    }
}
