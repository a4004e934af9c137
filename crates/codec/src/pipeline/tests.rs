use super::*;
use crate::{ScratchBuf, codec, decoder};
use std::vec;
use std::vec::Vec;

fn chain(name: &str) -> Chain {
    name.parse().unwrap_or_else(|_| panic!("{name}"))
}

#[test]
fn every_step_has_a_name_and_a_number_of_its_own() {
    let mut numbers = Vec::new();
    for element in element::steps() {
        let name = element.name();
        assert_eq!(chain(name).elements().next().map(Element::number), Some(element.number()), "{name}");
        assert_eq!(Element::to_undo(element.number()).map(Element::name), Some(name));
        numbers.push((element.number(), name));
        let family = name.split(':').next().unwrap();
        assert!(STEP_NAMES.contains(family), "{family}");
    }
    assert_eq!(numbers.len(), 67);
    for (number, name) in [
        (1, "delta:1x1"),
        (24, "delta:8x6"),
        (25, "xor:1x1"),
        (33, "xor:2x3"),
        (48, "xor:8x6"),
        (49, "shuffle:2"),
        (51, "shuffle:8"),
        (55, "bitshuffle:8"),
        (59, "lagdelta:8"),
        (60, "zerosup"),
        (67, "range"),
    ] {
        assert_eq!(numbers[number as usize - 1], (number, name), "numbers never change");
    }
    for codec in crate::all().filter(|codec| ![CodecId::AUTO, CodecId::ZSTD_DICT].contains(&codec.id())) {
        let element = chain(codec.name()).elements().next().unwrap();
        assert_eq!(element.name(), codec.name());
        assert_eq!(element.number(), 96 + codec.id().0);
    }
}

#[test]
fn names_are_read_and_written() {
    for (name, again) in [
        ("bwt+mtf+huffman", "bwt+mtf+huffman"),
        ("shuffle:8+zstd", "shuffle:8+zstd:1"),
        ("zstd:-7", "zstd:-7"),
        ("rle", "rle"),
        (
            "jbe+rle+bitshuffle:8+rle+mtf+bewalgo2+pbpm:word",
            "jbe+rle+bitshuffle:8+rle+mtf+bewalgo2+pbpm:word",
        ),
    ] {
        let pipeline: Pipeline = name.parse().unwrap();
        assert_eq!(pipeline.name(), again);
        assert_eq!(pipeline.name().parse(), Ok(pipeline));
        assert_eq!(pipeline.chain().len(), again.split('+').count());
        assert_eq!(codec(name).unwrap().name(), again);
    }
    let longest = ["bitshuffle:8"; 7].join("+");
    assert_eq!(longest.parse::<Pipeline>().unwrap().name(), longest);
    let too_many = ["rle"; 8].join("+");
    for name in
        ["", "+", "rle+", "+rle", "rle++mtf", "rle +mtf", "delta:3x1+lz4", "delta:8x7", "auto+lz4", &too_many]
    {
        assert!(name.parse::<Pipeline>().is_err(), "{name}");
        assert!(codec(name).is_err(), "{name}");
    }
}

#[test]
fn a_pipeline_of_one_codec_is_that_codec() {
    let pipeline: Pipeline = "lz4".parse().unwrap();
    let lz4 = codec("lz4").unwrap();
    assert_eq!(pipeline.id(), CodecId::LZ4);
    assert_eq!(pipeline.bound(4096), lz4.bound(4096));
    let block = b"abcabcabcabcabcabcabc".repeat(20);
    let mut memory = ScratchBuf::for_codecs([lz4], block.len());
    let form = |codec: &dyn Codec, memory: &mut ScratchBuf| {
        let mut dst = vec![0; codec.bound(block.len())];
        match codec.compress(&block, &mut dst, usize::MAX, &mut memory.scratch()) {
            Compressed::Fits(size) => dst[..size].to_vec(),
            Compressed::Incompressible => panic!("without a threshold"),
        }
    };
    assert_eq!(form(&pipeline, &mut memory), form(lz4, &mut memory));
}

