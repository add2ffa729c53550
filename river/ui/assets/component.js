import {component} from "./api.js";
import {body} from "./body.js";
import {h, link, state, when} from "./dom.js";
import {pagesName} from "./list.js";
import {isProfiler, pageNames} from "./profiler.js";

// details is the page of one component.
export async function details(id) {
	const info = await component(id);
	const inner = info.createdModuleIDs ?? [];
	const content = [
		h("h1", {}, id),
		h("dl", {class: "facts"},
			fact("Health", state(info.health), when(info.health.updatedTime) ? h("span", {class: "quiet"}, " ", when(info.health.updatedTime)) : null),
			fact("Message", info.health.message || "none"),
			info.moduleID ? fact("In", h("a", {href: link("component", info.moduleID)}, info.moduleID)) : null,
			info.declaredIn ? fact("Declared in", info.declaredIn.join(", ")) : null,
			fact("Sends data to", links(info.moduleID, info.sendsTo ?? [])),
			fact("Gets data from", links(info.moduleID, info.referencesTo.filter((other) => !(info.sendsTo ?? []).includes(other)))),
			fact("Used by", links(info.moduleID, info.referencedBy)),
			inner.length > 0 ? fact("Inside", inner.map((module) => h("a", {href: link("graph", module)}, "its own components"))) : null),
		info.warnings ? h("ul", {class: "warnings"}, info.warnings.map((warning) => h("li", {}, warning))) : null,
		info.pages ? h("a", {class: "open", href: info.pages}, pagesName(info)) : null,
		isProfiler(info) ? ["processes", "health"].map((page) => [" ", h("a", {class: "open", href: link(page, id)}, pageNames[page])]) : null,
	];
	for (const [title, statements] of [["Arguments", info.arguments], ["Exports", info.exports], ["Debug info", info.debugInfo]]) {
		content.push(title === "Debug info" ? folded(title, statements) : [h("h2", {}, title), body(statements, title)]);
	}
	return {title: id, content};
}

// folded is a section that is initially closed. Its heading shows the number of entries.
function folded(title, statements) {
	if (!statements || statements.length === 0) {
		return [h("h2", {}, title), body(statements, title)];
	}
	const count = statements.length;
	return h("details", {class: "section", "data-key": title},
		h("summary", {}, h("h2", {}, title), h("span", {class: "quiet"}, ` ${count} ${count === 1 ? "entry" : "entries"}`)),
		body(statements, title));
}

function fact(name, ...value) {
	return [h("dt", {}, name), h("dd", {}, ...value)];
}

function links(module, ids) {
	if (ids.length === 0) {
		return h("span", {class: "nothing"}, "nothing");
	}
	return h("ul", {class: "plain"}, ids.map((id) => h("li", {}, h("a", {href: link("component", module ? module + "/" + id : id)}, id))));
}
