import {h} from "./dom.js";

// body shows a River body in the API's encoding: attributes and blocks. Several
// small blocks of one kind become a table. key identifies the place, so that open
// details stay open when the page is refreshed.
export function body(statements, key) {
	if (!statements || statements.length === 0) {
		return h("p", {class: "nothing"}, "none");
	}
	const parts = [];
	for (let i = 0; i < statements.length; i++) {
		const statement = statements[i];
		const place = `${key}/${statement.name}${statement.label ?? ""}`;
		if (statement.type === "attr") {
			parts.push(h("dl", {class: "attribute"}, h("dt", {}, statement.name), h("dd", {}, value(statement.value, place))));
			continue;
		}
		const alike = run(statements, i);
		if (alike.length >= fewest) {
			parts.push(h("h3", {}, `${statement.name} (${alike.length})`), table(alike, place));
			i += alike.length - 1;
		} else {
			const label = statement.label ? ` "${statement.label}"` : "";
			parts.push(h("h3", {}, statement.name + label), body(statement.body, `${place}/${i}`));
		}
	}
	return h("div", {class: "body"}, parts);
}

const fewest = 3; // minimum number of blocks in a table
const widest = 8; // maximum number of columns in a table

// run returns the consecutive blocks, starting at from, that form a table: blocks of
// the same name without nested blocks. It returns none if there are too many columns.
function run(statements, from) {
	const columns = new Set();
	let to = from;
	for (; to < statements.length; to++) {
		const block = statements[to];
		if (block.type !== "block" || block.name !== statements[from].name || block.body.some((inner) => inner.type !== "attr")) {
			break;
		}
		block.body.forEach((inner) => columns.add(inner.name));
	}
	return columns.size > 0 && columns.size <= widest ? statements.slice(from, to) : [];
}

function table(blocks, key) {
	const columns = [...new Set(blocks.flatMap((block) => block.body.map((inner) => inner.name)))];
	const labelled = blocks.some((block) => block.label);
	const cell = (block, column, i) => {
		const found = block.body.find((inner) => inner.name === column);
		return found ? value(found.value, `${key}/${i}/${column}`) : "";
	};
	const row = (block, i) => h("tr", {}, (labelled ? ["label", ...columns] : columns).map((column, at) =>
		h(at === 0 ? "th" : "td", {scope: at === 0 ? "row" : null, "data-label": column},
			labelled && at === 0 ? block.label : cell(block, column, i))));
	return h("div", {class: "wide", tabindex: 0, role: "region", "aria-label": blocks[0].name},
		h("table", {},
			h("thead", {}, h("tr", {}, (labelled ? ["label", ...columns] : columns).map((name) => h("th", {scope: "col"}, name)))),
			h("tbody", {}, blocks.map(row))));
}
// longest is the maximum number of lines of a value that is not folded.
const longest = 12;

function value(encoded, key) {
	const text = river(encoded, "");
	const pre = h("pre", {}, text);
	if (text.split("\n").length <= longest) {
		return pre;
	}
	return h("details", {"data-key": key}, h("summary", {}, describe(encoded)), pre);
}

function describe(encoded) {
	const count = Array.isArray(encoded.value) ? encoded.value.length : 1;
	if (encoded.type === "array") {
		return `${count} element${count === 1 ? "" : "s"}`;
	}
	return encoded.type === "object" ? `${count} field${count === 1 ? "" : "s"}` : "long text";
}

// river writes a value in River's own syntax.
export function river(encoded, indent) {
	const inner = indent + "  ";
	switch (encoded.type) {
	case "null":
		return "null";
	case "string":
		return JSON.stringify(encoded.value);
	case "capsule":
	case "function":
		return encoded.value;
	case "array":
		if (encoded.value.length === 0) {
			return "[]";
		}
		if (encoded.value.every(short) && JSON.stringify(encoded.value).length < 160) {
			return "[" + encoded.value.map((element) => river(element, inner)).join(", ") + "]";
		}
		return "[\n" + encoded.value.map((element) => inner + river(element, inner) + ",\n").join("") + indent + "]";
	case "object":
		if (encoded.value.length === 0) {
			return "{}";
		}
		return "{\n" + encoded.value.map((field) => `${inner}${key(field.key)} = ${river(field.value, inner)},\n`).join("") + indent + "}";
	default:
		return String(encoded.value);
	}
}

const short = (element) => element.type !== "array" && element.type !== "object";

const key = (name) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name));
