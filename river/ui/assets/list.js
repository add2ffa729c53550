import {allComponents} from "./api.js";
import {globalID, h, link, state, when} from "./dom.js";

// list is the page of all components.
export async function list() {
	const all = await allComponents();
	if (all.length === 0) {
		return {title: "Components", content: [h("h1", {}, "Components"), h("p", {class: "nothing"}, "No components are loaded.")]};
	}
	return {
		title: "Components",
		content: [
			h("h1", {}, "Components"),
			h("p", {class: "quiet"}, summary(all)),
			h("table", {},
				h("thead", {}, h("tr", {}, ["Component", "Health", "Message", "Since", "Pages"].map((name) => h("th", {scope: "col"}, name)))),
				h("tbody", {}, all.map(row))),
		],
	};
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
			h("a", {href: link("component", id)}, info.localID)),
		h("td", {}, state(info.health)),
		h("td", {}, info.health.message),
		h("td", {}, when(info.health.updatedTime) ?? ""),
		h("td", {}, info.pages ? h("a", {href: info.pages, "aria-label": `${pagesName(info)} of ${id}`}, pagesName(info)) : ""));
}

// pagesName says what a component's own pages show.
export function pagesName(info) {
	return info.name.startsWith("pyroscope.ebpf") ? "Flame graphs" : "Pages";
}
