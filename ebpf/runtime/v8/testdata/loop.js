'use strict';
// Works in the loop of a function that V8 inlines into another one. Prints a line before.

function sum(n, m) {
  let s = 1;
  for (let i = 0; i < n; i++) {
    s = (s * 31 + i) % m;
  }
  return s;
}

function twice(n, m) {
  return sum(n, m) +
    sum(n + 1, m);
}

const work = end => { while (Date.now() < end) twice(20000, 65521); };
work(Date.now() + 1500); // until it is optimized
console.log('ready');
work(Infinity);
