// Writes and allocates in two functions, each its own number of bytes, in turn in several threads.
const fs = require('fs');
const { Worker, isMainThread } = require('worker_threads');

const MUCH = 100000, LITTLE = 30000;
const to = fs.openSync('/dev/null', 'w');
const much = Buffer.alloc(MUCH), little = Buffer.alloc(LITTLE);
let kept = [];

function writesMuch() {
  kept.push(Buffer.allocUnsafeSlow(MUCH));
  fs.writeSync(to, much);
}

function writesLittle() {
  kept.push(Buffer.allocUnsafeSlow(LITTLE));
  fs.writeSync(to, little);
}

function middle() {
  writesMuch();
  writesLittle();
}

function outer() {
  for (let i = 0; i < 4; i++) middle();
  if (kept.length > 4000) kept = [];
  setTimeout(outer, 50);
}

if (isMainThread) {
  for (let i = 1; i < Number(process.argv[2]); i++) new Worker(__filename);
}
outer();
