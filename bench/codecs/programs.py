"""The programs whose heaps the codec's tables are made from, and a load for each.

Loads do what such programs do: they build maps of records, parse documents, compile, sort, lay out pages. Each
takes some tens of MiB. A load that ends is captured near its peak; one that stays is captured when it no longer
grows.
"""

from dataclasses import dataclass


@dataclass
class Program:
    """A program and its load: a script for sh, in a directory of its own. What comes before `LOAD` prepares
    it, and is not captured.
    """

    name: str  # its kind, and after a hyphen which of several it is: they have the same runtime
    packages: str  # of Debian
    script: str
    files: tuple = ()  # (name, content), written before
    least: int = 12  # MiB from which on it is captured


LOAD = "\n# load\n"


WORDS = """
import random
random.seed(1)
letters = "etaoinshrdlucmfwypvbgk"
def word(): return "".join(random.choice(letters) for _ in range(random.randint(2, 11)))
some = [word() for _ in range(5000)]
def words(count): return " ".join(random.choice(some) for _ in range(count))
"""


def made(script, to):
    """A shell command that writes a file with a Python script, which has `words`."""
    return f"python3 - >{to} <<'EOF'\n{WORDS}{script}\nEOF\n{LOAD}"


JSON = made("""
import json
print(json.dumps([{"id": i, "name": words(2), "score": random.random() * 100, "tags": words(4).split(), "on": i % 3 == 0,
                   "owner": {"login": words(1), "url": f"https://example.org/{i * 7919 % 100003}/x"}} for i in range(90000)]))
""", "data.json")
XML = made("""
print("<all>")
for i in range(70000): print(f'<item id="{i}" kind="{words(1)}"><name>{words(2)}</name><text>{words(9)}</text></item>')
print("</all>")
""", "data.xml")
CSV = made("""
print("id,name,group,x,y,day")
for i in range(300000): print(f"{i},{words(2)},{random.choice(some[:50])},{random.gauss(0, 1):.5f},{i * 3 % 1009},2026-{i % 12 + 1:02}-{i % 28 + 1:02}")
""", "data.csv")
MARKDOWN = made("""
for i in range(4000): print(f"# {words(3)}\\n\\n{words(60)} *{words(2)}* [{words(1)}](https://example.org/{i})\\n\\n* {words(7)}\\n* {words(5)}\\n")
""", "text.md")
HTML = made("""
print("<html><style>td{padding:2px;color:#345}.a{float:left}</style><body>")
for i in range(9000): print(f"<div class=a><h3 id=n{i}>{words(3)}</h3><p>{words(25)}</p><table><tr><td>{i}<td>{words(2)}</table></div>")
print("<script>var all={};for(const e of document.querySelectorAll('h3'))all[e.id]={text:e.textContent,n:e.id.length,next:e.nextSibling};</script></body></html>")
""", "page.html")
SQL = made("""
print("create table t(id integer primary key, name text, groups int, x double precision, day date);")
for i in range(0, 200000, 500):
    rows = ",".join(f"({j},'{words(3)}',{random.randint(0, 99)},{random.random():.6f},'2026-{j % 12 + 1:02}-{j % 28 + 1:02}')" for j in range(i, i + 500))
    print(f"insert into t values {rows};")
""", "data.sql")

