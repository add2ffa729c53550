'use strict';
// Works in leaf, which is called in ways that node_test.go knows.
function leaf(ms) {
  const end = process.hrtime.bigint() + BigInt(ms * 1e6);
  let s = 0;
  while (process.hrtime.bigint() < end) {
    for (let i = 0; i < 20000; i++) s += i % 7;
  }
  return s;
}

function bySort() {
  [2, 1].sort(function compare(a, b) {
    leaf(20);
    return a - b;
  });
}

function byJSON() {
  JSON.stringify({ a: 1 }, function replacer(key, value) {
    if (key === 'a') leaf(20);
    return value;
  });
}

async function byAwait() {
  await null;
  leaf(20);
}

function* items() {
  leaf(20);
  yield 1;
}

function byGenerator() {
  for (const item of items()) item;
}

class Shape {
  area() {
    return leaf(20);
  }
}

function byMethod() {
  new Shape().area();
}

async function round() {
  bySort();
  byJSON();
  byGenerator();
  byMethod();
  await byAwait();
}

function onTimer() {
  leaf(20);
  round().then(() => setTimeout(onTimer, 1));
}

setTimeout(onTimer, 1);
console.log('ready');
