// Loads a trace into Perfetto's trace processor, and prints the rows of a query as JSON.
//
//	node perfetto.mjs FOLDER TRACE QUERY
//
// FOLDER has the trace processor as WebAssembly, engine_bundle.node.js, which runs it in a worker of a browser, and
// engine.mjs, which a page speaks to the worker with. This is the page, and what the worker needs of a browser.
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

const [folder, trace, query] = process.argv.slice(2);

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: pathToFileURL(folder).href + '/' };
globalThis.XMLHttpRequest = class {
	open(_, url) {
		this.response = new Uint8Array(readFileSync(join(folder, basename(url))));
	}
	send() {}
};
// There is no program for 64-bit memory in the folder. The worker compiles a few bytes to know whether it can have one.
const { Module } = WebAssembly;
WebAssembly.Module = class extends Module {
	constructor(bytes) {
		super(bytes.length < 100 ? new Uint8Array() : bytes);
	}
};
vm.runInThisContext(readFileSync(join(folder, 'engine_bundle.node.js'), 'utf8'));
WebAssembly.Module = Module;
await new Promise((resolve) => setTimeout(resolve, 100)); // until it has begun
const { port1, port2 } = new MessageChannel();
self.onmessage({ data: port1 });

const { EngineBase } = await import(pathToFileURL(join(folder, 'engine.mjs')).href);
class Engine extends EngineBase {
	rpcSendRequestBytes(data) {
		port2.postMessage(data);
	}
}
const engine = new Engine();
port2.onmessage = (message) => engine.onRpcResponseBytes(message.data);
await engine.parse(new Uint8Array(readFileSync(trace)));
await engine.notifyEof();

const result = await engine.query(query);
const plain = (value) => (typeof value === 'bigint' ? Number(value) : value);
const rows = [];
for (const row = result.iter({}); row.valid(); row.next()) {
	rows.push(Object.fromEntries(result.columns().map((column) => [column, plain(row.get(column))])));
}
process.stdout.write(JSON.stringify(rows), () => process.exit(0));
