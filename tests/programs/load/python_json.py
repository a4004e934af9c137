"""Orders of a shop: JSON text that this program generates, loaded into dicts and lists, then computed over.

usage: python_json.py ORDERS
"""

import hashlib
import json
import math
import random
import sys

WORDS = ("amber basin cedar delta ember fjord grove harbor island juniper kettle lantern meadow nectar orchard "
         "pebble quarry ridge saddle timber upland valley willow yonder zephyr").split()


def order_texts(count, seed):
    """Lines of JSON, generated as text, so that everything computed later has passed through the parser."""
    rng = random.Random(seed)
    pick, below = rng.choice, rng.randrange
    for number in range(count):
        items = ",".join(
            f'{{"sku":"{pick(WORDS)}-{below(10000):04d}","quantity":{below(1, 9)},"price":{below(100, 99999) / 100}}}'
            for _ in range(below(1, 4)))
        yield (f'{{"id":{number},"customer":"{pick(WORDS)}.{pick(WORDS)}{below(2000)}@example.org",'
               f'"city":"{pick(WORDS)} {pick(WORDS)}","tags":["{pick(WORDS)}","{pick(WORDS)}"],'
               f'"token":"{rng.getrandbits(960):0240x}","paid":{"true" if below(3) else "false"},"score":{rng.random():.6f},"items":[{items}]}}')


def main():
    count = int(sys.argv[1])
    orders = [json.loads(text) for text in order_texts(count, 7)]

    by_customer, by_sku = {}, {}
    for order in orders:
        order["total"] = round(sum(item["quantity"] * item["price"] for item in order["items"]), 2)
        by_customer.setdefault(order["customer"], []).append(order)
        for item in order["items"]:
            entry = by_sku.setdefault(item["sku"], {"sold": 0, "turnover": 0.0, "cities": set()})
            entry["sold"] += item["quantity"]
            entry["turnover"] += item["quantity"] * item["price"]
            entry["cities"].add(order["city"])

    best = sorted(by_customer.items(), key=lambda pair: (-sum(order["total"] for order in pair[1]), pair[0]))[:5]
    for name, bought in best:
        print(f"{name}: {len(bought)} orders, {sum(order['total'] for order in bought):.2f}")
    sku, entry = max(by_sku.items(), key=lambda pair: (pair[1]["turnover"], pair[0]))
    print(f"{sku}: {entry['sold']} sold in {len(entry['cities'])} cities, {entry['turnover']:.2f}")

    # Back to text in another order: every string and number of the data goes into the digest.
    digest = hashlib.sha256()
    step = next(step for step in range(7919, 7919 + count) if math.gcd(step, count) == 1)
    at = 0
    for _ in range(count):
        at = (at + step) % count
        digest.update(json.dumps(orders[at], sort_keys=True).encode())
    print(f"{len(orders)} orders, {len(by_customer)} customers, {len(by_sku)} articles, sha256 {digest.hexdigest()}")


if __name__ == "__main__":
    main()
