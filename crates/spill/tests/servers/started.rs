//! Real servers, started for one test each.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A program that is killed when this is dropped.
pub struct Server(Child);

impl Server {
    pub fn start(program: &str, words: &[&str]) -> Self {
        let child = Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Server(child.unwrap_or_else(|error| panic!("{program}: {error}; `make setup` installs it")))
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Stops or continues the program.
    pub fn stop_for_now(&self, stops: bool) {
        let signal = if stops { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
        let stat = format!("/proc/{}/stat", self.0.id());
        until(signal, || std::fs::read_to_string(&stat).unwrap().contains(") T") == stops);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A port on which nothing listens, and that is returned only once in this process. A server of a cluster
/// needs another one, 10000 above it. The system does not use either for outgoing connections, whose ports
/// begin at 32768. The port is not tested by listening on it: a child that is forked meanwhile would keep
/// listening for a moment, and nbdkit, finding the port taken, would silently listen on IPv6 only.
pub fn port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16 % 100 * 100;
    let is_free = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_err();
    loop {
        let port = 10_000 + first.wrapping_add(GIVEN.fetch_add(1, Relaxed)) % 10_000;
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}

pub struct Nbdkit {
    server: Server,
    words: Vec<String>,
    pub socket: PathBuf,
    pub uri: String,
}

impl Nbdkit {
    /// Starts nbdkit; `words` are filters and the plugin with its parameters.
    pub fn start(directory: &Path, words: &[&str]) -> Self {
        let socket = directory.join("nbd.sock");
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let server = Self::spawn(&socket, &words);
        Nbdkit { server, words, socket, uri }
    }

    fn spawn(socket: &Path, words: &[String]) -> Server {
        let _ = std::fs::remove_file(socket);
        let mut all = vec!["--foreground", "--unix", socket.to_str().unwrap()];
        all.extend(words.iter().map(String::as_str));
        let server = Server::start("nbdkit", &all);
        until("nbdkit", || std::os::unix::net::UnixStream::connect(socket).is_ok());
        server
    }

    pub fn kill(&mut self) {
        self.server.kill();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.server = Self::spawn(&self.socket, &self.words);
    }

    pub fn stop_for_now(&self, stops: bool) {
        self.server.stop_for_now(stops);
    }
}

pub struct Redis {
    server: Server,
    words: Vec<String>,
    pub port: u16,
    pub url: String,
}

impl Redis {
    pub fn start(directory: &Path, words: &[&str]) -> Self {
        let port = port();
        let mut all =
            vec!["--port".to_owned(), port.to_string(), "--dir".to_owned(), directory.display().to_string()];
        all.extend(["--save", "", "--appendonly", "no", "--loglevel", "warning"].map(str::to_owned));
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let server = Self::spawn(port, &all);
        Redis { server, words: all, port, url: format!("redis://127.0.0.1:{port}") }
    }

    fn spawn(port: u16, words: &[String]) -> Server {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let server = Server::start("redis-server", &words);
        // A server that requires a password also answers.
        until("redis-server", || !cli(port, &["PING"]).is_empty());
        server
    }

    pub fn kill(&mut self) {
        self.server.kill();
    }

    pub fn restart(&mut self) {
        self.kill();
        self.server = Self::spawn(self.port, &self.words);
    }

    pub fn stop_for_now(&self, stops: bool) {
        self.server.stop_for_now(stops);
    }

    pub fn cli(&self, words: &[&str]) -> String {
        cli(self.port, words)
    }

    /// The keys that match this pattern, sorted.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<_> = self.cli(&["KEYS", pattern]).split_whitespace().map(str::to_owned).collect();
        keys.sort();
        keys
    }
}

/// A server in cluster mode.
pub fn in_cluster(directory: &Path, number: usize) -> Redis {
    let own = directory.join(number.to_string());
    std::fs::create_dir(&own).unwrap();
    let timeout = ["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"];
    Redis::start(&own, &[&["--cluster-enabled", "yes"][..], &timeout].concat())
}

/// A cluster of three masters, without replicas.
pub fn cluster(directory: &Path) -> Vec<Redis> {
    let servers: Vec<_> = (0..3).map(|number| in_cluster(directory, number)).collect();
    let hosts: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
    redis_cli(&[&["--cluster", "create"][..], &hosts, &["--cluster-yes"]].concat());
    until("the cluster", || {
        servers.iter().all(|server| server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
    servers
}

/// The output of redis-cli.
pub fn cli(port: u16, words: &[&str]) -> String {
    redis_cli(&[&["-p", &port.to_string()], words].concat())
}

pub fn redis_cli(words: &[&str]) -> String {
    let output = Command::new("redis-cli").args(words).stderr(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
