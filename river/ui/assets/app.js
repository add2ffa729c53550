import {NotFound} from "./api.js";
import {details} from "./component.js";
import {h} from "./dom.js";
import {graph} from "./graph.js";
import {health} from "./health.js";
import {list} from "./list.js";
import {processes} from "./processes.js";

const base = new URL(document.baseURI).pathname;
const main = document.getElementById("main");
const problem = document.getElementById("problem");

// route returns the page for the current address.
function route() {
	const path = location.pathname.slice(base.length).split("/").map(decodeURIComponent);
	const id = path.slice(1).join("/");
	switch (path[0]) {
	case "graph":
		return {name: "graph", load: () => graph(id)};
	case "component":
		return {name: "component", load: () => details(id)};
	case "processes":
		return {name: "processes", load: () => processes(id, () => show())};
	case "health":
		return {name: "health", load: () => health(id)};
	default:
		return {name: "list", load: list};
	}
}

let shown = ""; // content of the page, which is not replaced while it stays the same
let turn = 0; // number of the newest request; older responses are ignored
let answered = 0; // number of the newest request that was answered
let arriving = false; // the user navigated to a page that is not yet shown

// show loads the page. If the user navigated to it, its heading is announced and gets the focus, also where a later
// request overtakes a slow response. A refresh is not shown if the user has turned refreshes off in the meantime.
async function show({navigated = false, refresh = false} = {}) {
	const mine = ++turn;
	arriving ||= navigated;
	const page = route();
	let result;
	try {
		result = await page.load();
		say("");
	} catch (error) {
		if (mine !== turn) {
			return;
		}
		answered = mine;
		if (!(error instanceof NotFound)) {
			say(`Headwater does not answer: ${error.message}. The shown data may be old.`);
			return;
		}
		result = {title: "Not found", content: [h("h1", {}, "Not found"), h("p", {}, error.text ?? "There is no such component. It may have been removed by a reload.")]};
	}
	if (mine !== turn) {
		return;
	}
	answered = mine;
	if (refresh && !refreshes()) {
		return;
	}
	const arrived = arriving;
	arriving = false;
	const next = h("main", {}, ...result.content.flat(Infinity).filter((part) => part !== null));
	if (arrived || next.innerHTML !== shown && !isSelecting()) {
		replace(next, arrived);
	}
	document.title = result.title + " · Headwater";
	for (const anchor of document.querySelectorAll("nav a[data-page]")) {
		anchor.dataset.page === (page.name === "component" ? "list" : page.name) ? anchor.setAttribute("aria-current", "page") : anchor.removeAttribute("aria-current");
	}
	if (arrived) {
		document.getElementById("announce").textContent = result.title;
		main.focus({preventScroll: true});
		window.scrollTo(0, 0);
	}
}

// replace replaces the content. A refresh keeps the focus and the open details.
function replace(next, arrived) {
	shown = next.innerHTML;
	const open = new Set(arrived ? [] : [...main.querySelectorAll("details[open]")].map((element) => element.dataset.key));
	const before = document.activeElement;
	const focused = arrived ? null : selectorOf(before);
	main.replaceChildren(...next.childNodes);
	for (const element of main.querySelectorAll("details")) {
		element.open = open.has(element.dataset.key);
	}
	const after = focused ? main.querySelector(focused) : null;
	after?.focus({preventScroll: true});
	if (after?.type === "search") {
		after.setSelectionRange(before.selectionStart, before.selectionEnd);
	}
}

// isSelecting reports whether text of the content is selected.
function isSelecting() {
	const text = getSelection();
	return text !== null && !text.isCollapsed && main.contains(text.anchorNode);
}

// selectorOf returns a selector that finds an element in the new content, or null.
function selectorOf(element) {
	if (!main.contains(element) || element === main) {
		return null;
	}
	if (element.id) {
		return "#" + CSS.escape(element.id);
	}
	const fold = element.localName === "summary" ? element.parentElement.dataset.key : null;
	return fold ? `details[data-key="${CSS.escape(fold)}"] > summary` : element.hasAttribute("href") ? `[href="${CSS.escape(element.getAttribute("href"))}"]` : null;
}

function say(text) {
	problem.hidden = text === "";
	if (problem.textContent !== text) {
		problem.textContent = text;
	}
}

// Links to Headwater's own pages only change the content.
document.addEventListener("click", (event) => {
	const anchor = event.target.closest("a[href]");
	if (!anchor || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
		return;
	}
	const href = anchor.getAttribute("href");
	if (href.startsWith("#")) {
		event.preventDefault();
		main.focus();
		return;
	}
	const target = new URL(href, document.baseURI);
	const path = target.pathname.slice(base.length);
	if (target.origin !== location.origin || !target.pathname.startsWith(base) || !/^(|(graph|processes|health)(\/.*)?|component\/.+)$/.test(path)) {
		return;
	}
	event.preventDefault();
	history.pushState(null, "", target);
	show({navigated: true});
});
window.addEventListener("popstate", () => show({navigated: true}));

const refreshes = () => document.getElementById("refresh").checked;

// A refresh does not overtake a request: a host that needs more than the interval to answer would never be shown.
setInterval(() => {
	if (refreshes() && !document.hidden && answered === turn) {
		show({refresh: true});
	}
}, 5000);
show({navigated: true});
