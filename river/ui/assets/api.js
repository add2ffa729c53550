// The runtime's API, relative to the page's base.

// NotFound says that there is nothing at a path. Its text, if it has one, is for people.
export class NotFound extends Error {
	constructor(path, text) {
		super(path);
		this.text = text;
	}
}

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

// imports returns the import blocks of a module, and those in their texts.
export function imports(module) {
	return get(module ? `modules/${encode(module)}/imports` : "imports");
}

export function component(id) {
	return get("components/" + encode(id));
}

// everything returns the components and the imports of the configuration and of
// all modules, each module's after the component that holds it.
export async function everything(module = "") {
	const all = {components: [], imports: await imports(module)};
	for (const info of await components(module)) {
		all.components.push(info);
		for (const inner of info.createdModuleIDs ?? []) {
			try {
				const more = await everything(inner);
				all.components.push(...more.components);
				all.imports.push(...more.imports);
			} catch (error) {
				if (!(error instanceof NotFound)) { // gone since
					throw error;
				}
			}
		}
	}
	return all;
}
