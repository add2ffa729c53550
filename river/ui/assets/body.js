import {h} from "./dom.js";

// body shows a River body as the API encodes it: attributes and blocks.
export function body(statements) {
	if (!statements || statements.length === 0) {
		return h("p", {class: "nothing"}, "none");
	}
	const parts = [];
	for (const statement of statements) {
		if (statement.type === "attr") {
			parts.push(h("dl", {class: "attribute"}, h("dt", {}, statement.name), h("dd", {}, value(statement.value))));
		} else {
			const label = statement.label ? ` "${statement.label}"` : "";
			parts.push(h("h3", {}, statement.name + label), body(statement.body));
		}
	}
	return h("div", {class: "body"}, parts);
}

// longest is how many lines a value has before it is folded.
const longest = 12;

function value(encoded) {
	const text = river(encoded, "");
	const pre = h("pre", {}, text);
	if (text.split("\n").length <= longest) {
		return pre;
	}
	return h("details", {}, h("summary", {}, describe(encoded)), pre);
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
