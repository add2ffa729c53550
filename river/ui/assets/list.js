import {everything} from "./api.js";
import {globalID, h, link, state, when} from "./dom.js";

// list is the page of all components.
export async function list() {
	const all = await everything();
	const content = [h("h1", {}, "Components")];
	if (all.components.length === 0) {
		content.push(h("p", {class: "nothing"}, "No components are loaded."));
	} else {
		content.push(h("p", {class: "quiet"}, summary(all.components)),
			table(["Component", "Health", "Message", "Since", "Pages"], all.components.map(row)));
	}
	if (all.imports.length > 0) {
		content.push(h("h2", {id: "imports"}, "Imports"),
			table(["Import", "Health", "Message", "Since", "Declares", "Used by"], all.imports.map(importRow)));
	}
	return {title: "Components", content};
}

// table has rows of cells. On a phone, where it has no head, each cell has a label.
function table(columns, rows) {
	rows.forEach((row) => [...row.cells].forEach((cell, i) => cell.dataset.label = columns[i]));
	return h("table", {},
		h("thead", {}, h("tr", {}, columns.map((name) => h("th", {scope: "col"}, name)))),
		h("tbody", {}, rows));
}

function summary(all) {
	const count = new Map();
	for (const info of all) {
		count.set(info.health.state, (count.get(info.health.state) ?? 0) + 1);
	}
	const parts = ["healthy", "unhealthy", "exited", "unknown"].filter((name) => count.has(name)).map((name) => `${count.get(name)} ${name}`);
	return `${all.length} component${all.length === 1 ? "" : "s"}: ${parts.join(", ")}`;
}

function row(info) {
	const id = globalID(info);
	return h("tr", {},
		h("th", {scope: "row"},
			info.moduleID ? h("span", {class: "quiet"}, info.moduleID + " / ") : null,
			h("a", {href: link("component", id)}, info.localID),
			info.declaredIn ? h("span", {class: "quiet"}, " of ", info.declaredIn.join(", ")) : null),
		h("td", {}, state(info.health)),
		h("td", {}, info.health.message),
		h("td", {}, when(info.health.updatedTime) ?? ""),
		h("td", {}, info.pages ? h("a", {href: info.pages, "aria-label": `${pagesName(info)} of ${id}`}, pagesName(info)) : ""));
}

function importRow(info) {
	const inModule = (id) => globalID({moduleID: info.moduleID, localID: id});
	return h("tr", {},
		h("th", {scope: "row"}, info.moduleID ? h("span", {class: "quiet"}, info.moduleID + " / ") : null, info.localID),
		h("td", {}, state(info.health)),
		h("td", {}, info.health.message),
		h("td", {}, when(info.health.updatedTime) ?? ""),
		h("td", {}, info.offers.join(", ")),
		h("td", {}, info.usedBy.flatMap((id, i) => [i > 0 ? ", " : null, h("a", {href: link("component", inModule(id))}, id)])));
}

// pagesName returns the name of a component's own pages.
export function pagesName(info) {
	return info.name.startsWith("pyroscope.ebpf") ? "Flame graphs" : "Pages";
}
