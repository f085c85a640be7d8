import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { readWorkspace } from './projects.ts';
import { root, workspaceFiles, type WorkspaceFile } from './workspace-files.ts';

/*
 * How many product files outside a service's, a store's or a provider's folder say its name:
 * `npx node infra/lint/rooms.ts [--files]`. A room that brings all that is its own can be deleted
 * with its folder and one line. Not counted are tests, what runs and shows the system from outside,
 * prose, and what `npm run generate` writes.
 */

/**
 * What a store is called for short; PostgreSQL is the database of all as well. A package that lies
 * in a store's folder, such as the server that stands for it, is no room of its own.
 */
const storeWord = /^libs\/stores\/(?:claims|ledger)-(?!postgres)(\w{6})[^/]*$/;
const notProduct =
  /(\.test\.ts|\.conformance\.ts|\.testing\.ts|\.md|package-lock\.json|openapi\.json|\/dashboards\/[\w-]+\.json)$|\/tests?\/|^(e2e|demo|load-tests|findings|docs)\//;
const product = /\.(ts|mts|mjs|js|sql|lua|ya?ml|json)$|\/Dockerfile$/;
const written = /^.*--- ([\w -]+), by npm run generate[^]*?--- end of \1.*$/gm;

/** What a provider is called; a simulator of its own beside it speaks of it all the time. */
const providerWord = /^libs\/providers\/(?!providers$)(\w+)$/;
const simulators = /^infra\/\w+-simulator\//;

/** What a room is called in code, SQL and settings. */
type Room = { folder: string; words: RegExp };

/** The services, stores and providers of this workspace. */
function rooms(): Room[] {
  const { projects } = readWorkspace(root);
  return projects.flatMap(({ folder, kind }): Room[] => {
    const store = storeWord.exec(folder)?.[1];
    if (store !== undefined) return [{ folder, words: new RegExp(store, 'i') }];
    const provider = providerWord.exec(folder)?.[1];
    if (provider !== undefined) return [{ folder, words: new RegExp(provider, 'i') }];
    if (kind !== 'service') return [];
    const name = folder.replace('services/', '');
    const [last = name] = name.split('-').toReversed();
    // The name in any case, and what tells rooms with two words apart from the words themselves.
    const inAnyCase = name.replaceAll('-', '[-_ ]?');
    const alone = last === name || last.length < 8 ? '' : `|\\b(triplock_)?${last}[._]`;
    const role = roleIn(folder);
    const asRole = role === undefined ? '' : `|${role}`;
    return [{ folder, words: new RegExp(`${inAnyCase}${alone}${asRole}`, 'i') }];
  });
}

/** What its role in the database, and its metrics, are called. */
function roleIn(folder: string): string | undefined {
  const file = join(root, folder, 'service.ts');
  return /role: '(\w+)'/.exec(readFileSync(file, 'utf8'))?.[1];
}

function namedIn({ folder, words }: Room, files: readonly WorkspaceFile[]): string[] {
  return files
    .filter(({ path }) => !path.startsWith(`${folder}/`))
    .filter(({ text }) => words.test(text().replaceAll(written, '')))
    .map(({ path }) => path);
}

const files = workspaceFiles().filter(
  ({ path }) => product.test(path) && !notProduct.test(path) && !simulators.test(path),
);
const withFiles = process.argv.includes('--files');
for (const room of rooms()) {
  const named = namedIn(room, files);
  console.log(`${String(named.length).padStart(4)}  ${room.folder}`);
  if (withFiles) for (const path of named) console.log(styleText('dim', `      ${path}`));
}
