import { posix } from 'node:path';
import { formatFiles, readJson, updateJson, type GeneratorCallback, type Tree } from '@nx/devkit';
import { membersOf } from './lists.ts';
import { pathsOf, RefusedName, refuseName } from './names.ts';
import { settle } from './service.ts';

const providers = { file: 'libs/providers/providers/providers.ts', constant: 'listed' };

/**
 * Takes a service, a store or a provider out: its folder, its line in the list that imports it, its
 * name among packages, and its files in the tables of documents. What is made of the lists is made
 * anew.
 *
 * @throws RefusedName when there is none of that name, the system does not stand without it, or
 * somebody beside a list imports it; nothing is changed then.
 */
export async function remove(tree: Tree, { name }: { name: string }): Promise<GeneratorCallback> {
  refuseName(tree, 'remove', name);
  const folder = ['services', 'libs/stores', 'libs/providers']
    .map((parent) => `${parent}/${name}`)
    .find((each) => tree.isFile(`${each}/package.json`))!;
  if (isGuard(tree, folder)) {
    throw new RefusedName(`'${name}' is a guard of the pipeline, which does not stand without it`);
  }
  if (folder.startsWith('libs/providers/') && membersOf(tree, providers)[0] === name) {
    throw new RefusedName(
      `'${name}' is who a system charges at unless PROVIDERS names another: it stays while it is the first in ${providers.file}`,
    );
  }
  const { name: packageName } = readJson<{ name: string }>(tree, `${folder}/package.json`);
  const others = pathsOf(tree).filter((path) => !path.startsWith(`${folder}/`));
  const imported = importOf(packageName);
  const importers = others.filter((path) => {
    return /\.m?[tj]s$/.test(path) && imported.test(tree.read(path, 'utf8')!);
  });
  const left = importers.map((path) => ({ path, text: without(tree, path, packageName) }));
  const stuck = left.filter(({ text }) => text === undefined).map(({ path }) => path);
  if (stuck.length > 0) {
    throw new RefusedName(`'${name}' is used beside its list: take it out of ${stuck.join(', ')}`);
  }
  for (const { path, text } of left) tree.write(path, text!);
  for (const path of others.filter((each) => each.endsWith('package.json'))) {
    dropDependency(tree, path, packageName);
  }
  for (const path of others.filter((each) => each.endsWith('.md'))) {
    const text = tree.read(path, 'utf8')!;
    const rest = withoutFilesOf(folder, { path, text });
    if (rest !== text) tree.write(path, rest);
  }
  dropFromLock(tree, folder);
  tree.delete(folder);
  await formatFiles(tree);
  return () => {
    settle(tree);
    console.log(`${folder} is gone. Next: npm run check, and git grep -i ${name}`);
  };
}

/**
 * Whether it takes payments in, posts them, publishes what became of them, tells partners, or
 * audits all that.
 */
function isGuard(tree: Tree, folder: string): boolean {
  const declaration = tree.read(`${folder}/service.ts`, 'utf8') ?? '';
  return /^ {2}(?:claims: 'takes'|ledger: '(?:posts|publishes|audits)'|callsPartners: true),$/m.test(
    declaration,
  );
}

/** That a file imports a package, or a part of it, by whatever way. */
function importOf(packageName: string): RegExp {
  return new RegExp(`(?:from|import\\(?) ?['"]${packageName}(?:/[^'"]*)?['"]`);
}

/**
 * A file without its imports of a package, and without the lines of lists that stand for what it
 * imported. `undefined` when it does something else with it.
 */
function without(tree: Tree, path: string, packageName: string): string | undefined {
  const text = tree.read(path, 'utf8')!;
  const importOfIt = new RegExp(
    `^import (?:type )?\\{([^}]*)\\} from ['"]${packageName}(?:/[^'"]*)?['"];\\n`,
    'gm',
  );
  const names = [...text.matchAll(importOfIt)]
    .flatMap(([, list]) => list!.split(',').map((each) => each.trim().split(' ').at(-1)!))
    .filter((each) => each !== '');
  const inLists = names.map((each) => new RegExp(`^ +(?:'?[\\w-]+'?: )?${each},\\n`, 'gm'));
  const left = [importOfIt, ...inLists].reduce((rest, each) => rest.replaceAll(each, ''), text);
  const words = names.map((each) => new RegExp(`\\b${each}\\b`));
  return [importOf(packageName), ...words].some((each) => each.test(left)) ? undefined : left;
}

function dropDependency(tree: Tree, path: string, packageName: string): void {
  if (!tree.read(path, 'utf8')!.includes(`"${packageName}"`)) return;
  type Package = Record<string, Record<string, string> | undefined>;
  updateJson<Package>(tree, path, (json) => {
    for (const kind of ['dependencies', 'devDependencies']) delete json[kind]?.[packageName];
    return json;
  });
}

/** Of packages within a package that is gone, npm (11.19) keeps what it calls extraneous. */
function dropFromLock(tree: Tree, folder: string): void {
  if (!tree.exists('package-lock.json')) return;
  type Lock = { packages: Record<string, { resolved?: string }> };
  updateJson<Lock>(tree, 'package-lock.json', (lock) => {
    const isIts = (path: string) => `${path}/`.startsWith(`${folder}/`);
    const kept = Object.entries(lock.packages).filter(
      ([path, { resolved = path }]) => !isIts(path) && !isIts(resolved),
    );
    return { ...lock, packages: Object.fromEntries(kept) };
  });
}

/**
 * A document whose tables name no file of a folder any more: a row goes with the only ones that it
 * names in a cell. Prose is left to people.
 */
function withoutFilesOf(folder: string, { path, text }: { path: string; text: string }): string {
  const here = posix.dirname(path);
  const isIts = (item: string) => {
    const [, link, inCode] = /^(?:\[[^\]]*\]\(([^)#]+)[^)]*\)|`([\w./-]+)`)$/.exec(item) ?? [];
    const named = link === undefined ? inCode : posix.join(here, link);
    return named !== undefined && `${named}/`.startsWith(`${folder}/`);
  };
  return text.replaceAll(/^\|.*\n/gm, (row) => {
    const cells = row.split(/(?<!\\)\|/).map((cell) => {
      const items = cell.trim().split(/(?<=[,;]) /);
      const bare = items.map((item) => item.replace(/[,;]$/, ''));
      if (!bare.some(isIts)) return cell;
      const kept = items.filter((_, nth) => !isIts(bare[nth]!));
      return kept.length === 0 ? undefined : ` ${kept.join(' ').replace(/[,;]$/, '')} `;
    });
    return cells.includes(undefined) ? '' : cells.join('|');
  });
}
