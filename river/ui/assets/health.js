import {h, state, when} from "./dom.js";
import {ask, card, cards, count, has, open, percent, search, sumOf, table} from "./profiler.js";

// health is the page of a profiler's health: whether samples arrive, and how their stacks ended.
export async function health(id) {
	const {info, id: profiler, ways} = await open("health", id);
	const data = await ask(info, "health");
	const part = h("div", {id: "part"});
	const fill = () => part.replaceChildren(...found(data).flat(Infinity));
	fill();
	const title = `Health of ${profiler}`;
	return {title, content: [
		h("h1", {}, title), ways,
		h("p", {}, state(info.health), h("span", {class: "quiet"}, " ", when(info.health.updatedTime)), ". ", info.health.message),
		figures(data),
		h("div", {class: "choose", role: "search"}, search("Search outcomes and files", fill)),
		part,
	]};
}

function figures(data) {
	const {history} = data;
	const lost = Object.values(data.lost ?? {}).reduce((sum, n) => sum + n, 0);
	const stacks = sumOf(data.outcomes, "samples");
	const bad = sumOf(data.outcomes.filter((row) => !row.good), "samples");
	return cards(
		card("Delivered since the start", percent(data.delivered, data.expected), `${count(data.delivered)} of ${count(data.expected)} samples due; ${count(lost)} lost`),
		card("Incomplete stacks", percent(bad, stacks), `${count(bad)} of ${count(stacks)}`),
		card("Processes known", count(data.processes), `${count(data.executables)} executables`),
		card("Targets", count(data.targets)),
		card("Profiles kept", count(history.profiles), `${mebi(history.bytes)} of ${mebi(history.max_bytes)}, for ${count(history.max_age / 60)} minutes`),
		card("Rate", `${count(data.sample_rate)} Hz`, `collected every ${data.interval} s`));
}

// found returns the tables, filtered by the search.
function found(data) {
	const stacks = sumOf(data.outcomes, "samples");
	const bad = sumOf(data.incomplete, "samples");
	const outcomes = data.outcomes.filter((row) => has(row.name, row.text));
	const files = data.incomplete.filter((row) => has(row.file, row.outcome));
	const lost = Object.entries(data.lost ?? {}).filter(([name]) => has(name));
	return [
		table("Outcomes of user stacks since the start", ["Outcome", "#Samples", "#Share", "Meaning"],
			outcomes.map((row) => [h("code", {class: row.good ? null : "bad"}, row.name), count(row.samples), percent(row.samples, stacks), row.text])),
		table("Where incomplete stacks ended", ["File", "Outcome", "#Samples", "#Share"],
			files.map((row) => [row.file || "(no file)", h("code", {}, row.outcome), count(row.samples), percent(row.samples, bad)])),
		table("Lost samples", ["Reason", "#Samples"], lost.map(([name, n]) => [h("code", {}, name), count(n)])),
	];
}

const mebi = (bytes) => (bytes / 1048576).toFixed(1) + " MiB";
