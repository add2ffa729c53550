// Hot keeps node's compiler busy for some seconds.
function mix(n) {
	return (Math.imul(n, 1103515245) + 12345) >>> 0;
}

function fill(seed, list) {
	for (let i = 0; i < list.length; i++) list[i] = seed = mix(seed);
	return seed;
}

function collect(list) {
	const seen = new Map();
	for (const n of list) seen.set(String(n % 512), (seen.get(String(n % 512)) || 0) + 1);
	return seen.size;
}

const list = new Array(2000).fill(0);
let total = 0;
for (let seed = 1, end = Date.now() + 1000 * Number(process.argv[2]); Date.now() < end; ) {
	seed = fill(seed, list);
	total += collect([...list].sort((a, b) => a - b));
}
console.log(total);
