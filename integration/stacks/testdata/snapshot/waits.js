// Waits in a function that a timer's calls. What V8 says of the stack is printed before.
function inner() {
  console.log(new Error().stack.split('\n').slice(1).map((l) => l.trim()).join('\n') + '\nready');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

function outer(n) {
  if (n) outer(n - 1);
  else inner();
}

setTimeout(() => outer(5), 100);
