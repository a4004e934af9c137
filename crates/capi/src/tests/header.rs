//! The headers are written by hand, for their readers. This test compares them with the code: cbindgen makes
//! declarations from the sources, and a C compiler gets both. It refuses two different declarations of one
//! function.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use cbindgen::{Config, ItemType, Language};

use crate::error::Code;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// cbindgen's output for the sources.
fn generated(item: ItemType) -> String {
    let mut config = Config { language: Language::C, usize_is_size_t: true, ..Config::default() };
    config.documentation = false;
    config.no_includes = true;
    config.export.item_types = vec![item];
    let numbers = ["memfold_heap", "memfold_session", "memfold_slablist", "memfold_slabmap"];
    config.export.exclude = numbers.into_iter().chain(["capi_test_panic"]).map(String::from).collect();
    // It finds the other files from there.
    let builder = cbindgen::Builder::new().with_config(config).with_src(root().join("src/lib.rs"));
    let mut text = vec![];
    builder.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

/// Whether a C compiler accepts it.
fn compiles(name: &str, text: &str) -> Result<(), String> {
    let file = env::temp_dir().join(format!("memfold-header-{}-{name}.c", std::process::id()));
    fs::write(&file, text).unwrap();
    let result = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(&file)
        .output()
        .expect("a C compiler");
    fs::remove_file(&file).unwrap();
    if result.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&result.stderr).into_owned()) }
}

fn header(name: &str) -> String {
    let text = fs::read_to_string(root().join("include").join(name)).unwrap();
    // Without comments.
    let mut rest = text.as_str();
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        rest = after.split_once("*/").expect("a comment ends").1;
    }
    plain + rest
}

/// The names of the declared functions.
fn functions(text: &str) -> BTreeSet<String> {
    // Only the outermost level of the text: arguments and bodies are skipped up to their ends.
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| if line.starts_with(' ') { if line.ends_with(';') { ";" } else { "" } } else { line })
        .collect();
    let code = code.join(" ");
    let declared = code
        .split(';')
        .filter(|line| line.contains('(') && !line.contains("typedef") && !line.contains("static"));
    let name = |line: &str| {
        let before = line.split('(').next().unwrap_or_default();
        before.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
    };
    declared.map(name).filter(|name| name.starts_with("memfold_") || name.starts_with("compll_")).collect()
}

const INCLUDES: &str = "#include \"memfold.h\"\n#include \"compll.h\"\n#include \"memfold_weft.h\"\n";

#[test]
fn functions_are_as_declared() {
    let made = generated(ItemType::Functions);
    compiles("functions", &format!("{INCLUDES}{made}")).unwrap();
    let declared = functions(&header("memfold.h"))
        .union(&functions(&header("compll.h")))
        .chain(&functions(&header("memfold_weft.h")))
        .cloned()
        .collect::<BTreeSet<_>>();
    assert_eq!(declared, functions(&made));
    assert!(declared.len() >= 87, "{declared:?}");
}

#[test]
fn a_difference_would_be_noticed() {
    let made = generated(ItemType::Functions);
    for (name, from, to) in [
        ("type", "memfold_handle near_to", "int near_to"),
        ("const", "const void **bytes", "void **bytes"),
        ("result", "int memfold_heap_destroy", "void memfold_heap_destroy"),
        ("arguments", "compll_alloc(unsigned int size)", "compll_alloc(unsigned int size, int more)"),
    ] {
        assert!(made.contains(from), "{from} in {made}");
        let complaint = compiles(name, &format!("{INCLUDES}{}", made.replace(from, to))).unwrap_err();
        assert!(complaint.contains("conflicting types"), "{complaint}");
    }
}

#[test]
fn structs_have_the_same_layout() {
    let made = generated(ItemType::Structs);
    let mut text = format!("{INCLUDES}#include <stddef.h>\n");
    // Each with its least number of fields.
    let structs = [
        ("memfold_options", 16),
        ("memfold_stats", 11),
        ("memfold_slablist_options", 10),
        ("memfold_slabmap_options", 7),
    ];
    for (name, _) in structs {
        text += &format!("#define {name} made_{name}\n");
    }
    text += &made;
    for (name, least) in structs {
        text +=
            &format!("#undef {name}\n_Static_assert(sizeof({name}) == sizeof(made_{name}), \"{name}\");\n");
        let body =
            made.split_once(&format!("typedef struct {name} {{")).expect(name).1.split_once('}').unwrap().0;
        let fields: Vec<&str> = body
            .split(';')
            .filter_map(|line| line.trim().rsplit([' ', '*']).next())
            .filter(|field| !field.is_empty())
            .collect();
        assert!(fields.len() >= least, "{fields:?}");
        for field in fields {
            text += &format!(
                "_Static_assert(offsetof({name}, {field}) == offsetof(made_{name}, {field}), \"{name}.{field}\");\n\
                 _Static_assert(_Generic(&(({name} *)0)->{field}, __typeof__(&((made_{name} *)0)->{field}): 1, default: 0), \"{field}\");\n"
            );
        }
    }
    compiles("structs", &text).unwrap();
    let wrong = text.replace("uint64_t evictions;", "int64_t evictions;");
    assert_ne!(text, wrong);
    assert!(compiles("structs-wrong", &wrong).unwrap_err().contains("evictions"));
}

#[test]
fn codes_and_version_are_the_same() {
    let declared = header("memfold.h");
    let names = declared.split_once("enum memfold_error {").unwrap().1.split_once('}').unwrap().0;
    assert_eq!(names.matches('=').count(), Code::ALL.len());
    let mut text = String::from(INCLUDES);
    for &(code, name) in Code::ALL {
        let mut upper = String::from("MEMFOLD");
        for letter in name.chars() {
            if letter.is_uppercase() {
                upper.push('_');
            }
            upper.push(letter.to_ascii_uppercase());
        }
        text += &format!("_Static_assert({upper} == {}, \"{upper}\");\n", code as i32);
    }
    for part in ["MAJOR", "MINOR", "PATCH"] {
        let version = ["MAJOR", "MINOR", "PATCH"].iter().zip(env!("CARGO_PKG_VERSION").split('.'));
        let number = version.into_iter().find(|(name, _)| **name == part).unwrap().1;
        text += &format!("_Static_assert(MEMFOLD_VERSION_{part} == {number}, \"{part}\");\n");
    }
    compiles("codes", &text).unwrap();
}
