// Leaves nothing but manifests in the working folder, each without its devDependencies.
//
// Nothing but manifests, so that a change of a source file does not install packages anew. Without
// devDependencies, because npm counts a package as needed in production when any workspace needs it
// there: `--omit=dev` alone would have every service carry what the tests of its libs stand on.
import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';

const kept = ['package.json', 'package-lock.json', '.npmrc'];

for (const entry of globSync(['**', '.*'], { withFileTypes: true })) {
  const path = `${entry.parentPath}/${entry.name}`;
  if (entry.isDirectory()) continue;
  if (!kept.includes(basename(path))) rmSync(path);
  else if (entry.name === 'package.json') dropDevDependencies(path);
}

function dropDevDependencies(path) {
  const manifest = JSON.parse(readFileSync(path, 'utf8'));
  delete manifest.devDependencies;
  writeFileSync(path, JSON.stringify(manifest, null, 2));
}
