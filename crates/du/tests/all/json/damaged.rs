//! Files that are not exports, damaged exports, and malicious ones: each results in an error that says where
//! it is and what to do.

use memfold_du::json::{LONGEST_PATH, ReadError, Wrong};
use memfold_du::part::LONGEST_NAME;

use super::common::{again, with_tree};

/// Before the first entry of the root: 24 bytes.
const BEGIN: &str = r#"[1,2,{},[{"name":"/rr"},"#;

fn refused(bytes: &[u8]) -> (u64, Wrong, String) {
    match with_tree(bytes, |_| ()) {
        Err(error) => {
            let text = error.to_string();
            match error {
                ReadError::Input { offset, wrong, .. } => (offset, wrong, text),
                other => panic!("{other:?}"),
            }
        }
        Ok(()) => panic!("no error: {}", bytes[..bytes.len().min(200)].escape_ascii()),
    }
}

#[test]
fn errors_name_their_place_and_a_remedy() {
    assert_eq!(BEGIN.len(), 24);
    // The input; the offset of the error; the message.
    let table: &[(&[u8], u64, &str)] = &[
        (b"", 0, "did the program that writes it fail?"),
        (b"\x1f\x8b\x08\0", 0, "zcat FILE | memfold du -f -"),
        (b"\x50\x2a\x4d\x18\x03\0\0\0abc\x04\x22\x4d\x18", 0, "lz4cat FILE | memfold du -f -"),
        (b"\x50\x2a\x4d\x18\x03\0\0\0abc", 0, "ends in the middle"),
        (b"\x02\x21\x4c\x18", 0, "lz4cat FILE"),
        (b"\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 0, "compressed by lzma"),
        (b"PK\x03\x04", 0, "unzip -p FILE | memfold du"),
        // A window of 2 GiB.
        (b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0", 0, "zstdcat --long=31 FILE | memfold du"),
        (b"\xbfncduEX1\0\0", 0, "ncdu -f FILE -o FILE.json"),
        (b"hello", 0, "[ as the first byte"),
        (b"\0", 0, "[ as the first byte"),
        (b"{}", 0, "[ as the first byte"),
        (b"  ", 2, "make it again"),
        (b"[", 1, "ends in the middle"),
        (b"[2,0,{},[{\"name\":\"/\"}]]", 2, "the format's version is 2"),
        (b"[-1,0,{},[{\"name\":\"/\"}]]", 1, "a number from 0 on"),
        (b"[1.5,0,{},[{\"name\":\"/\"}]]", 2, "a whole number"),
        (b"[01,0,{},[{\"name\":\"/\"}]]", 2, "does not begin with 0"),
        (b"[1]", 2, "a comma is expected"),
        (b"[1,2,,[{\"name\":\"/\"}]]", 5, "a value is expected"),
        (b"[1,2,{},{\"name\":\"/\"}]", 8, "the root's directory"),
        (b"[1,2,{},[]]", 9, "an entry, as"),
        (b"[1,2,{},[{}]]", 11, "an entry has no \"name\""),
        (b"[1,2,{},[{\"name\":\"\"}]]", 20, "it is empty"),
        (b"[1,2,{},[{\"name\":\"\\u0000/\"}]]", 27, "it is empty"),
        (b"[1,2,{},[{\"name\":\"/\"}]", 22, "ends in the middle"),
        (b"[1,2,{},[{\"name\":\"/\"}]5]", 22, "the end of the export"),
        (b"[1,2,{},[{\"name\":\"/\"}],5", 24, "ends in the middle"),
        (b"[1,2,{},[{\"name\":\"/\"}],]", 23, "a value is expected"),
        (b"[1,2,{},[{\"name\":\"/\"}]]x", 23, "more follows after the end"),
        (b"[1,2,{},[{\"name\":\"/\"}]]\n[1,2,{},[{\"name\":\"/\"}]]", 24, "more follows after the end"),
        (b"[1,2,{},[{\"name\":\"/\"}]]\n\0", 24, "give only one export"),
    ];
    for (bytes, offset, says) in table {
        let (at, _, text) = refused(bytes);
        assert_eq!((at, text.contains(says)), (*offset, true), "{}: {text}", bytes.escape_ascii());
        assert!(*offset == 0 || text.starts_with(&format!("at byte {offset}: ")), "{text}");
    }
}

#[test]
fn entries_that_cannot_be_are_refused() {
    let table: &[(&str, u64, &str)] = &[
        (r#"{"name":""}"#, 11, "\"\" is not a name: it is empty"),
        (r#"{"name":"\u0000a"}"#, 18, "it is empty"),
        (r#"{"name":"a","name":""}"#, 22, "it is empty"),
        (r#"{"name":5}"#, 8, "a string is expected"),
        (r#"{"asize":5}"#, 11, "an entry has no \"name\""),
        ("{\"name\":\"a\nb\"}", 10, "no control byte but an escape"),
        (r#"{"name":"a\x41"}"#, 11, "an escape is expected"),
        (r#"{"name":"a\u00g1"}"#, 12, "four hexadecimal digits"),
        (r#"{"name":"a","asize":-1}"#, 20, "of \"a\": \"asize\" is less than 0"),
        (r#"{"name":"a\u000a","dsize":-0}"#, 26, "of \"a\\n\": \"dsize\" is less than 0"),
        (r#"{"name":"a","asize":1.0}"#, 21, "of \"a\": \"asize\" has a fraction"),
        (r#"{"asize":1.5,"name":"a"}"#, 10, "\"asize\" has a fraction"),
        (r#"{"name":"a","asize":1e3}"#, 21, "a whole number"),
        (r#"{"name":"a","asize":"1"}"#, 20, "a number from 0 on"),
        (r#"{"name":"a","asize":null}"#, 20, "a number from 0 on"),
        (r#"{"name":"a","asize":18446744073709551616}"#, 39, "\"asize\" is too large"),
        (r#"{"name":"a","asize":9223372036854775808}"#, 39, "of \"a\": \"asize\" is too large"),
        (r#"{"name":"a","asize":9223372036854775807}"#, 0, ""),
        (r#"{"name":"a","dsize":18446744073709551615}"#, 40, "\"dsize\" is too large"),
        (r#"{"name":"a","dsize":9223372036854775297}"#, 0, ""),
        (r#"{"name":"a","dsize":9223372036854775809}"#, 39, "\"dsize\" is too large"),
        (r#"{"name":"a","asize":9223372036854775807},{"name":"b","asize":1}"#, 0, ""),
        (r#"{"name":"a","uid":4294967296}"#, 28, "\"uid\" is too large"),
        (r#"{"name":"a","gid":4294967296}"#, 28, "\"gid\" is too large"),
        (r#"{"name":"a","mode":65536}"#, 24, "\"mode\" is too large"),
        (r#"{"name":"a","nlink":4294967296}"#, 30, "\"nlink\" is too large"),
        (r#"{"name":"a","errno":65536}"#, 25, "\"errno\" is too large"),
        (r#"{"name":"a","mtime":-9223372036854775809}"#, 40, "\"mtime\" is too large"),
        (r#"{"name":"a","mtime":1e5}"#, 21, "without exponent"),
        (r#"{"name":"a","mtime":1.}"#, 22, "a digit"),
        (r#"{"name":"a","hlnkc":1}"#, 20, "true or false"),
        (r#"{"name":"a","hlnkc":tru}"#, 23, "true, false or null"),
        (r#"{"name":"a","excluded":true}"#, 23, "a string is expected"),
        (r#"{"name":"a",}"#, 12, "a string is expected"),
        (r#"{"name":"a" "asize":1}"#, 12, "a comma or the end of the entry"),
        (r#"{"name" "a"}"#, 8, "a colon"),
        (r#"{"name":"a","x":}"#, 16, "a value"),
        (r#"{"name":"a","x":[1,]}"#, 19, "a value"),
        (r#"{"name":"a","x":[1 2]}"#, 19, "a comma or the end"),
        (r#"{"name":"a","x":{1:2}}"#, 17, "a string"),
        (r#"{"name":"a","x":[}]}"#, 17, "a value"),
        (r#"{"name":"a"},"#, 13, "a value"),
        ("[", 3, "ends in the middle"),
        ("[5 6", 3, "a comma or the end"),
        (r#"{"name":"a"}{"name":"b"}"#, 12, "a comma or the end of the directory"),
    ];
    for (entries, offset, says) in table {
        let text = format!("{BEGIN}{entries}]]");
        if says.is_empty() {
            assert!(again(text.as_bytes()).len() > text.len(), "{text}");
            continue;
        }
        let (at, _, error) = refused(text.as_bytes());
        let at = at.saturating_sub(24);
        assert_eq!((at, error.contains(says)), (*offset, true), "{text}: {error}");
    }
}

#[test]
fn too_long_too_deep_and_too_many() {
    let with = |entry: String| format!("{BEGIN}{entry}]]").into_bytes();
    let named = |len| with(format!("{{\"name\":\"{}\"}}", "n".repeat(len)));
    assert!(matches!(refused(&named(LONGEST_NAME + 1)).1, Wrong::Name(..)));
    assert!(matches!(refused(&named(LONGEST_PATH + 1)).1, Wrong::Name(..)));
    assert!(refused(&named(LONGEST_PATH + 1)).2.len() < 300);
    let longest = again(&named(LONGEST_NAME));
    assert_eq!(again(&longest), longest);
    let root = |len| format!("[1,2,{{}},[{{\"name\":\"{}\"}}]]", "/".repeat(len)).into_bytes();
    assert!(again(&root(LONGEST_PATH)).len() > LONGEST_PATH);
    assert!(matches!(refused(&root(LONGEST_PATH + 1)).1, Wrong::Name(..)));
    // A long name must not be cut within an escape.
    let escapes = with(format!("{{\"name\":\"{}\"}}", "\\u00e9".repeat(LONGEST_NAME / 2)));
    assert_eq!(again(&again(&escapes)), again(&escapes));
    // Unknown keys and values may have any length, and a sensible depth.
    let unknown = |text: String| with(format!("{{\"name\":\"a\",\"{text}}}"));
    again(&unknown(format!("{}\":\"{}\"", "k".repeat(2_000_000), "v".repeat(2_000_000))));
    again(&unknown(format!("x\":{}{}", "[".repeat(1000), "]".repeat(1000))));
    let deep = unknown(format!("x\":{}", "[".repeat(1_000_000)));
    assert_eq!(refused(&deep).1, Wrong::Deep);
    let deep = format!("[1,2,{}", "{\"a\":".repeat(1_000_000));
    assert_eq!(refused(deep.as_bytes()).1, Wrong::Deep);
    let devices = |count| {
        (0..count)
            .map(|at| format!("[{{\"name\":\"{at}\",\"dev\":{}}}]", at + 1))
            .collect::<Vec<_>>()
            .join(",")
    };
    again(&with(devices(65_535)));
    assert_eq!(refused(&with(devices(65_536))).1, Wrong::Devices);
}

#[test]
fn a_truncated_export_is_reported_wherever_it_ends() {
    let text = format!(
        "{BEGIN}{}]]",
        r#"{"name":"a\ud83d\ude00","asize":12,"x":[null,true,-1.5e3,{"y":"z"}],"mtime":-3.5},[{"name":"b","hlnkc":false}]"#
    );
    again(text.as_bytes());
    for len in 1..text.len() {
        let (at, wrong, _) = refused(&text.as_bytes()[..len]);
        assert_eq!((at, wrong), (len as u64, Wrong::Ends), "{}", &text[..len]);
    }
}

#[test]
fn any_change_of_a_byte_is_an_error_or_another_tree_and_no_more() {
    let text = format!(
        "{BEGIN}{}]]",
        r#"{"name":"a\ud83d\ude00","asize":12,"ino":7,"nlink":2},[{"name":"b","dev":2}]"#
    );
    for at in 0..text.len() {
        for byte in [0, b'"', b'\\', b'[', b']', b'{', b'}', b',', b'9', b'-', 0xff] {
            let mut other = text.clone().into_bytes();
            other[at] = byte;
            if let Ok(first) = with_tree(&other[..], super::common::export) {
                assert_eq!(again(&first), first);
            }
        }
    }
}
