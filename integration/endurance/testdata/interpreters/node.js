'use strict';
// node.js NAME: functions that call each other 200 deep, the last of which never returns. A part of them is compiled.
// good: a program that has its functions' names, and makes objects all the time.
const name = process.argv[2];
process.title = name;
setTimeout(() => process.exit(), 600e3);

function leaf(steps) {
  let s = 1;
  for (let i = 0; i !== steps; i = (i + 1) & 0x3fffffff) s = (Math.imul(s, 3) + i) | 0;
  return s;
}

function nest(depth) {
  let next = leaf;
  for (let i = 0; i < depth; i++) {
    next = new Function('next', `return function level${i}(steps, a) {
      const object = { a, i: ${i} };
      let s = object.i;
      for (let k = 0; k < 3; k++) s += k;
      return s + next(steps, object);
    }`)(next);
  }
  return next;
}

function goodLeaf(n) {
  const all = [];
  for (let i = 0; i < n; i++) all.push({ i, text: `${i}` });
  return all.reduce((sum, one) => sum + one.text.length, 0);
}

function goodCaller() {
  const end = Date.now() + 5;
  while (Date.now() < end) goodLeaf(500);
  setTimeout(goodCaller, 5);
}

if (name === 'hwgood') {
  goodCaller();
} else {
  const some = nest(100);
  for (let i = 0; i < 20000; i++) some(3); // those are compiled
  const all = nest(50);
  setTimeout(() => all(-1, some), 10);
}
