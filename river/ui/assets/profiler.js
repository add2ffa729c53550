import {component, everything, NotFound} from "./api.js";
import {globalID, h, link} from "./dom.js";

// isProfiler reports whether a component serves pages of profiles.
export const isProfiler = (info) => Boolean(info.pages) && info.name.startsWith("pyroscope.ebpf");

// open returns the profiler of a page, which is the component with that ID or the
// first profiler, and links to all profilers. It throws NotFound if there is none.
export async function open(page, id) {
	const all = (await everything()).components.filter(isProfiler);
	const first = all.length > 0 ? globalID(all[0]) : "";
	if (!(id || first)) {
		throw new NotFound(page, "There is no profiler: no component pyroscope.ebpf is loaded.");
	}
	const info = await component(id || first);
	if (!isProfiler(info)) {
		throw new NotFound(page, `${id} is no profiler.`);
	}
	return {info, id: globalID(info), ways: ways(page, info, all)};
}

// ask queries a profiler's own API.
export async function ask(info, path) {
	const response = await fetch(info.pages + "api/" + path, {cache: "no-store"});
	if (!response.ok) {
		throw new Error(`${response.status} ${response.statusText}`);
	}
	return response.json();
}

// ways are links to the other pages of a profiler, and to other profilers.
function ways(page, info, all) {
	const id = globalID(info);
	const links = [
		h("a", {href: info.pages}, "Flame graphs"),
		...["processes", "health"].filter((name) => name !== page).map((name) => h("a", {href: link(name, id)}, pageNames[name])),
		h("a", {href: link("component", id)}, id),
	];
	const others = all.map(globalID).filter((other) => other !== id).map((other) => h("a", {href: link(page, other)}, `${pageNames[page]} of ${other}`));
	return h("p", {class: "ways"}, [...links, ...others].flatMap((part, i) => (i > 0 ? [" ", part] : [part])));
}

export const pageNames = {processes: "Processes", health: "Health"};

// parameter returns a query parameter of the address, or a default.
export const parameter = (name, otherwise) => new URLSearchParams(location.search).get(name) ?? otherwise;

// remember stores a choice in the address, so that it survives a refresh and is part of links.
function remember(name, value) {
	const query = new URLSearchParams(location.search);
	value ? query.set(name, value) : query.delete(name);
	const text = query.toString();
	history.replaceState(null, "", location.pathname + (text ? "?" + text : ""));
}

// search is a field that calls fill after each change. The address contains the text.
export function search(label, fill) {
	const input = h("input", {type: "search", id: "find", autocomplete: "off", spellcheck: "false", value: parameter("find", "")});
	input.addEventListener("input", () => {
		remember("find", input.value.trim());
		fill();
	});
	return h("label", {class: "choice"}, label, " ", input);
}

// has reports whether one of the texts contains the search text.
export function has(...texts) {
	const wanted = parameter("find", "").toLowerCase();
	return texts.some((text) => String(text).toLowerCase().includes(wanted));
}

// choice is a field with one of several values. changed applies the value.
export function choice(label, name, options, otherwise, changed) {
	const now = parameter(name, otherwise);
	const field = h("select", {id: name}, Object.entries(options).map(([value, text]) => h("option", {value, selected: value === now ? "" : null}, text)));
	field.addEventListener("change", () => {
		remember(name, field.value === otherwise ? "" : field.value);
		changed();
	});
	return h("label", {class: "choice"}, label, " ", field);
}

// card is a number with a name and a note.
export const card = (name, value, note) => h("div", {}, h("dt", {}, name), h("dd", {}, value), note ? h("dd", {class: "note"}, note) : null);

export const cards = (...all) => h("dl", {class: "cards"}, all);

// table has rows of cells; the first cell of each row is its header. Columns whose name starts with # are numbers.
export function table(title, columns, rows) {
	const names = columns.map((name) => name.replace(/^#/, ""));
	const kind = (i) => (columns[i].startsWith("#") ? "n" : null);
	const head = names.map((name, i) => h("th", {scope: "col", class: kind(i)}, name));
	const line = (cells) => h("tr", {}, cells.map((cell, i) => (i === 0 ? h("th", {scope: "row", class: kind(i)}, cell) :
		h("td", {class: kind(i), "data-label": names[i]}, cell))));
	return [h("h2", {}, title), rows.length === 0 ? h("p", {class: "nothing"}, "none") :
		h("div", {class: "wide", tabindex: 0, role: "region", "aria-label": title},
			h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line))))];
}

export const count = (n) => Math.round(n).toLocaleString("en");

// percent formats a part of a sum as the other pages do: only the whole sum is 100 %.
export function percent(part, sum) {
	if (sum === 0) {
		return "–";
	}
	const value = 100 * part / sum;
	return part > 0 && value < 0.1 ? "<0.1 %" : (value < 100 ? Math.min(value, 99.9) : value).toFixed(1) + " %";
}

export const sumOf = (rows, column) => rows.reduce((sum, row) => sum + row[column], 0);
