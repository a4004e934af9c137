#!/usr/bin/env python3
"""Writes a Rust library: COUNT structs of 8 to 16 fields with derived traits, and a function for each.

usage: records.py COUNT
"""

import sys

TYPES = ["u8", "u16", "u32", "u64", "i32", "i64", "bool", "char", "String", "Vec<u8>", "Option<u32>",
         "Option<String>", "(u32, u64)", "[u8; 4]", "Box<str>", "Vec<String>"]


def main():
    print("use std::collections::BTreeMap;")
    for number in range(int(sys.argv[1])):
        fields = (f"pub f{at}: {TYPES[(number * 7 + at * at + number // 16) % len(TYPES)]}" for at in range(8 + number % 9))
        print(f"""
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record{number} {{ {", ".join(fields)} }}
pub fn number{number}(all: &mut BTreeMap<Record{number}, usize>, one: &Record{number}) -> usize {{
    let count = all.len();
    *all.entry(one.clone()).or_insert(count)
}}""")


main()
