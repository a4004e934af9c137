"""Prints the SQL of an in-memory database: tables, indexes, updates, joins and a checksum of everything.

usage: sqlite.py ROWS | sqlite3 :memory:
"""

import sys

rows = int(sys.argv[1])
words = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split()
# A linear congruence instead of random(): the same rows in every run.
print(f"""
CREATE TABLE word(id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO word VALUES {",".join(f"({number},'{word}')" for number, word in enumerate(words))};
CREATE TABLE item(id INTEGER PRIMARY KEY, seed INTEGER, name TEXT, grade REAL, stock INTEGER);
WITH RECURSIVE made(n, x) AS (
  SELECT 1, 12345 UNION ALL SELECT n + 1, (x * 1103515245 + 12345) & 0x7fffffff FROM made WHERE n < {rows})
INSERT INTO item SELECT n, x, (SELECT text FROM word WHERE id = (x >> 8) % 12) || ' ' ||
  (SELECT text FROM word WHERE id = (x >> 13) % 12) || ' no. ' || (x % 100000), (x >> 4) % 10000 / 100.0, x % 97 FROM made;
CREATE INDEX item_name ON item(name);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, amount INTEGER, note TEXT);
INSERT INTO sale SELECT id, 1 + (seed * 7919) % {rows}, 1 + seed % 9, printf('note %08x for %s: %s, grade %g, %d in stock of %d at %08x', seed, name, name, grade, stock, seed % 100000, seed * 31) FROM item;
CREATE INDEX sale_item ON sale(item);
SELECT count(*), sum(amount * grade) FROM sale JOIN item ON item.id = sale.item;
UPDATE item SET stock = stock + (SELECT count(*) FROM sale WHERE sale.item = item.id) WHERE id % 3 = 0;
DELETE FROM sale WHERE id % 10 = 7;
INSERT INTO sale(item, amount, note) SELECT id, stock, 'again ' || name FROM item WHERE id % 10 = 7;
SELECT name, count(*) AS many, round(sum(stock * grade), 3) FROM item GROUP BY name ORDER BY many DESC, name LIMIT 5;
SELECT substr(note, 1, 7) AS start, count(*), sum(amount) FROM sale GROUP BY start ORDER BY start LIMIT 10;
PRAGMA integrity_check;
.sha3sum
""")
