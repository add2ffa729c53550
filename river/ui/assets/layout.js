// arrange puts nodes in layers, each after all nodes that lead to it, and orders
// the layers so that few lines cross. A line that passes through layers gets its
// own place in each layer, so that it does not cross a box.
//
//	infos: the boxes, identified by localID
//	edges: {from, to, kind}, where from and to are local IDs; circles are allowed
//
// It returns
//
//	layers: lists of places {info, before, after}, where info is null for a line
//	lines: {path, back, kind}, where path is a list of places from left to right,
//	and back says that the edge leads from the last place to the first
export function arrange(infos, edges) {
	const places = new Map(infos.map((info) => [info.localID, newPlace(info)]));
	const known = edges.filter((edge) => places.has(edge.from) && places.has(edge.to) && edge.from !== edge.to)
		.map((edge) => ({from: places.get(edge.from), to: places.get(edge.to), kind: edge.kind, back: false}));
	breakCircles(places, known);
	for (const edge of known) {
		const [left, right] = sides(edge);
		left.leads.push(right);
		right.led.push(left);
	}
	for (const place of places.values()) {
		measure(place);
	}
	const layers = Array.from({length: Math.max(...[...places.values()].map((place) => place.depth)) + 1}, () => []);
	for (const place of places.values()) {
		layers[place.depth].push(place);
	}
	const lines = known.map((edge) => ({path: chain(...sides(edge), layers), back: edge.back, kind: edge.kind}));
	for (let sweep = 0; sweep < 6; sweep++) {
		const forward = sweep % 2 === 0;
		const order = forward ? layers : layers.toReversed();
		for (let i = 1; i < order.length; i++) {
			sortBy(order[i], order[i - 1], forward ? "before" : "after");
		}
	}
	return {layers, lines};
}

const newPlace = (info) => ({info, before: [], after: [], leads: [], led: [], depth: -1, visit: 0});

const sides = (edge) => (edge.back ? [edge.to, edge.from] : [edge.from, edge.to]);

// breakCircles marks the edges that close a circle. They are drawn backwards.
function breakCircles(places, edges) {
	const visit = (place) => {
		place.visit = 1; // on the current path
		for (const edge of edges) {
			if (edge.from !== place) {
				continue;
			}
			if (edge.to.visit === 1) {
				edge.back = true;
			} else if (edge.to.visit === 0) {
				visit(edge.to);
			}
		}
		place.visit = 2;
	};
	for (const place of places.values()) {
		if (place.visit === 0) {
			visit(place);
		}
	}
}

// measure sets a place's depth: one more than the depth of the deepest place that
// leads to it.
function measure(place) {
	if (place.depth < 0) {
		place.depth = Math.max(0, ...place.led.map((other) => measure(other) + 1));
	}
	return place.depth;
}

// chain connects two places through new places in the layers between them.
function chain(left, right, layers) {
	const path = [left];
	for (let depth = left.depth + 1; depth < right.depth; depth++) {
		const place = {...newPlace(null), depth};
		layers[depth].push(place);
		path.push(place);
	}
	path.push(right);
	for (let i = 1; i < path.length; i++) {
		path[i].before.push(path[i - 1]);
		path[i - 1].after.push(path[i]);
	}
	return path;
}

// sortBy sorts a layer by the mean position of each place's neighbours in the
// previous layer. Places without neighbours keep their position.
function sortBy(layer, before, side) {
	const position = new Map(before.map((place, i) => [place, i]));
	const weights = new Map(layer.map((place, i) => {
		const near = place[side].map((other) => position.get(other)).filter((at) => at !== undefined);
		return [place, near.length === 0 ? i : near.reduce((a, b) => a + b, 0) / near.length];
	}));
	layer.sort((a, b) => weights.get(a) - weights.get(b));
}
