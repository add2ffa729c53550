// A shop on a free port, which it prints.
const http = require('http');

const items = Array.from({length: 200}, (_, n) => `item-${n}`);

function compare(a, b) {
  return a.slice(-1) < b.slice(-1) ? -1 : 1;
}

function price(item) {
  const [, name, number] = /([a-z]+)-([0-9]+)/.exec(item);
  return Number(number) * 1.19 + name.length;
}

function render(all) {
  const prices = {};
  for (const item of all) prices[item] = price(item);
  return JSON.stringify(prices, null, 1);
}

function handle(request, response) {
  response.end(render([...items].sort(compare)));
}

const server = http.createServer(handle);
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`));
