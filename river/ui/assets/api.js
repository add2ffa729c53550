// The runtime's API, relative to the page's base.

export class NotFound extends Error {}

async function get(path) {
	const response = await fetch("api/v0/web/" + path, {cache: "no-store"});
	if (response.status === 404) {
		throw new NotFound(path);
	}
	if (!response.ok) {
		throw new Error(`${response.status} ${response.statusText}`);
	}
	return response.json();
}

const encode = (id) => id.split("/").map(encodeURIComponent).join("/");

// components returns those of a module; "" means the configuration itself.
export function components(module) {
	return get(module ? `modules/${encode(module)}/components` : "components");
}

export function component(id) {
	return get("components/" + encode(id));
}

// allComponents returns those of the configuration and of all modules, each
// module's after the component that holds it.
export async function allComponents(module = "") {
	const all = [];
	for (const info of await components(module)) {
		all.push(info);
		for (const inner of info.createdModuleIDs ?? []) {
			try {
				all.push(...await allComponents(inner));
			} catch (error) {
				if (!(error instanceof NotFound)) { // gone since
					throw error;
				}
			}
		}
	}
	return all;
}
