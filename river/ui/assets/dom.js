// Small helpers to make elements. Text is always set as text, never as markup.

const svgNamespace = "http://www.w3.org/2000/svg";

// h makes an HTML element with attributes and children: nodes, strings, or
// nothing for null.
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

// globalID is a component's ID with the IDs of the modules that it is in.
export function globalID(info) {
	return info.moduleID ? info.moduleID + "/" + info.localID : info.localID;
}

// link is the address of a page of ours, relative to the base.
export function link(page, id) {
	return id === undefined || id === "" ? page : page + "/" + id.split("/").map(encodeURIComponent).join("/");
}

export function state(health) {
	return h("span", {class: "state " + health.state}, health.state);
}

// ago says how long ago a time is, coarsely, so that it does not change all the
// time.
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

// when is a time for people, with the exact one as its title.
export function when(time) {
	if (!time || time.startsWith("0001-")) {
		return null;
	}
	return h("time", {datetime: time, title: time}, ago(time));
}
