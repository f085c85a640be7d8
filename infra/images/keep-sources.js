// Leaves in the working folder the sources of one workspace and of those that it imports, which
// npm has linked into the folder of the first argument. Of the others only migrations stay: whoever
// brings a database up needs them all.
import { globSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';

const links = join(process.argv[2], 'node_modules', '@triplock');
const root = realpathSync(process.argv[2]);
const wanted = readdirSync(links).map((name) => relative(root, realpathSync(join(links, name))));

for (const entry of globSync('{libs,services,infra,demo}/**', { withFileTypes: true })) {
  const path = relative('', join(entry.parentPath, entry.name));
  const isWanted = wanted.some((workspace) => path.startsWith(`${workspace}/`));
  if (entry.isFile() && !isWanted && !path.includes('/migrations/')) rmSync(path);
}
