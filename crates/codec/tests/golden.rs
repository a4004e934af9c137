//! Compressed forms that must decode for ever: stores and files written by any memfold must stay readable.
//! The files under `golden/` are never regenerated; `make_missing` adds forms for new codecs.
//!
//! `NAME.block` is a block, `NAME.N.HOW` a compressed form of it for the decoder with number N, made by the
//! codec HOW. `zero-LEN` stands for zeros, without a file, for lengths that take more than one block of a
//! format. `version-N.dictionary` is the dictionary that stands for version N in forms of `zstd-dict`.

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs};

use common::{PIPELINES, block, compress, decompress, some_codecs};
use memfold_codec::{Auto, Codec, CodecId, ScratchBuf, auto_table, decoder};

/// Decoders that exist only with features of the crate.
const OPTIONAL: [u8; 6] = [12, 13, 14, 15, 16, 20];

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden_block(name: &str) -> Vec<u8> {
    match name.strip_prefix("zero-") {
        Some(len) => vec![0; len.parse().unwrap()],
        None => fs::read(dir().join(format!("{name}.block"))).unwrap(),
    }
}

/// Loads the dictionaries of golden forms.
#[cfg(feature = "dict")]
fn load_dictionaries() {
    for entry in fs::read_dir(dir()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        if let Some(version) = file.strip_prefix("version-").and_then(|name| name.strip_suffix(".dictionary"))
        {
            assert!(memfold_codec::dict::load(version.parse().unwrap(), &fs::read(&path).unwrap()), "{file}");
        }
    }
}

#[test]
fn golden_forms_decode() {
    #[cfg(feature = "dict")]
    load_dictionaries();
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(dir()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut parts = file.splitn(3, '.');
        let (name, number) = (parts.next().unwrap(), parts.next().unwrap());
        if number == "block" || number == "dictionary" {
            continue;
        }
        let number = number.parse().unwrap_or_else(|_| panic!("{file} has no number"));
        let block = golden_block(name);
        let Some(codec) = decoder(CodecId(number)) else {
            assert!(OPTIONAL.contains(&number), "no decoder for {file}");
            continue;
        };
        let mut memory = ScratchBuf::for_codecs([codec], block.len());
        let again = decompress(codec, &fs::read(&path).unwrap(), block.len(), &mut memory.scratch());
        assert!(again.as_deref() == Ok(&block), "{file} no longer decodes");
        seen.insert(number);
    }
    let numbers = (1..=255).filter(|&number| decoder(CodecId(number)).is_some());
    assert_eq!(seen, numbers.collect::<BTreeSet<u8>>(), "a number without golden form");
}

/// Encoders may improve, so new forms may differ from golden ones. So this is not a test but the way to make
/// missing files.
#[test]
#[ignore = "writes files"]
fn make_missing() {
    let add = |name: &str, bytes: &[u8]| {
        let path = dir().join(name);
        if !path.exists() {
            fs::write(path, bytes).unwrap();
        }
    };
    fs::create_dir_all(dir()).unwrap();
    for (kind, len) in [
        ("noise", 1),
        ("noise", 100),
        ("text", 1000),
        ("records", 4096),
        ("runs", 4096),
        ("sparse", 5000),
        ("zero", 300_000),
    ] {
        let name = format!("{kind}-{len}");
        if kind != "zero" {
            add(&format!("{name}.block"), &block(kind, len, 42));
        }
        let src = golden_block(&name);
        for codec in some_codecs(&["zstd:-7", "zstd:1", "zstd:5", "zstd:19", "deflate:6", "xz:0"]) {
            let how = codec.name();
            // Only small files, and one of each kind for pipelines.
            let small = if PIPELINES.contains(&how) { kind == "records" || len == 1 } else { how != "copy" };
            if !small && len > 100 {
                continue;
            }
            let mut memory = ScratchBuf::for_codecs([codec], len);
            let form = compress(codec, &src, usize::MAX, &mut memory.scratch()).unwrap();
            add(&format!("{name}.{}.{}", codec.id().0, how.replace(':', "_")), &form);
        }
    }
    // A form for each permanent place of `auto`, of the first block that its chain makes smaller.
    for (place, chain) in auto_table().enumerate() {
        let auto = Auto::new(&[chain]).unwrap();
        let mut memory = ScratchBuf::for_codecs([&auto as &dyn Codec], 5000);
        let made = ["records-4096", "sparse-5000"].into_iter().find_map(|name| {
            let src = golden_block(name);
            let form = compress(&auto, &src, usize::MAX, &mut memory.scratch()).unwrap();
            (usize::from(form[0]) == place).then_some((name, form))
        });
        let (name, form) = made.unwrap_or_else(|| panic!("nothing suits {chain:?}"));
        add(&format!("{name}.19.place-{place:02}"), &form);
    }
    #[cfg(feature = "dict")]
    make_missing_dictionaries(&add);
}

/// Forms with versions of one and of three bytes, and without dictionary. The process assigns versions in
/// sequence. To give an adopted dictionary the version in its name, another one is first loaded as the
/// version before it.
#[cfg(feature = "dict")]
fn make_missing_dictionaries(add: &dyn Fn(&str, &[u8])) {
    use memfold_codec::dict::{self, Dictionaries, Step};
    let level = 3;
    for (version, name) in [(1, "text-1000"), (70_000, "records-4096")] {
        let set = Dictionaries::new(level).unwrap();
        let (kind, len) = name.split_once('-').unwrap();
        let (src, len) = (golden_block(name), len.parse().unwrap());
        let mut memory = ScratchBuf::for_codecs([&set as &dyn Codec], len);
        let mut scratch = memory.scratch();
        if version == 1 {
            let form = compress(&set, &src, usize::MAX, &mut scratch).unwrap();
            add(&format!("{name}.20.zstd-dict_{level}-without"), &form);
        } else {
            assert!(dict::load(version - 1, &dict::dictionary(1).unwrap()));
        }
        set.maintain(0);
        for seed in 0.. {
            compress(&set, &block(kind, len, 1000 + seed), usize::MAX, &mut scratch);
            match set.maintain(1 << 40) {
                Step::Adopted(adopted) => {
                    assert_eq!(adopted, version);
                    break;
                }
                _ => assert!(seed < 10_000, "no dictionary pays for {name}"),
            }
        }
        add(&format!("version-{version}.dictionary"), &dict::dictionary(version).unwrap());
        let form = compress(&set, &src, usize::MAX, &mut scratch).unwrap();
        assert_eq!(dict::version_of(&form), Some(version));
        add(&format!("{name}.20.zstd-dict_{level}"), &form);
    }
}
