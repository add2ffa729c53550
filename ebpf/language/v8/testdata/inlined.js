'use strict';
// Calls a function through others that V8 inlines, prints where that is by Error.stack, and stays there. The argument
// says by which compiler.
Error.stackTraceLimit = 50;

function leaf(stay, n) {
  if (!stay) return n + 1;
  console.log(`status ${%GetOptimizationStatus(outer)}`);
  console.log(new Error().stack);
  console.log('ready');
  for (let s = 0; s >= 0;) s += n;
}

function third(stay, n) {
  n += 3;
  return leaf(stay, n) * 2;
}

const second = (stay, n) =>
  third(stay, n) +
  1;

class First {
  first(stay, n) {
    let s = second(false, n);
    s += second(
      stay, s);
    return s;
  }
}

const object = new First();

function outer(stay, n) {
  let s = object.first(false, n);
  s += object.first(stay, s);
  return s;
}

function run(stay) {
  return outer(stay, 1);
}

%NeverOptimizeFunction(leaf);
%NeverOptimizeFunction(run);
const functions = [outer, third, second, object.first];
for (const f of functions) %PrepareFunctionForOptimization(f);
for (let i = 0; i < 1000; i++) run(false);
switch (process.argv[2]) {
  case 'turbofan':
    %OptimizeFunctionOnNextCall(outer);
    break;
  case 'maglev':
    %OptimizeMaglevOnNextCall(outer);
    break;
  case 'baseline':
    for (const f of functions) %CompileBaseline(f);
    break;
}
run(false);
run(true);
