// Small helpers to make elements. Text is always set as text, never as markup.

const svgNamespace = "http://www.w3.org/2000/svg";

// h makes an HTML element with attributes and children: nodes or strings. It
// skips null.
export function h(name, attributes, ...children) {
	return fill(document.createElement(name), attributes, children);
}

// s does the same for SVG.
export function s(name, attributes, ...children) {
	return fill(document.createElementNS(svgNamespace, name), attributes, children);
}

function fill(element, attributes, children) {
	for (const [name, value] of Object.entries(attributes ?? {})) {
		if (value !== null && value !== undefined && value !== false) {
			element.setAttribute(name, value);
		}
	}
	element.append(...children.flat().filter((child) => child !== null && child !== undefined));
	return element;
}

// globalID returns a component's ID, preceded by the IDs of its modules.
export function globalID(info) {
	return info.moduleID ? info.moduleID + "/" + info.localID : info.localID;
}

// link returns the address of one of Headwater's pages, relative to the base.
export function link(page, id) {
	return id === undefined || id === "" ? page : page + "/" + id.split("/").map(encodeURIComponent).join("/");
}

export function state(health) {
	return h("span", {class: "state " + health.state}, health.state);
}

// ago returns the time since a point in time, rounded coarsely, so that it changes
// rarely.
export function ago(time) {
	const seconds = Math.max(0, (Date.now() - new Date(time).getTime()) / 1000);
	for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
		if (seconds >= length) {
			const count = Math.floor(seconds / length);
			return `${count} ${unit}${count === 1 ? "" : "s"} ago`;
		}
	}
	return "less than a minute ago";
}

// when shows a relative time, with the exact time as its title.
export function when(time) {
	if (!time || time.startsWith("0001-")) {
		return null;
	}
	return h("time", {datetime: time, title: time}, ago(time));
}
