//! JSON and Prometheus for their readers, and refusals.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::common::MEMFOLD;
use super::program::{Program, gone};
use super::{MIB, exposition, top};

#[test]
fn impossible_arguments_are_refused() {
    let own = std::process::id().to_string();
    top(&["--json", &own]).is_refusal(125, &["does not run under memfold"]);
    top(&["--json", &gone()]).is_refusal(125, &["there is no process"]);
    top(&[]).is_refusal(125, &["standard output is not a terminal", "--json"]);
    for bad in ["0", "0.09", "-1", "nan", "inf", "x", "1e9"] {
        top(&["--json", "--interval", bad]).is_refusal(125, &["interval", "from 0.1 to 86400"]);
    }
    top(&["--json", "--count", "0"]).is_refusal(125, &["count"]);
    top(&["--json", "--prometheus"]).is_refusal(125, &["cannot be used with"]);
    top(&["--listen", "127.0.0.1"]).is_refusal(125, &["cannot listen at '127.0.0.1'"]);
}

#[test]
fn the_reader_of_the_stream_has_gone() {
    let mut child = Command::new(MEMFOLD)
        .args(["top", "--json", "--interval", "0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let look: Value = serde_json::from_str(&line).unwrap();
    assert!((0.1..5.0).contains(&look["seconds"].as_f64().unwrap()) && look["trees"].is_array());
    drop(output);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert_eq!(said, "");
}

#[test]
fn prometheus_is_answered() {
    let program = Program::start("200M", 1, "idle", None);
    let mut child = Command::new(MEMFOLD)
        .args(["top", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("memfold: metrics are at http://").unwrap();
    let address = address.strip_suffix("/metrics").unwrap();
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        (head.to_owned(), body.to_owned(), length.parse::<usize>().unwrap())
    };
    // A silent client does not block other clients forever.
    let silent = TcpStream::connect(address).unwrap();
    let (head, body, length) = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    drop(silent);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    assert_eq!(length, body.len());
    let supervisor = program.supervisor();
    let all = exposition::parse(&body);
    assert_eq!(all.value_of("memfold_tree_limit_bytes", "supervisor", &supervisor), (200 * MIB) as f64);
    let (head, body, length) = ask("HEAD /metrics?x=1 HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty() && length > 100, "{head}");
    assert!(ask("GET /x HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 405 "));
    child.kill().unwrap();
    child.wait().unwrap();
    program.end();
}