#[test]
fn the_form_tells_the_steps_and_the_lengths() {
    // Ten zeros: mtf keeps them, rle makes two bytes of them, jbe one byte of bits.
    let pipeline: Pipeline = "mtf+rle+jbe".parse().unwrap();
    let block = [0; 10];
    let mut memory = ScratchBuf::for_codecs([&pipeline as &dyn Codec], 10);
    let mut dst = vec![0; pipeline.bound(10)];
    let wanted = [62, 65, 63 | 0x80, 2, 0b1111_1101, 0x87];
    let size = pipeline.compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
    assert_eq!(size, Compressed::Fits(wanted.len()));
    assert_eq!(dst[..wanted.len()], wanted);
    // Without the steps, as for a program with a table.
    let size = pipeline.chain().compress(&block, &mut dst, usize::MAX, &mut memory.scratch());
    assert_eq!(size, Compressed::Fits(3));
    assert_eq!(dst[..3], wanted[3..]);
    let mut again = [1; 10];
    pipeline.chain().decompress(&wanted[3..], &mut again, &mut memory.scratch()).unwrap();
    assert_eq!(again, block);

    // Any pipeline reads it, and so does the decoder for all pipelines.
    let other: Pipeline = "mtf+rle+jbe+lz4".parse().unwrap();
    let any = decoder(CodecId::PIPELINE).unwrap();
    for codec in [&pipeline as &dyn Codec, &other, any] {
        let mut memory = ScratchBuf::for_codecs([codec], 10);
        let mut again = [1; 10];
        codec.decompress(&wanted, &mut again, &mut memory.scratch()).unwrap();
        assert_eq!(again, block);
    }
    // With too little scratch the form is refused, not partly decoded.
    assert!(any.decompress(&wanted, &mut [0; 10], &mut Scratch::empty()).is_err());
}

#[test]
fn the_worst_scratch_is_enough_for_all() {
    for len in [1, 100, 4096, 100_000] {
        let worst = decoder(CodecId::PIPELINE).unwrap().decompress_scratch(len);
        for name in ["jbe+jbe+jbe+jbe+jbe+jbe+bwt", "zerosup+zerosup+zerosup+zerosup+zerosup+bwt+zstd:19"] {
            assert!(chain(name).decompress_scratch(len) <= worst);
        }
    }
}

#[test]
fn tables_grow_and_never_change() {
    let table = PipelineTable::<3>::new();
    let names = ["lz4", "shuffle:8+lz4", "mtf"];
    for _ in 0..2 {
        for (place, name) in names.iter().enumerate() {
            assert_eq!(table.append(chain(name)), Some(place as u16));
        }
    }
    assert_eq!(table.append(chain("rle")), None);
    assert_eq!(table.get(1), Some(chain("shuffle:8+lz4")));
    assert_eq!(table.get(3), None);
    assert!(table.iter().eq(names.map(chain)));
}

#[test]
fn writers_agree_on_places() {
    static TABLE: PipelineTable<64> = PipelineTable::new();
    let names: Vec<_> = element::steps().map(Element::name).take(40).collect();
    std::thread::scope(|scope| {
        for turn in 0..4 {
            let names = &names;
            scope.spawn(move || {
                for i in 0..names.len() {
                    let name = names[(i + turn * 10) % names.len()];
                    let place = TABLE.append(chain(name)).unwrap();
                    assert_eq!(TABLE.get(place), Some(chain(name)));
                    assert!(codec(name).is_ok());
                }
            });
        }
    });
    assert_eq!(TABLE.iter().count(), names.len());
}

/// The context of a codec at the end is kept from block to block: nothing before it in the scratch may
/// disturb it.
#[test]
fn contexts_in_a_pipeline_stay_right() {
    let pipelines: [Pipeline; 2] =
        ["delta:8x2+shuffle:8+zstd:3", "rle+zstd:3"].map(|name| name.parse().unwrap());
    for pipeline in &pipelines {
        let mut memory = ScratchBuf::for_codecs([pipeline as &dyn Codec], 4096);
        let mut back = ScratchBuf::for_codecs([pipeline as &dyn Codec], 4096);
        let (mut scratch, mut back) = (memory.scratch(), back.scratch());
        for round in 0..300_usize {
            let block: Vec<u8> = (0..4096).map(|i| (i * i / (round + 1) % 251 / 3) as u8).collect();
            let mut dst = vec![0; pipeline.bound(4096)];
            let Compressed::Fits(size) = pipeline.compress(&block, &mut dst, usize::MAX, &mut scratch) else {
                panic!("without a threshold");
            };
            let mut again = vec![0; 4096];
            pipeline.decompress(&dst[..size], &mut again, &mut back).unwrap();
            assert!(again == block);
        }
    }
}
