import {h} from "./dom.js";
import {ask, card, cards, choice, count, has, open, parameter, percent, search, sumOf, table} from "./profiler.js";

const ranges = {last: "last interval", "1m": "last minute", "5m": "last 5 minutes", "10m": "last 10 minutes"};
const usual = "5m";
const shownPIDs = 5;
const shownRows = 500;

// processes is the page of a profiler's recent samples: targets, and processes by name. reload shows it again.
export async function processes(id, reload) {
	const {info, id: profiler, ways} = await open("processes", id);
	const range = parameter("range", usual);
	const data = await ask(info, "processes?range=" + encodeURIComponent(range));
	const part = h("div", {id: "part"});
	const fill = () => part.replaceChildren(...found(info, data, range).flat(Infinity));
	fill();
	const title = `Processes of ${profiler}`;
	return {title, content: [
		h("h1", {}, title), ways,
		h("div", {class: "choose", role: "search"}, search("Search", fill), choice("Time", "range", ranges, usual, reload)),
		part,
	]};
}

// found returns the cards and tables, filtered by the search. The cards are sums over the table of processes.
function found(info, data, range) {
	const names = data.processes.filter((row) => has(row.name, ...row.pids));
	const targets = data.targets.filter((row) => has(row.name, row.labels));
	const all = sumOf(data.processes, "samples");
	const samples = sumOf(names, "samples");
	const user = sumOf(names, "with_user");
	const complete = sumOf(names, "complete");
	return [
		cards(
			card("Samples", count(samples), samples === all ? null : `${percent(samples, all)} of ${count(all)}`),
			card("Complete user stacks", percent(complete, user), `${count(complete)} of ${count(user)}`),
			card("Names of processes", count(names.length), names.length === data.processes.length ? null : `of ${count(data.processes.length)}`),
			card("Processes", count(names.reduce((sum, row) => sum + row.pids.length, 0)))),
		table("Processes", ["Name", "#Samples", "#Share", "#Complete", "PIDs", "Profile"],
			names.slice(0, shownRows).map((row) => processRow(info, row, all, range))),
		names.length > shownRows ? h("p", {class: "quiet"}, `and ${count(names.length - shownRows)} more: search for them`) : [],
		table("Targets", ["Target", "#Samples", "#Complete", "#Processes", "Profile"],
			targets.slice(0, shownRows).map((row) => targetRow(info, row, range))),
		targets.length > shownRows ? h("p", {class: "quiet"}, `and ${count(targets.length - shownRows)} more: search for them`) : [],
	];
}

function processRow(info, row, all, range) {
	const pids = row.pids.slice(0, shownPIDs).flatMap((pid) => [
		argument(info, "pid_label") === true ? h("a", {href: flame(info, {process: row.name, pid, range})}, pid) : String(pid), " "]);
	if (row.pids.length > shownPIDs) {
		pids.push(`and ${count(row.pids.length - shownPIDs)} more`);
	}
	const profile = argument(info, "comm") === "none" ? "" :
		h("a", {href: flame(info, {process: row.name, range}), "aria-label": `Flame graph of ${row.name}`}, "Flame graph");
	return [row.name, count(row.samples), percent(row.samples, all), percent(row.complete, row.with_user), pids, profile];
}

function targetRow(info, row, range) {
	return [[row.name, h("div", {class: "quiet labels"}, row.labels)], count(row.samples), percent(row.complete, row.with_user), count(row.processes),
		h("a", {href: flame(info, {target: row.id, range}), "aria-label": `Flame graph of ${row.name}`}, "Flame graph")];
}

const flame = (info, query) => info.pages + "open?" + new URLSearchParams(query);

// argument returns a component's argument, undefined if it is not set.
const argument = (info, name) => info.arguments.find((attribute) => attribute.name === name)?.value.value;
