// Which names a generator takes. In plain JavaScript without a dependency, because a bad name is
// refused before anything is installed.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Which names each kind of piece takes, as a pattern and in words. */
export const shapes = {
  consumer: { shape: /^[a-z]{3,16}$/, like: 'one word of 3 to 16 lower-case letters' },
  service: {
    shape: /^(?=.{2,30}$)[a-z]+(-[a-z]+)*$/,
    like: 'lower-case words with a dash between two, 30 letters at most',
  },
  transaction: { shape: /^[a-z]{3,10}$/, like: 'a noun of 3 to 10 lower-case letters' },
  rename: {
    shape: /^[a-z][a-z0-9]{1,19}$/,
    like: 'lower-case letters and digits, 2 to 20 characters, the first a letter',
  },
};

/** TypeScript's keywords, those too that only some places keep for themselves. */
export const codeWords = new Set(
  `break case catch class const continue debugger default delete do else enum export extends false
  finally for function if import in instanceof new null return super switch this throw true try
  typeof var void while with implements interface let package private protected public static yield
  abstract accessor as asserts assert any async await boolean constructor declare get infer
  intrinsic is keyof module namespace never out readonly require number object satisfies set string
  symbol type undefined unique unknown using from global bigint override of defer`.split(/\s+/),
);

/** What PostgreSQL takes for no name of a schema unless it is quoted: its reserved words. */
const sqlWords = new Set(
  `all analyse analyze and any array as asc asymmetric authorization binary both case cast check
  collate collation column concurrently constraint create cross deferrable desc distinct do end
  except fetch for foreign freeze from full grant group having ilike initially inner intersect into
  is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null
  offset on only or order outer overlaps placing primary references returning right select similar
  some symmetric table tablesample then to trailing union unique user using variadic verbose when
  where window with`.split(/\s+/),
);

/**
 * Why a kind of piece cannot be called so, in one sentence; `undefined` where it can.
 *
 * @param paths Of all files of the repository: a word that one is named by would be meant too.
 */
export function refusalOf(kind, name, paths) {
  if (kind === 'remove') {
    const known = removable(paths);
    if (known.includes(name)) return undefined;
    return `there is no '${name}' to take out: there is ${known.join(', ')}`;
  }
  const { shape, like } = shapes[kind];
  if (!shape.test(name)) return `'${name}' is not a name here: it takes ${like}`;
  if (codeWords.has(name.replaceAll('-', '_'))) {
    return `'${name}' is a word of JavaScript: take another`;
  }
  if (sqlWords.has(name)) return `'${name}' is a word of SQL: take another`;
  return takenNames(paths).has(name) ? `'${name}' is taken: take another name` : undefined;
}

/** Services, stores of claims and ledgers, and providers: what one line of a list imports. */
const pieces = [
  /^services\/([^/]+)\/service\.ts$/,
  /^libs\/stores\/((?:claims|ledger)-[^/]+)\/package\.json$/,
  /^libs\/providers\/(?!providers\/)([^/]+)\/package\.json$/,
];

function removable(paths) {
  return paths.flatMap((path) => pieces.flatMap((piece) => piece.exec(path)?.[1] ?? [])).sort();
}

/** Every word that a file or folder here is named by. */
function takenNames(paths) {
  const parts = paths.flatMap((path) => path.split('/'));
  return new Set(parts.flatMap((part) => [part, ...part.split(/[-.]/)]));
}

/**
 * What is wrong about the words after `npm run new --`, before anything is installed or started;
 * `undefined` where a piece can be made by them, or is asked for.
 */
export function refuseWords([kind, ...words], root) {
  if (['--help', '-h'].some((word) => [kind, ...words].includes(word))) return undefined;
  const file = join(root, 'infra', 'generators', 'generators.json');
  const known = Object.keys(JSON.parse(readFileSync(file, 'utf8')).generators);
  if (!known.includes(kind)) {
    const given = kind === undefined ? 'a kind is missing' : `'${kind}' is no kind`;
    return `${given}: it takes one of ${known.join(', ')} (npm run new -- --help)`;
  }
  const [name, extra] = words;
  const command = kind === 'rename' ? 'npm run rename -- NAME' : `npm run new -- ${kind} NAME`;
  if (name === undefined) return process.stdin.isTTY ? undefined : `a name is missing: ${command}`;
  if (name.startsWith('-')) return `there is no option '${name}': ${command}`;
  if (extra !== undefined) return `unexpected argument '${extra}': ${command}`;
  return refusalOf(kind, name, pathsIn(root));
}

/** Of what git keeps, and of what is not ignored: as Nx looks for files. */
function pathsIn(root, below = '.') {
  const ignored = ['.git', ...ignoredFolders(root)];
  return readdirSync(join(root, below), { withFileTypes: true }).flatMap((entry) => {
    const path = join(below, entry.name);
    if (!entry.isDirectory()) return [path];
    return ignored.some((each) => each === entry.name || each === path) ? [] : pathsIn(root, path);
  });
}

/** The lines of .gitignore that name a folder, such as `node_modules/`. */
function ignoredFolders(root) {
  const lines = readFileSync(join(root, '.gitignore'), 'utf8').split('\n');
  return lines.filter((line) => line.endsWith('/')).map((line) => line.slice(0, -1));
}
