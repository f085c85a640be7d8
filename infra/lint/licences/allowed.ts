/** Where something that comes from others stands. */
export type Place =
  /** In processes of ours, or in what is given on with them. */
  | 'in ours'
  /** A program of its own, in a process of its own, that nobody is given changed by us. */
  | 'beside ours'
  /** In the tests alone; nobody is given a copy of it. */
  | 'in tests';

/**
 * Licences by their SPDX ids, and all are open: they let anybody use, read, change and pass on.
 *
 * Those that stand anywhere ask for no more than their own text. The others ask for the source of
 * what is passed on changed, or made one program with theirs; a server that we only start and talk
 * to is neither, and so they stand beside ours. What is on no list is refused, however little it
 * costs: the terms of a vendor, and licences that are open but for some uses (SSPL, RSAL, BUSL).
 */
const anywhere = [
  ...['MIT', 'Apache-2.0', 'ISC', '0BSD', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0'],
  ...['Unlicense', 'CC0-1.0', 'PostgreSQL', 'Python-2.0', 'PSF-2.0', 'CC-BY-4.0'],
];
const besideOurs = ['AGPL-3.0-only', 'MPL-2.0', 'EPL-2.0'];

/** All that are allowed somewhere. */
export const allowedLicences = [...anywhere, ...besideOurs.map((id) => `${id} beside ours`)];

/** Something that was fetched, or will be, and the terms that it comes with. */
export type Licensed = {
  /** Who gives it to us, such as `npm`. */
  source: string;
  name: string;
  version: string;
  /** An SPDX expression, or in its stead the words that were found. */
  licence: string;
  place: Place;
};

/** Those whose terms are not allowed where they stand, each in a line. */
export function findForbidden(found: readonly Licensed[]): string[] {
  return found
    .filter(({ licence, place }) => !isAllowed(licence, place))
    .map(({ source, name, version, licence, place }) => {
      return `${source}: ${name}@${version}: ${licence}, ${place}`;
    });
}

/**
 * Whether an SPDX expression is allowed at a place: of `OR` one side is enough, of `AND` it takes
 * both. What is no expression is not allowed, and neither is an exception (`WITH`) that no list
 * has.
 */
export function isAllowed(expression: string, place: Place): boolean {
  const words = expression.match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const either = (): boolean => {
    let holds = both();
    while (words[at] === 'OR') {
      at += 1;
      // Both sides are read, whatever the first one says.
      holds = [holds, both()].includes(true);
    }
    return holds;
  };
  const both = (): boolean => {
    let holds = one();
    while (words[at] === 'AND') {
      at += 1;
      holds = ![holds, one()].includes(false);
    }
    return holds;
  };
  const one = (): boolean => {
    const word = words[at];
    at += 1;
    if (word !== '(') return word !== undefined && isListed(word, place);
    const holds = either();
    const isClosed = words[at] === ')';
    at += 1;
    return isClosed && holds;
  };
  const holds = either();
  return at === words.length && holds;
}

function isListed(id: string, place: Place): boolean {
  return anywhere.includes(id) || (place !== 'in ours' && besideOurs.includes(id));
}
