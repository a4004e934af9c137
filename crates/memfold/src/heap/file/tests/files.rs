//! How files get their names.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::string::String;
use std::time::Duration;
use std::vec::Vec;
use std::{env, thread};

use super::super::replace::replace;
use super::*;
use crate::heap::SaveError;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn heap(seed: u64) -> (Heap, Model) {
    let heap = Heap::new(Options::new().block_size(4096)).unwrap();
    let mut model = Model::new(seed, &[100]);
    model.go_on(&mut heap.session().unwrap(), 2000);
    (heap, model)
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("heap");
    for seed in 0..3 {
        let (mut heap, model) = heap(seed);
        heap.save(&path).unwrap();
        assert_eq!(names(here.path()), ["heap"]);
        model.is_in(&mut Heap::load(&path, Options::new()).unwrap());
        model.is_in(&mut heap);
    }
    let mut longer = fs::read(&path).unwrap();
    longer.push(0);
    fs::write(&path, longer).unwrap();
    assert!(matches!(Heap::load(&path, Options::new()), Err(LoadError::Damaged(_))));
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("heap");
    let (mut heap, model) = heap(4);
    heap.save(&path).unwrap();
    let failed = replace(&path, |file| {
        file.write_all(b"only the beginning")?;
        Err(io::Error::from(io::ErrorKind::StorageFull))
    });
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(names(here.path()), ["heap"]);
    model.is_in(&mut Heap::load(&path, Options::new()).unwrap());
    // Nothing was there.
    let other = here.path().join("other");
    replace(&other, |_| Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull))).unwrap_err();
    assert_eq!(names(here.path()), ["heap"]);
    let missing = here.path().join("no/such/directory");
    assert!(matches!(heap.save(&missing), Err(SaveError::Io(_))));
    assert!(heap.save(here.path()).is_err() && heap.save("").is_err() && heap.save("/").is_err());
    assert!(matches!(Heap::load(&missing, Options::new()), Err(LoadError::Io(_))));
    assert!(matches!(Heap::load(here.path(), Options::new()), Err(LoadError::Io(_))));
    assert_eq!(names(here.path()), ["heap"]);
    model.is_in(&mut heap);
}

/// Has space for this many bytes.
struct Narrow(usize);

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0).min(1000);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_heap_outlives_a_save_that_fails_anywhere() {
    let (mut heap, model) = heap(5);
    let file = saved(&mut heap);
    let before = heap.stats();
    for room in (0..file.len()).step_by(file.len() / 50) {
        match heap.save_to(Narrow(room)) {
            Err(SaveError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
            other => panic!("{other:?}"),
        }
        assert_eq!(heap.stats().payload_bytes, before.payload_bytes);
    }
    heap.save_to(Narrow(file.len())).unwrap();
    model.is_in(&mut heap);
    assert_eq!(saved(&mut heap).len(), file.len());
    model.end(&mut heap);
}

#[cfg(unix)]
#[test]
fn links_permissions_and_devices() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let here = tempfile::tempdir().unwrap();
    let (file, link) = (here.path().join("file"), here.path().join("link"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    symlink(&file, &link).unwrap();
    let (mut heap, model) = heap(6);
    heap.save(&link).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o604);
    model.is_in(&mut Heap::load(&link, Options::new()).unwrap());
    // Written in place.
    heap.save("/dev/null").unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    if Path::new("/dev/full").exists() {
        assert!(matches!(heap.save("/dev/full"), Err(SaveError::Io(_))));
    }
    assert_eq!(names(here.path()), ["file", "link"]);
}

const KILLED: &str = "MEMFOLD_TEST_SAVES_TO";

/// No test in itself: the next test runs it and kills it.
#[test]
#[ignore = "runs until it is killed"]
fn saves_until_it_is_killed() {
    let Some(path) = env::var_os(KILLED) else { return };
    let (mut heap, mut model) = heap(7);
    loop {
        heap.save(&path).unwrap();
        model.go_on(&mut heap.session().unwrap(), 200);
    }
}

#[test]
fn a_killed_process_leaves_a_whole_file() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("heap");
    for round in 0..8 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--ignored", "--exact", "heap::file::tests::files::saves_until_it_is_killed"])
            .env(KILLED, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !path.exists() && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(3 * round));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it was killed");
        Heap::load(&path, Options::new()).unwrap().check().unwrap();
    }
}