CPP = r"""
#include <bits/stdc++.h>
template <int N> struct Shape { std::map<std::string, std::array<double, N>> all; std::regex r{"a+b*(c|d)"};
  auto find(const std::string &s) { return std::regex_match(s, r) ? all.find(s) : all.end(); }
  double sum() { return std::accumulate(all.begin(), all.end(), 0.0, [](double a, auto &b) { return a + b.second[0]; }); } };
template <int... I> double use(std::integer_sequence<int, I...>) { return ((Shape<I + 1>{}.sum() + Shape<I + 1>{}.all.size()) + ...); }
int main() { std::cout << use(std::make_integer_sequence<int, 60>{}); }
"""
RUST = r"""
use std::collections::{BTreeMap, HashMap};
macro_rules! types { ($($name:ident)*) => { $(
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct $name { id: u64, name: String, map: HashMap<String, Vec<u32>>, tree: BTreeMap<u64, Option<Box<$name>>> }
)* pub fn all() -> String { let mut s = String::new(); $( s += &format!("{:?}", $name::default().clone()); )* s } } }
types! { A0 A1 A2 A3 A4 A5 A6 A7 A8 A9 B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 C0 C1 C2 C3 C4 C5 C6 C7 C8 C9
         D0 D1 D2 D3 D4 D5 D6 D7 D8 D9 E0 E1 E2 E3 E4 E5 E6 E7 E8 E9 F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 }
fn main() { println!("{}", all().len()); }
"""
RUST_HEAP = r"""
use std::collections::{BTreeMap, HashMap};
struct Item { id: u64, name: String, tags: Vec<u32>, parent: Option<Box<Item>> }
fn main() {
    let mut seed = 1u64;
    let mut next = move || { seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); seed >> 33 };
    let mut map = HashMap::new();
    let mut tree = BTreeMap::new();
    for i in 0..250_000u64 {
        let parent = (i % 3 == 0).then(|| Box::new(Item { id: i / 3, name: format!("p{}", next() % 1000), tags: vec![], parent: None }));
        map.insert(format!("key-{}", next()), Item { id: i, name: format!("name {}", next() % 5000), tags: (0..next() % 6).map(|n| n as u32).collect(), parent });
        tree.insert(next(), i);
    }
    std::thread::sleep(std::time::Duration::from_secs(60));
    println!("{}", map.values().map(|i| i.id + i.name.len() as u64 + i.tags.len() as u64 + i.parent.as_ref().map_or(0, |p| p.id + p.tags.len() as u64 + p.parent.is_some() as u64)).sum::<u64>() + tree.len() as u64);
}
"""
GO = r"""
package main
import ("fmt"; "math/rand"; "time")
type Item struct { ID int; Name string; Tags []string; Next *Item; At time.Time; Score float64 }
func main() {
	all := map[string]*Item{}
	var last *Item
	for i := 0; i < 250000; i++ {
		item := &Item{i, fmt.Sprintf("name %d", rand.Intn(5000)), make([]string, rand.Intn(4)), last, time.Now(), rand.Float64()}
		for j := range item.Tags { item.Tags[j] = fmt.Sprint("tag", rand.Intn(100)) }
		if i%7 == 0 { last = item }
		all[fmt.Sprintf("key-%d", rand.Int63())] = item
	}
	time.Sleep(time.Minute)
	fmt.Println(len(all), last.ID)
}
"""
CSHARP = r"""
using System; using System.Collections.Generic; using System.Threading;
class Item { public int Id; public string Name; public List<int> Tags = new List<int>(); public Item Next; public DateTime At; }
class Program { static void Main() {
  var all = new Dictionary<string, Item>(); var random = new Random(1); Item last = null;
  for (int i = 0; i < 250000; i++) { var item = new Item { Id = i, Name = "name " + random.Next(5000), Next = last, At = DateTime.Now };
    for (int j = random.Next(5); j > 0; j--) item.Tags.Add(random.Next(100)); if (i % 7 == 0) last = item; all["key-" + i * 7919L % 1000003 + i] = item; }
  Thread.Sleep(60000); Console.WriteLine(all.Count + last.Id); } }
"""
HASKELL = r"""
import qualified Data.Map.Strict as M
import Control.Concurrent
data Item = Item { ident :: !Int, name :: String, tags :: [Int], next :: Maybe Item }
main :: IO ()
main = do
  let step (m, l) i = let x = Item i ("name " ++ show (i * 7919 `mod` 5003)) [i `mod` 3 .. i `mod` 7] l
                          m' = M.insert (i * 7919 `mod` 1000003) x m in m' `seq` (m', if i `mod` 7 == 0 then Just x else l)
      go s [] = s
      go s (i : is) = let s' = step s i in fst s' `seq` go s' is
      (m, _) = go (M.empty, Nothing) [1 .. 120000 :: Int]
  print (sum (map (\x -> length (name x) + sum (tags x) + maybe 0 ident (next x)) (M.elems m)))
  threadDelay 60000000
  print (M.size m)
"""
OCAML = r"""
type item = { id : int; name : string; tags : int list; next : item option; score : float }
module M = Map.Make (String)
let () =
  let table = Hashtbl.create 16 and last = ref None and map = ref M.empty in
  for i = 1 to 200000 do
    let item = { id = i; name = Printf.sprintf "name %d" (Random.int 5000); tags = List.init (Random.int 5) (fun j -> i + j); next = !last; score = Random.float 1. } in
    if i mod 7 = 0 then last := Some item;
    Hashtbl.replace table (Random.bits ()) item;
    if i mod 3 = 0 then map := M.add (string_of_int (Random.bits ())) item !map
  done;
  Unix.sleep 60; Printf.printf "%d %d\n" (Hashtbl.length table) (M.cardinal !map)
"""
OCAML_BIG = "".join(
    f"module M{i} = struct type t = A{i} of int | B of string * t list let rec f x = match x with A{i} n -> n + {i} | B (s, l) ->"
    f" List.fold_left (fun a y -> a + f y * String.length s) {i} l let g = List.map (fun x -> f (B (\"{i}\", [x; A{i} 3]))) end\n"
    for i in range(900)
)
HASKELL_BIG = "module Big where\nimport qualified Data.Map as M\n" + "".join(
    f"data T{i} = A{i} {{ a{i} :: Int, b{i} :: String }} | C{i} [T{i}] deriving (Show, Eq, Ord, Read)\n"
    f"f{i} :: T{i} -> M.Map String Int -> Int\nf{i} (A{i} n s) m = n + M.findWithDefault {i} s m\nf{i} (C{i} l) m = sum (map (`f{i}` m) l)\n"
    for i in range(60)
)
JAVA = r"""
import java.util.*;
public class Records { record Item(int id, String name, List<Integer> tags, Item next, double score) {}
  public static void main(String[] a) throws Exception { Map<String, Item> all = new HashMap<>(); TreeMap<Long, Item> tree = new TreeMap<>(); Random r = new Random(1); Item last = null;
    for (int i = 0; i < 200000; i++) { List<Integer> tags = new ArrayList<>(); for (int j = r.nextInt(5); j > 0; j--) tags.add(r.nextInt(1000));
      Item item = new Item(i, "name " + r.nextInt(5000), tags, last, r.nextDouble()); if (i % 7 == 0) last = item; all.put("key-" + r.nextInt(), item); if (i % 3 == 0) tree.put(r.nextLong(), item); }
    Thread.sleep(60000); System.out.println(all.size() + tree.size()); } }
"""
ERLANG = r"""
-module(load).
-export([main/0]).
main() ->
    T = ets:new(t, [set]),
    L = lists:map(fun(I) ->
        X = #{id => I, name => "name " ++ integer_to_list(rand:uniform(5000)), tags => [rand:uniform(100) || _ <- lists:seq(1, I rem 5)], key => integer_to_binary(rand:uniform(1 bsl 40))},
        ets:insert(T, {rand:uniform(1 bsl 40), X}), X end, lists:seq(1, 70000)),
    M = maps:from_list([{maps:get(key, X), X} || X <- L]),
    timer:sleep(60000), io:format("~p ~p~n", [length(L), maps:size(M)]).
"""
MEMCACHED = r"""
import random, socket, time
random.seed(1)
for _ in range(200):
    try: s = socket.create_connection(("127.0.0.1", 21811)); break
    except OSError: time.sleep(0.05)
f = s.makefile("rwb")
for i in range(150000):
    value = ('{"id": %d, "name": "n%d", "at": %f, "roles": ["%s"]}' % (i, random.randint(0, 9999), random.random(), "user,admin"[: random.randint(4, 10)])).encode()
    f.write(b"set session:%d 0 0 %d noreply\r\n%s\r\n" % (random.getrandbits(48), len(value), value))
f.flush(); time.sleep(60)
"""

