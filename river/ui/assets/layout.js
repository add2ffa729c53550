// arrange puts components in layers, each after all that it uses, and orders the
// layers so that few arrows cross. An arrow that passes layers gets a place of its
// own in each of them, so that it does not run through a box. It returns
//
//	layers: lists of places {info, uses, usedBy}, where info is null for an arrow
//	arrows: lists of places, from a component to one that uses it
export function arrange(infos) {
	const places = new Map(infos.map((info) => [info.localID, {info, uses: [], usedBy: [], depth: -1}]));
	for (const place of places.values()) {
		measure(place, places);
	}
	const layers = Array.from({length: Math.max(...[...places.values()].map((place) => place.depth)) + 1}, () => []);
	for (const place of places.values()) {
		layers[place.depth].push(place);
	}
	const arrows = [];
	for (const user of places.values()) {
		for (const used of usedOf(user, places)) {
			arrows.push(chain(used, user, layers));
		}
	}
	for (let sweep = 0; sweep < 6; sweep++) {
		const forward = sweep % 2 === 0;
		const order = forward ? layers : layers.toReversed();
		for (let i = 1; i < order.length; i++) {
			sortBy(order[i], order[i - 1], forward ? "uses" : "usedBy");
		}
	}
	return {layers, arrows};
}

const usedOf = (place, places) => place.info.referencesTo.map((id) => places.get(id)).filter(Boolean);

// measure sets a place's depth: one more than that of the deepest that it uses.
function measure(place, places) {
	if (place.depth < 0) {
		place.depth = 0; // in case of a cycle, which the runtime does not load
		place.depth = Math.max(0, ...usedOf(place, places).map((used) => measure(used, places) + 1));
	}
	return place.depth;
}

// chain connects two places by way of new ones in the layers between them.
function chain(used, user, layers) {
	const path = [used];
	for (let depth = used.depth + 1; depth < user.depth; depth++) {
		const place = {info: null, uses: [], usedBy: [], depth};
		layers[depth].push(place);
		path.push(place);
	}
	path.push(user);
	for (let i = 1; i < path.length; i++) {
		path[i].uses.push(path[i - 1]);
		path[i - 1].usedBy.push(path[i]);
	}
	return path;
}

// sortBy sorts a layer by the mean position of its neighbours in the layer
// before; those without neighbours keep their place.
function sortBy(layer, before, side) {
	const position = new Map(before.map((place, i) => [place, i]));
	const weights = new Map(layer.map((place, i) => {
		const near = place[side].map((other) => position.get(other));
		return [place, near.length === 0 ? i : near.reduce((a, b) => a + b, 0) / near.length];
	}));
	layer.sort((a, b) => weights.get(a) - weights.get(b));
}
