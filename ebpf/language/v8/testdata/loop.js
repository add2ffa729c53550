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

%PrepareFunctionForOptimization(sum);
%PrepareFunctionForOptimization(twice);
for (let i = 0; i < 100; i++) twice(20000, 65521);
%OptimizeFunctionOnNextCall(twice);
twice(20000, 65521);
console.log('ready');
for (;;) twice(20000, 65521);
