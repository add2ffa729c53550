// The runtime's API, relative to the page's base.

// NotFound says that a path does not exist. Its text, if any, is shown to the user.
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

// components returns the components of a module; "" means the configuration itself.
export function components(module) {
	return get(module ? `modules/${encode(module)}/components` : "components");
}

// imports returns the import blocks of a module, including nested ones.
export function imports(module) {
	return get(module ? `modules/${encode(module)}/imports` : "imports");
}

export function component(id) {
	return get("components/" + encode(id));
}

// everything returns the components and the imports of the configuration and of
// all modules. A module's components follow the component that contains it.
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
				if (!(error instanceof NotFound)) { // removed in between
					throw error;
				}
			}
		}
	}
	return all;
}
