import {components} from "./api.js";
import {globalID, h, link, s} from "./dom.js";
import {arrange} from "./layout.js";

const box = {width: 220, height: 52, across: 90, down: 22};
const margin = 20;

// graph is the page that draws a module's components: an arrow goes from a
// component to one that uses what it exports.
export async function graph(module) {
	const infos = await components(module);
	const title = module ? `Graph of ${module}` : "Graph";
	const content = [h("h1", {}, title)];
	if (module) {
		content.push(h("p", {}, "Inside ", h("a", {href: link("component", module)}, module)));
	}
	if (infos.length === 0) {
		content.push(h("p", {class: "nothing"}, "No components are loaded."));
		return {title, content};
	}
	content.push(
		h("p", {class: "quiet"}, "An arrow leads from a component to one that uses its exports. The same is written below."),
		h("div", {class: "graph"}, draw(infos)),
		h("h2", {}, "As a list"),
		h("ul", {}, infos.map(sentence)));
	return {title, content};
}

function sentence(info) {
	const uses = info.referencesTo.length > 0 ? " uses " + info.referencesTo.join(", ") : " uses no other component";
	return h("li", {}, h("a", {href: link("component", globalID(info))}, info.localID), ` (${info.health.state})${uses}`);
}

function draw(infos) {
	const {layers, arrows} = arrange(infos);
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
	return s("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Components and who uses whom"},
		s("defs", {}, s("marker", {id: "tip", viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 8, markerHeight: 8, orient: "auto"}, s("path", {d: "M0 0L10 5L0 10z"}))),
		arrows.map(arrow),
		layers.flat().filter((place) => place.info).map((place) => node(place.info, place)));
}

// An arrow that passes a layer needs no more than a line's height there.
const heightOf = (place) => (place.info ? box.height : 4);

function arrow(path) {
	const middle = (place) => place.y + heightOf(place) / 2;
	const bend = box.across / 2;
	let d = `M${path[0].x + box.width} ${middle(path[0])}`;
	path.slice(1).forEach((place, i) => {
		const from = path[i];
		const end = place.info ? place.x - 2 : place.x;
		d += `C${from.x + box.width + bend} ${middle(from)} ${place.x - bend} ${middle(place)} ${end} ${middle(place)}`;
		if (!place.info) {
			d += `H${place.x + box.width}`;
		}
	});
	return s("path", {d, "marker-end": "url(#tip)", "aria-hidden": "true"});
}

function node(info, place) {
	const title = info.label || info.localID;
	return s("a", {href: link("component", globalID(info)), "aria-label": `${info.localID}, ${info.health.state}`},
		s("title", {}, `${info.localID}: ${info.health.state}. ${info.health.message}`),
		s("rect", {x: place.x, y: place.y, width: box.width, height: box.height, rx: 6}),
		s("circle", {cx: place.x + 16, cy: place.y + box.height / 2, r: 6, class: info.health.state}),
		s("text", {x: place.x + 32, y: place.y + 20, class: "name"}, shorten(info.name)),
		s("text", {x: place.x + 32, y: place.y + 40}, shorten(title)));
}

const shorten = (text) => (text.length > 24 ? text.slice(0, 23) + "…" : text);