PROGRAMS = [
    Program("python-records", "python3", JSON + "python3 -c 'import json,time; a=json.load(open(\"data.json\")); b={r[\"name\"]: r for r in a}; time.sleep(60)'"),
    Program("python-classes", "python3", "python3 load.py", (("load.py", WORDS + """
import time, dataclasses, collections, datetime
@dataclasses.dataclass
class Item:
    id: int; name: str; tags: list; next: object; at: datetime.datetime; score: float
class Slim:
    __slots__ = "a", "b"
    def __init__(self, a, b): self.a, self.b = a, b
all, last = {}, None
for i in range(90000):
    item = Item(i, words(2), [random.randint(0, 999) for _ in range(i % 5)], last, datetime.datetime.now(), random.random())
    all[random.getrandbits(40)] = item
    if i % 7 == 0: last = item
slim = collections.deque(Slim(i, (i, str(i))) for i in range(100000))
time.sleep(60)
"""),)),
    Program("python-ast", "python3", "python3 -c 'import ast,glob,time; a=[ast.parse(open(f,\"rb\").read()) for f in sorted(glob.glob(\"/usr/lib/python3*/*.py\"))[:60]]; time.sleep(60)'"),
    Program("python-pandas", "python3-pandas", CSV + "/usr/bin/python3 -c 'import pandas,time; a=pandas.read_csv(\"data.csv\"); b=a.groupby(\"group\").agg({\"x\":\"mean\",\"y\":\"sum\"}); c=a.sort_values(\"x\").merge(b,on=\"group\"); time.sleep(60)'"),
    Program("node-records", "nodejs", JSON + "node -e 'const a=JSON.parse(require(\"fs\").readFileSync(\"data.json\"));const m=new Map(a.map(r=>[r.name,r]));class P{constructor(i){this.i=i;this.s=\"n\"+i;this.f=()=>i}};const b=[];for(let i=0;i<200000;i++)b.push(new P(i));setTimeout(()=>m.size+b.length,60000)'"),
    Program("node-tsc", "node-typescript", made("""
for i in range(700): print("interface I%d { a: number; b: string; c: I%d[]; d?: { [k: string]: I%d } } export function f%d<T extends I%d>(x: T, y: Partial<I%d>): Record<string, T | I%d> { const r: Record<string, T | I%d> = {}; for (const z of x.c) { r[z.b + '%s'] = z.c.length > %d ? { ...z, ...y } as I%d : x; } return r; }" % (i, i, max(0, i - 1), i, i, i, i, i, words(1), i, i))
""", "big.ts") + "tsc --target es2020 big.ts", (), 40),
    Program("jvm-records", "default-jdk-headless", "javac Records.java" + LOAD + "java -Xmx300m Records", (("Records.java", JAVA),)),
    Program("jvm-serial", "default-jdk-headless", "javac Records.java" + LOAD + "java -XX:+UseSerialGC -Xmx200m Records", (("Records.java", JAVA),)),
    Program("jvm-javac", "default-jdk-headless", made("""
for i in range(900): print("class C%d { int a; String b = \\"%s\\"; java.util.List<C%d> l = new java.util.ArrayList<>(); int f(int x) { for (C%d c : l) x += c.f(x) * %d; switch (x) { case 1: return 2; case 5: return a; default: return b.length(); } } }" % (i, words(3), i, i, i))
""", "Big.java") + "javac -J-Xmx300m Big.java"),
    Program("ruby", "ruby", JSON + "ruby -rjson -e 'a=JSON.parse(File.read(\"data.json\")); S=Struct.new(:a,:b,:c); b=a.map{|r| S.new(r[\"id\"],r[\"name\"].to_sym,[r[\"score\"],r])}; h={}; b.each{|x| h[x.a*7919%100003]=x}; sleep 60'"),
    Program("php", "php-cli", JSON + "php -d memory_limit=-1 -r '$a=json_decode(file_get_contents(\"data.json\")); $m=[]; foreach($a as $r){$m[$r->name.$r->id]=[$r->id,$r]; } class P{public $a;public $b;} $o=[]; for($i=0;$i<100000;$i++){$p=new P;$p->a=$i;$p->b=\"s$i\";$o[]=$p;} sleep(60);'"),
    Program("perl", "perl", "perl -e 'for(1..120000){$h{\"key-\".int(rand(1e9))}={id=>$_,name=>\"name \".int(rand(5000)),tags=>[map{int rand 100}1..$_%5]}} sleep 60'"),
    Program("lua", "lua5.4", "lua5.4 -e 'a={} for i=1,200000 do a[\"k\"..math.random(1<<40)]={id=i,name=\"name \"..math.random(5000),tags={i%3,i%7},score=math.random()} end os.execute(\"sleep 60\") print(a)'"),
    Program("tcl", "tcl", "echo 'for {set i 0} {$i<150000} {incr i} {set a(key-$i) [list $i name-[expr {$i*7919%5003}] [dict create x $i y [expr {rand()}]]]}; after 60000' >l.tcl; tclsh l.tcl"),
    Program("guile", "guile-3.0", "guile -c '(define h (make-hash-table)) (do ((i 0 (+ i 1))) ((= i 150000)) (hash-set! h (* i 7919) (list i (string-append \"name \" (number->string (modulo (* i 31) 5003))) (vector i (* 1.5 i))))) (sleep 60) (display h)'"),
    Program("r", "r-base-core", CSV + "Rscript -e 'a<-read.csv(\"data.csv\"); b<-aggregate(x~group,a,mean); m<-lm(x~y,a); l<-split(a,a$group); s<-lapply(1:60000,function(i)list(id=i,name=paste(\"n\",i))); Sys.sleep(60)'"),
    Program("sbcl", "sbcl", "sbcl --noinform --eval '(progn (defstruct item id name tags next) (defvar *h* (make-hash-table :test (quote equal))) (defvar *l* nil) (dotimes (i 200000) (let ((x (make-item :id i :name (format nil \"name ~a\" (random 5000)) :tags (list i (random 100)) :next *l*))) (when (zerop (mod i 7)) (setf *l* x)) (setf (gethash (format nil \"k~a\" (random 1000000000)) *h*) x))) (sleep 60))' --quit"),
    Program("haskell-ghc", "ghc", "ghc -O1 -c Big.hs", (("Big.hs", HASKELL_BIG),), 60),
    Program("haskell-records", "ghc", "ghc -O1 -v0 Load.hs -o load" + LOAD + "./load", (("Load.hs", HASKELL),)),
    Program("haskell-pandoc", "pandoc", MARKDOWN + "pandoc text.md -o text.html"),
    Program("ocaml-records", "ocaml-nox", "ocamlfind ocamlopt -package unix -linkpkg load.ml -o load 2>/dev/null || ocamlopt -I +unix unix.cmxa load.ml -o load" + LOAD + "./load", (("load.ml", OCAML),)),
    Program("ocaml-opt", "ocaml-nox", "ocamlopt.opt -c big.ml || ocamlopt -c big.ml", (("big.ml", OCAML_BIG),)),
    Program("erlang", "erlang-base", "erlc load.erl" + LOAD + "erl -noshell -s load main -s init stop", (("load.erl", ERLANG),)),
    Program("go-records", "golang-go", "go build -o load load.go" + LOAD + "exec ./load", (("load.go", GO),)),
    Program("go-compile", "golang-go", "go build -a -o x load.go", (("load.go", GO),), 30),
    Program("go-hugo", "hugo", MARKDOWN + "mkdir -p s/content && cd s && echo 'baseURL=\"https://example.org/\"' >config.toml && mkdir -p layouts/_default && echo '{{ .Content }} {{ range .Site.Pages }}{{ .Title }}{{ end }}' >layouts/_default/single.html && split -l 40 -d -a 4 --additional-suffix=.md ../text.md content/p" + LOAD + "cd s; exec hugo --quiet"),
    Program("rust-rustc", "", "rustc -O load.rs", (("load.rs", RUST),), 40),
    Program("rust-records", "", "rustc -O load.rs -o load" + LOAD + "./load", (("load.rs", RUST_HEAP),)),
    Program("cc1plus", "g++", "g++ -O1 -c load.cpp", (("load.cpp", CPP),), 40),
    Program("clang", "clang", "clang++ -O1 -c load.cpp", (("load.cpp", CPP),), 40),
    Program("chromium", "chromium", HTML + "chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=$PWD/p --virtual-time-budget=20000 --timeout=30000 --dump-dom file://$PWD/page.html >/dev/null", (), 60),
    Program("firefox", "firefox-esr", HTML + "HOME=$PWD firefox-esr --headless --profile $PWD --no-remote --screenshot $PWD/x.png file://$PWD/page.html", (), 60),
    Program("postgres", "postgresql", SQL + "chown -R nobody .; B=$(ls -d /usr/lib/postgresql/*/bin); su -s /bin/sh nobody -c \"$B/initdb -A trust -D d >/dev/null && echo 'shared_buffers=64MB\nwork_mem=200MB\nunix_socket_directories=\\047$PWD\\047\nlisten_addresses=\\047\\047\nmax_parallel_workers_per_gather=0' >>d/postgresql.conf && ($B/postgres -D d >/dev/null 2>&1 & sleep 2; $B/psql -q -h $PWD postgres <data.sql; $B/psql -q -h $PWD postgres -c 'select name,array_agg(x order by day),max(id) from t group by name order by 3' >/dev/null; $B/psql -q -h $PWD postgres -c 'select pg_sleep(3) from (select a.name,count(*) from t a join t b using(name) group by a.name order by 2 limit 1) x' >/dev/null; sleep 3; kill %1)\""),
    Program("mariadb", "mariadb-server", SQL + "mariadb-install-db --no-defaults --user=root --datadir=$PWD/d >/dev/null 2>&1" + LOAD + "mariadbd --no-defaults --user=root --datadir=$PWD/d --socket=$PWD/s --skip-networking --innodb-buffer-pool-size=96M 2>/dev/null & sleep 4; (echo 'create database x; use x;'; cat data.sql; echo 'select groups,count(*),group_concat(name) from t group by groups order by 2;') | mariadb --no-defaults -S $PWD/s >/dev/null; sleep 20; kill %1"),
    Program("redis", "redis-server", "redis-server --port 0 --unixsocket r.sock --save '' --dir . & sleep 1; redis-benchmark -s r.sock -q -t set,lpush,hset,sadd,zadd -n 150000 -r 200000 -d 70 >/dev/null; sleep 20; kill %1"),
    Program("memcached", "memcached", "memcached -u nobody -l 127.0.0.1 -p 21811 -m 256 & python3 fill.py; kill %1", (("fill.py", MEMCACHED),)),
    Program("sqlite", "sqlite3", SQL + "(cat data.sql; echo 'create index a on t(name); create table u as select * from t order by x;'; sleep 30) | sqlite3 :memory:"),
    Program("gawk", "gawk", CSV + "gawk -F, '{a[$2][$3]=$4; b[$1]=$0} END {system(\"sleep 60\"); print length(a), length(b)}' data.csv"),
    Program("jq", "jq", JSON + "jq '[.[] | {(.name): .tags}] | add | length, (input? // 1)' data.json"),
    Program("xmllint", "libxml2-utils", XML + "xmllint --xpath 'count(//item[name=\"x\"]/text)' data.xml"),
    Program("emacs", "emacs-nox", "emacs -Q --batch --eval '(let ((h (make-hash-table :test (quote equal)))) (dotimes (i 200000) (puthash (format \"key-%d\" (random 1000000000)) (list i (format \"name %d\" (random 5000)) (vector i (* 1.5 i))) h)) (sleep-for 60) (message \"%d\" (hash-table-count h)))'"),
    Program("prolog", "swi-prolog-nox", "swipl -g \"forall(between(1,250000,I),(atom_concat(n,I,A),J is I*7919 mod 5003,assertz(f(I,A,[J,x(I)],\\\"text\\\")))),findall(X-Y,f(X,Y,_,_),L),sleep(60),length(L,_)\" -t halt"),
    Program("gdb", "gdb", "rustc -g -O load.rs -o load" + LOAD + "gdb -nx -batch -ex 'maint set symbol-cache-size 0' -ex 'maint expand-symtabs' -ex 'info types .*' -ex 'shell sleep 20' ./load >/dev/null", (("load.rs", RUST_HEAP),), 30),
    Program("mono", "mono-mcs mono-runtime libmono-system-core4.0-cil", "mcs load.cs" + LOAD + "mono load.exe", (("load.cs", CSHARP),)),
    Program("git", "git", "git clone -q --no-local \"$MEMFOLD_TREE\" r" + LOAD + "cd r && git -c pack.threads=1 -c pack.windowMemory=200m repack -q -a -d -f --depth=50 --window=200"),
    Program("rust-valgrind", "valgrind", "rustc -O load.rs -o load" + LOAD + "valgrind -q ./load", (("load.rs", RUST_HEAP.replace("250_000", "60_000")),), 60),
    Program("apt", "apt aptitude", "aptitude --simulate full-upgrade -y >/dev/null 2>&1; aptitude search '~i' >/dev/null 2>&1", (), 20),
]
