"""Prints a C++ file with much template code, or makes a set of C files for make.

usage: cpp_source.py c++ CLASSES > FILE
       cpp_source.py project FILES FUNCTIONS DIRECTORY
"""

import pathlib
import random
import sys


def cpp(classes):
    print("#include <algorithm>\n#include <functional>\n#include <map>\n#include <memory>\n#include <numeric>\n"
          "#include <string>\n#include <unordered_map>\n#include <variant>\n#include <vector>")
    rng = random.Random(1)
    for number in range(classes):
        # Tables of constants besides the code, as in generated sources.
        print(f"static const double table{number}[] = {{{','.join(repr(rng.random()) for _ in range(2000))}}};")
        print(f"static const char *const text{number}[] = {{")
        print(",".join(f'"{rng.getrandbits(600):0150x}"' for _ in range(7000)), "};")
        print(f"""
struct Key{number} {{ int a; long b; bool operator<(const Key{number}& o) const {{ return a < o.a || (a == o.a && b < o.b); }} }};
struct Item{number} {{ std::string name; std::variant<int, double, std::string> value; std::shared_ptr<Key{number}> key; }};
long use{number}(const std::vector<Item{number}>& items) {{
  std::map<Key{number}, std::vector<Item{number}>> sorted;
  for (const auto& item : items) sorted[*item.key].push_back(item);
  long sum = {rng.randrange(1000)};
  for (auto& [key, list] : sorted) {{
    std::sort(list.begin(), list.end(), [](const Item{number}& x, const Item{number}& y) {{ return x.name < y.name; }});
    sum += key.a * {rng.randrange(100)} + std::accumulate(list.begin(), list.end(), 0L, [](long s, const Item{number}& i) {{
      return s + long(i.name.size()) + std::visit([](const auto& v) {{ return long(sizeof v); }}, i.value); }});
  }}
  return sum + long(table{number}[sum % 2000] * text{number}[sum % 7000][sum % 150]);
}}""")


def project(files, functions, directory):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    rng = random.Random(2)
    for number in range(files):
        with open(directory / f"part{number}.c", "w") as out:
            out.write("#include <stdint.h>\n#include <string.h>\n")
            out.write("static const char text[][300] = {\n")
            out.writelines(f'  "{rng.getrandbits(1180):0295x}",\n' for _ in range(functions * 50))
            out.write("};\n")
            for function in range(functions):
                shift, factor = rng.randrange(1, 31), rng.randrange(1 << 31) | 1
                out.write(f"static uint32_t step{function}(uint32_t *t, uint32_t x) {{\n"
                          f"  for (int i = 0; i < {rng.randrange(4, 16)}; i++) {{\n"
                          f"    x = (x ^ (x >> {shift})) * {factor}u + t[(x >> {shift % 7}) & 63];\n"
                          f"    switch (x & 7) {{ case 0: x += t[i]; break; case 1: x ^= t[i + 1] << 3; break;\n"
                          f"      case 2: t[i] = x; break; case 5: x = x * x + {factor % 997}; break; default: t[x & 63] ^= x >> 5; }}\n"
                          f"  }}\n  return x;\n}}\n")
            out.write(f"uint32_t part{number}(uint32_t x) {{\n  uint32_t t[64]; memcpy(t, text[x % {functions * 50}], sizeof t);\n")
            out.writelines(f"  x = step{function}(t, x);\n" for function in range(functions))
            out.write("  return x;\n}\n")
    parts = range(files)
    with open(directory / "main.c", "w") as out:
        out.write("#include <stdint.h>\n#include <stdio.h>\n")
        out.writelines(f"uint32_t part{number}(uint32_t);\n" for number in parts)
        out.write("int main(void) {\n  uint32_t x = 1;\n")
        out.writelines(f"  x = part{number}(x);\n" for number in parts)
        out.write('  printf("%u\\n", x);\n  return 0;\n}\n')
    objects = " ".join(["main.o"] + [f"part{number}.o" for number in parts])
    (directory / "Makefile").write_text(f"CFLAGS = -O1 -g0\nprogram: {objects}\n\t$(CC) -o $@ {objects}\n")


if sys.argv[1] == "c++":
    cpp(int(sys.argv[2]))
else:
    project(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
