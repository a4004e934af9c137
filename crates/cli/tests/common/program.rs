//! A program under memfold, to be inspected while it runs.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::common::{MEMFOLD, finish};

/// Fills this many MiB with distinct pages that compress well, and prints "ready". Then it touches all pages
/// again and again if it is "busy", and otherwise nothing, until its standard input ends.
const PROGRAM: &str = "\
import os,select,sys
mib,busy=int(sys.argv[1]),sys.argv[2:]==['busy']
page=bytearray(b'the quick brown fox jumps over the lazy dog; '*91)
blocks=[]
for i in range(mib):
    blocks.append(bytearray(b''.join(page[:4000]+b'%096d'%(i*256+j) for j in range(256))))
print('ready',flush=True)
ended=False
while not ended:
    ended=bool(select.select([0],[],[],0.0 if busy else 60)[0])
    for at in range(0,(1<<20) if busy else 0,4096):
        for block in blocks: block[at]=at&255
print('done',flush=True)
";

pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program, and waits until it has filled its memory.
    pub fn start(limit: &str, mib: u32, mode: &str, stats: Option<&Path>) -> Self {
        let mut command = Command::new(MEMFOLD);
        command.args(["run", "--quiet", "--limit", limit]);
        if let Some(path) = stats {
            command.arg("--stats").arg(path);
        }
        command.args(["--", "python3", "-c", PROGRAM, &mib.to_string(), mode]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Program { child, input, output }
    }

    /// The supervisor's process id.
    pub fn supervisor(&self) -> String {
        self.child.id().to_string()
    }

    /// Ends the program normally, and checks that.
    pub fn end(mut self) {
        drop(self.input.take());
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The end of its input ends the program, even without a supervisor.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The tree of a process, as `memfold top --json` reports it.
pub fn tree(pid: &str) -> Value {
    let mut command = Command::new(MEMFOLD);
    command.args(["top", "--json", "--count", "1", "--interval", "0.3", pid]).stdin(Stdio::null());
    let said = finish(command);
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    let look: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(look["trees"].as_array().unwrap().len(), 1, "{look:#}");
    look["trees"][0].clone()
}

/// A copy of the command, to be run as another user; None, with a message, if this user is not root.
pub fn as_another_user(directory: &Path) -> Option<Command> {
    use std::os::unix::fs::PermissionsExt;
    if !super::common::is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let copy = directory.join("memfold");
    std::fs::copy(MEMFOLD, &copy).unwrap();
    for path in [directory, &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]).arg(&copy).stdin(Stdio::null());
    Some(command)
}

/// The id of a process that has just ended.
pub fn gone() -> String {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id().to_string()
}
