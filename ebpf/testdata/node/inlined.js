'use strict';
// Searches a text in inner, which V8's optimising compiler inlines into outer by way of middle.
const text = 'a'.repeat(5000);

function inner(what) {
  return text.indexOf(
    what);
}

function middle(what) {
  return 1 +
    inner(what);
}

function outer(what) {
  let found = 0;
  for (let i = 0; i < 200000; i++) {
    if (middle(what) > 0) found++;
  }
  return found;
}

setInterval(() => outer('b'), 1);
console.log('ready');
