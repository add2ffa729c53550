import {components, everything, imports, NotFound} from "./api.js";
import {globalID, h, link, s} from "./dom.js";
import {arrange} from "./layout.js";

const box = {width: 220, height: 52, across: 56, down: 22};
const margin = 20;

// graph is the page that draws a module's components and imports. An arrow shows
// the direction of data; a dashed line leads from an import to the components that
// it declares.
export async function graph(module) {
	const infos = await Promise.all((await components(module)).map(withInside));
	const imported = await imports(module);
	const title = module ? `Graph of ${module}` : "Graph";
	const content = [h("h1", {}, title)];
	if (module) {
		content.push(h("p", {}, "Inside ", h("a", {href: link("component", module)}, module)));
	}
	if (infos.length === 0) {
		content.push(h("p", {class: "nothing"}, "No components are loaded."));
		return {title, content};
	}
	const shown = imported.filter((info) => !info.localID.includes("/")); // without nested imports
	const edges = [...infos.flatMap(dataOf), ...shown.flatMap((info) => info.usedBy.map((id) => ({from: info.localID, to: id, kind: "declares"})))];
	content.push(
		h("p", {class: "quiet"}, "Arrows show the flow of data", shown.length > 0 ? ", dashed ones from an import to components that it declares" : "", ". The list below has the same content."),
		h("div", {class: "graph", tabindex: 0, role: "region", "aria-label": "Graph"}, draw([...infos, ...shown], edges)),
		h("h2", {}, "As a list"),
		h("ul", {}, infos.map((info) => sentence(info, edges))));
	return {title, content};
}

// withInside adds to a component that contains a module the number of inner
// components that are not healthy.
async function withInside(info) {
	const [inner] = info.createdModuleIDs ?? [];
	if (inner === undefined) {
		return info;
	}
	try {
		const held = (await everything(inner)).components;
		const bad = held.filter((one) => one.health.state !== "healthy");
		return {...info, held: held.length, bad: bad.length, worst: bad.find((one) => one.health.state !== "unknown") ?? bad[0]};
	} catch (error) {
		if (error instanceof NotFound) { // removed in between
			return info;
		}
		throw error;
	}
}

// inside describes the content of a component, "" if there is none.
function inside(info) {
	if (info.held === undefined) {
		return "";
	}
	const some = `${info.held} component${info.held === 1 ? "" : "s"}`;
	return info.bad > 0 ? `${some}, ${info.bad} not healthy` : some;
}

// dataOf returns the edges of a component's references: to the components that it
// sends data to, and from the components that it gets data from.
function dataOf(info) {
	const sendsTo = info.sendsTo ?? [];
	return info.referencesTo.map((id) =>
		sendsTo.includes(id) ? {from: info.localID, to: id, kind: "data"} : {from: id, to: info.localID, kind: "data"});
}

function sentence(info, edges) {
	const to = edges.filter((edge) => edge.from === info.localID).map((edge) => edge.to);
	const declared = info.declaredIn ? `, declared in ${info.declaredIn.join(", ")},` : "";
	return h("li", {}, h("a", {href: link("component", globalID(info))}, info.localID),
		` (${info.health.state})${declared} ` + (to.length > 0 ? "gives data to " + to.join(", ") : "gives data to no other component"),
		(info.createdModuleIDs ?? []).map((inner) => [", holds ", h("a", {href: link("graph", inner)}, inside(info))]).flat());
}

function draw(infos, edges) {
	const {layers, lines} = arrange(infos, edges);
	const heights = layers.map((layer) => layer.reduce((sum, place) => sum + heightOf(place) + box.down, -box.down));
	const width = layers.length * (box.width + box.across) - box.across + 2 * margin;
	const height = Math.max(...heights) + 2 * margin;
	layers.forEach((layer, column) => {
		let y = (height - heights[column]) / 2;
		for (const place of layer) {
			place.x = margin + column * (box.width + box.across);
			place.y = y;
			y += heightOf(place) + box.down;
		}
	});
	return s("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Components and the flow of data"},
		s("defs", {}, s("marker", {id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse"}, s("path", {d: "M0 0L10 5L0 10z"}))),
		lines.map(drawLine),
		layers.flat().filter((place) => place.info).map((place) => node(place.info, place)));
}

// A line through a layer needs only a line's height there.
const heightOf = (place) => (place.info ? box.height : 4);

function drawLine({path, back, kind}) {
	const middle = (place) => place.y + heightOf(place) / 2;
	const bend = box.across / 2;
	const first = path[0];
	const last = path[path.length - 1];
	let d = `M${first.x + box.width + (back ? 2 : 0)} ${middle(first)}`;
	path.slice(1).forEach((place, i) => {
		const from = path[i];
		const end = place.info && !back ? place.x - 2 : place.x;
		d += `C${from.x + box.width + bend} ${middle(from)} ${place.x - bend} ${middle(place)} ${end} ${middle(place)}`;
		if (!place.info) {
			d += `H${place.x + box.width}`;
		}
	});
	const [from, to] = back ? [last, first] : [first, last];
	return s("path", {
		d, class: kind, "marker-end": back ? null : "url(#tip)", "marker-start": back ? "url(#tip)" : null, "aria-hidden": "true",
		"data-from": from.info.localID, "data-to": to.info.localID,
	});
}

// node is a box. It is double for a component that contains a module, with a small mark if an inner component is not
// healthy, and dashed for an import.
function node(info, place) {
	const isImport = info.usedBy !== undefined;
	const holds = info.held !== undefined;
	const kind = isImport ? ", import" : holds ? `, holds ${inside(info)}` : "";
	return s("a", {href: isImport ? "." : link("component", globalID(info)), "aria-label": `${info.name} ${info.label || info.localID}${kind}, ${info.health.state}`, class: isImport ? "import" : null},
		holds ? s("rect", {class: "behind", x: place.x + 5, y: place.y + 5, width: box.width, height: box.height, rx: 6}) : null,
		s("rect", {class: "box", x: place.x, y: place.y, width: box.width, height: box.height, rx: 6},
			s("title", {}, `${info.localID}: ${info.health.state}. ${info.health.message}`)),
		s("circle", {cx: place.x + 16, cy: place.y + box.height / 2, r: 6, class: info.health.state}),
		info.worst ? s("circle", {cx: place.x + box.width - 16, cy: place.y + box.height / 2, r: 4, class: info.worst.health.state},
			s("title", {}, `${info.worst.localID}: ${info.worst.health.state}. ${info.worst.health.message}`)) : null,
		s("text", {},
			s("tspan", {x: place.x + 32, y: place.y + 20, class: "name"}, shorten(info.name)), " ",
			s("tspan", {x: place.x + 32, y: place.y + 40}, shorten(info.label || info.localID))));
}

const shorten = (text) => (text.length > 24 ? text.slice(0, 23) + "…" : text);
