// Burns CPU in a chain of functions for some seconds: the sixth is called by native code.
function f10(n) {
  for (let i = 0; i < 40000; i++) n = (n * 31 + i) % 65521;
  return n;
}

function f09(n) { return f10(n) + 1; }
function f08(n) { return f09(n) + 1; }
function f07(n) { return f08(n) + 1; }
function f06(n) { return f07(n) + 1; }
function f05(n) { return [n, n + 1].sort(f06)[0]; }
function f04(n) { return f05(n) + 1; }
function f03(n) { return f04(n) + 1; }
function f02(n) { return f03(n) + 1; }
function f01(n) { return f02(n) + 1; }

const end = Date.now() + 1000 * process.argv[2];
while (Date.now() < end) f01(1);
