//! Deep trees, and directories with many entries.

use memfold_du::source::{ROOT, Source};

use super::common::{again, export, heap, tree, with_tree};

/// Nested directories, each with `beside` more entries.
pub fn deep(depth: usize, beside: usize) -> Vec<u8> {
    let mut bytes = Vec::from(&b"[1,2,{},[{\"name\":\"/\"}"[..]);
    for level in 0..depth {
        for number in 0..beside {
            bytes.extend_from_slice(format!(",[{{\"name\":\"{number}\"}}]").as_bytes());
        }
        bytes.extend_from_slice(format!(",[{{\"name\":\"d{level}\",\"asize\":1}}").as_bytes());
    }
    bytes.resize(bytes.len() + depth + 2, b']');
    bytes
}

#[test]
fn a_tree_may_be_a_million_levels_deep() {
    let depth = 1_000_000;
    let heap = heap(32);
    let session = heap.session().unwrap();
    let made = tree(&deep(depth, 0)[..], &heap, &session).unwrap();
    assert_eq!((made.row(ROOT).unwrap().items, made.row(ROOT).unwrap().size), (1_000_000, 1_000_000));
    let written = export(&made);
    let mut lines = written.split(|byte| *byte == b'\n').skip(2);
    for level in 0..depth {
        let line = lines.next().unwrap();
        let line = line.strip_suffix(b",").unwrap_or(&line[..line.len().min(40)]);
        assert!(
            line.starts_with(format!("[{{\"name\":\"d{level}\",\"asize\":1}}").as_bytes()),
            "{}",
            line.escape_ascii()
        );
    }
    assert!(written.iter().rev().skip(1).take(depth + 2).all(|byte| *byte == b']'));
}

/// Directories whose entries are no longer in memory are resumed where they were left: in the middle of a
/// part, and at its end.
#[test]
fn directories_are_gone_on_with_behind_deep_ones() {
    for beside in [1, 30, 62, 63, 64, 65, 130] {
        let bytes = deep(600, beside);
        let first = again(&bytes);
        let items = with_tree(&first[..], |tree| tree.row(ROOT).unwrap().items).unwrap();
        assert_eq!(items, 600 * (beside as u64 + 1));
        assert_eq!(again(&first), first);
    }
}

#[test]
fn a_directory_may_have_more_entries_than_plain_memory() {
    let mut bytes = Vec::from(&b"[1,2,{},[{\"name\":\"/\"}"[..]);
    for number in 0..200_000_u32 {
        let (open, close) = if number % 3 == 0 { ("[", "]") } else { ("", "") };
        let link = if number % 2 == 0 && number < 20_000 {
            format!(",\"ino\":{},\"nlink\":2", number / 4)
        } else {
            String::new()
        };
        let name = number.wrapping_mul(0x9e37_79b1);
        bytes.extend_from_slice(
            format!(",{open}{{\"name\":\"{name:x}\",\"asize\":1{link}}}{close}").as_bytes(),
        );
    }
    bytes.extend_from_slice(b"]]");
    let first = again(&bytes);
    let sums = |bytes: &[u8]| {
        with_tree(bytes, |tree| {
            let row = tree.row(ROOT).unwrap();
            (row.items, row.size, row.shared_size)
        })
        .unwrap()
    };
    // Of every four numbers, the first and the third are names of one file, unless one of them is a
    // directory.
    let pairs = (0..5_000_u64).filter(|file| file * 4 % 3 != 0 && (file * 4 + 2) % 3 != 0).count() as u64;
    let links = 10_000 - (0..20_000_u64).filter(|number| number % 6 == 0).count() as u64;
    assert_eq!(sums(&bytes), (200_000, 200_000 - pairs, links - 2 * pairs));
    assert_eq!(sums(&first), sums(&bytes));
    assert_eq!(again(&first), first);
}

/// The largest values are read back, and sums are clamped to them, too.
#[test]
fn the_largest_numbers_are_read_back() {
    let most = i64::MAX;
    let entry = |name: &str, mtime: &str| {
        format!(
            "{{\"name\":\"{name}\",\"asize\":{most},\"dsize\":{most},\"dev\":{max},\"ino\":{max},\"hlnkc\":true,\"nlink\":4294967295,\
             \"uid\":4294967295,\"gid\":2147483648,\"mode\":65535,\"mtime\":{mtime}}}",
            max = u64::MAX,
        )
    };
    let (early, late) = (i64::MIN.to_string(), most.to_string());
    let bytes = format!(
        "[1,2,{{}},[{{\"name\":\"/\",\"asize\":{most}}},{},[{},{},{{\"name\":\"one\",\"asize\":1}}],{{\"name\":\"f\",\"read_error\":true,\"errno\":65535}}]]",
        entry("a", &early),
        entry("d", "-0.5"),
        entry("b", &late),
    );
    let (first, sums) = with_tree(bytes.as_bytes(), |tree| {
        let row = tree.row(ROOT).unwrap();
        (export(tree), (row.sum().size, row.sum().disk_bytes(), row.items))
    })
    .unwrap();
    assert_eq!(sums, (most as u64, most as u64 / 512 * 512, 5));
    let text = String::from_utf8_lossy(&first);
    assert_eq!(text.matches(&format!("\"asize\":{most}")).count(), 4, "{text}");
    assert_eq!(text.matches(&format!("\"dsize\":{}", most / 512 * 512)).count(), 3, "{text}");
    for there in [i64::MIN as u64, most as u64, u64::MAX] {
        assert!(text.contains(&there.to_string()), "{there}: {text}");
    }
    assert_eq!(again(&first), first);
}
