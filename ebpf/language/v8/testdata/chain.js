'use strict';
// Prints where it is by Error.stack, and stays there.
Error.stackTraceLimit = 50;

function leaf(n) {
  console.log(new Error().stack);
  console.log('ready');
  for (let s = 0; s >= 0;) s += n;
}

const café = (n) => {
  return leaf(n + 1);
};

class Sorter {
  constructor(items) {
    this.items = items;
    this.sort();
  }
  sort() {
    return this.items.sort((a, b) => {
      return café(a) + b;
    });
  }
  get [Symbol.for('x')]() { return 1; }
}

const object = {
  method(x) {
    return JSON.stringify({ a: x }, function replacer(key, value) {
      if (key === 'a') new Sorter([3, 1, 2]);
      return value;
    });
  },
};

function start() {
  object.method(1);
  return [].values();
}

// The first instruction of the second line calls.
function loop(items) {
  let n = 1;
  for (const x of items) n += x;
  return n;
}

function* generate() {
  yield loop({ [Symbol.iterator]: start });
}

async function wait() {
  await null;
  for (const x of generate()) x;
}

setTimeout(function timer() {
  wait();
}, 1);
