//! Any text as the name of a pipeline: it is refused, or means the same after it is formatted and parsed
//! again.

use memfold_codec::{Chain, Codec, MOST_STEPS, Pipeline};

pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(pipeline) = text.parse::<Pipeline>() else {
        assert!(text.parse::<Chain>().is_err(), "{text:?} is a chain but no pipeline");
        return;
    };
    let chain = pipeline.chain();
    assert!(text.parse::<Chain>() == Ok(chain));
    assert!((1..=MOST_STEPS).contains(&chain.len()));
    assert!(pipeline.name().parse::<Chain>() == Ok(chain), "{text:?} is written {:?}", pipeline.name());
    assert!(pipeline.bound(4096) >= 1 && pipeline.bound(0) == 0);
}
