// Objects, maps, strings and buffers on the heap of V8, read back in another order.
// usage: node.js ENTRIES WORDS     WORDS words of text in each entry
"use strict";
const { createHash } = require("node:crypto");

// xorshift32: the same numbers on every machine.
let state = 2463534242;
function below(bound) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % bound;
}

const count = Number(process.argv[2]);
const length = Number(process.argv[3]);
const words = "amber basin cedar delta ember fjord grove harbor island juniper kettle lantern".split(" ");
const users = new Map();
const list = [];
function text() {
  let made = "";
  for (let i = 0; i < length; i++) made += words[below(12)] + (below(4) ? " " : below(10000));
  return made;
}
for (let number = 0; number < count; number++) {
  const user = JSON.parse(
    `{"id":${number},"name":"${words[below(12)]} ${words[below(12)]} ${below(100000)}",` +
      `"visits":[${below(1000)},${below(1000)},${below(1000)}],"mail":"${words[below(12)]}${below(1e6)}@example.org",` +
      `"balance":${below(1e6) / 100},"text":"${text()}"}`,
  );
  user.friends = [below(count), below(count)];
  users.set(user.mail, user);
  list.push(user);
}

// Typed arrays live outside of the heap of objects.
const histogram = new Float64Array(count * 2);
for (const user of list) histogram[user.id * 2] = user.balance * (1 + (user.id % 7));
const blob = Buffer.alloc(count * 16);
for (let at = 0; at < blob.length; at += 4) blob.writeUInt32LE(below(4096) * (at & 0xff), at);

// Follow friends through the whole heap, at random.
let total = 0;
let at = 0;
for (let step = 0; step < count; step++) {
  const user = list[at];
  total = (total + Math.round(user.balance * 100) + user.visits[step % 3]) % 1e12;
  user.seen = (user.seen || 0) + 1;
  at = (user.friends[step % 2] + step) % count;
}

const digest = createHash("sha256");
const names = [...users.keys()].sort();
for (const name of names) digest.update(JSON.stringify(users.get(name)));
digest.update(Buffer.from(histogram.buffer));
digest.update(blob);
console.log(`${users.size} users, walk ${total}, sha256 ${digest.digest("hex")}`);
