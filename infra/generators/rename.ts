import {
  formatFiles,
  installPackagesTask,
  visitNotIgnoredFiles,
  type GeneratorCallback,
  type Tree,
} from '@nx/devkit';
import { refuseName } from './names.ts';

/** The name that this repository has now. */
const name = 'triplock';

/** Wider comments are refused by infra/lint/tidy.test.ts. */
const widthMax = 100;

/**
 * Gives the repository another name everywhere it has one: package scope, commands, settings
 * (`TRIPLOCK_…`), metrics (`triplock_…`) with their rules and dashboards, roles and database,
 * images, compose project, pages. Rename before the first data: roles stand in the schema.
 *
 * @throws RefusedName when the name is taken or not a name; nothing is written then.
 */
export async function rename(tree: Tree, options: { name: string }): Promise<GeneratorCallback> {
  const next = options.name;
  refuseName(tree, 'rename', next);
  let files = 0;
  visitNotIgnoredFiles(tree, '.', (path) => {
    const bytes = tree.read(path);
    if (bytes === null || bytes.includes(0)) return;
    const text = bytes.toString('utf8');
    const renamed = renamedText(text, next);
    const to = renamedText(path, next);
    if (renamed === text && to === path) return;
    files += 1;
    tree.write(path, /\.(ts|js|mjs|sql|lua)$/.test(path) ? rewrapped(renamed) : renamed);
    if (to !== path) tree.rename(path, to);
  });
  await formatFiles(tree);
  return () => {
    installPackagesTask(tree, true);
    console.log(`${files} files have the name ${next}. Next: npm test`);
  };
}

function renamedText(text: string, next: string): string {
  return text
    .replaceAll(name, next)
    .replaceAll(name.toUpperCase(), next.toUpperCase())
    .replaceAll(capital(name), capital(next));
}

function capital(word: string): string {
  return word.slice(0, 1).toUpperCase() + word.slice(1);
}

/** Breaks the lines of comments that a longer name has made too wide. */
function rewrapped(text: string): string {
  return text.split('\n').flatMap(wrapComment).join('\n');
}

function wrapComment(line: string): string[] {
  const [, mark] = /^(\s*(?:\/\/|\*|--) )\S/.exec(line) ?? [];
  if (mark === undefined || line.length <= widthMax) return [line];
  const at = line.lastIndexOf(' ', widthMax);
  if (at <= mark.length) return [line];
  return [line.slice(0, at), ...wrapComment(mark + line.slice(at + 1))];
}
