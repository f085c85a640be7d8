import type { TestEnd } from './events.ts';
import { type FileEnd, isRed } from './pool.ts';

/** A line for a file that is green; all that is known of one that is not. */
export function renderFile(end: FileEnd): string[] {
  const { path, tests, ms, cpuSeconds, figures } = end;
  const skipped = tests.filter(({ outcome }) => outcome === 'skipped');
  const left = skipped.length > 0 ? `, ${skipped.length} left out` : '';
  const cpu = cpuSeconds > 0 ? `, ${cpuSeconds.toFixed(1)} s of CPU` : '';
  const head = `${isRed(end) ? '✖' : '✔'} ${path}: ${count(tests.length, 'test')}${left}, ${seconds(ms)}${cpu}`;
  const whyLeft = skipped.map(({ name, why }) => `    left out: ${name}${why ? `: ${why}` : ''}`);
  if (!isRed(end)) return [head, ...whyLeft, ...figures.map((figure) => `    ${figure}`)];
  return [head, ...whyLeft, ...whyRed(end).flatMap(indent), ...printedOf(end)];
}

/**
 * The last lines: what is red, in which process, and how to repeat it; or that nothing is. The very
 * last one is the count.
 */
export function renderEnd(
  ends: readonly FileEnd[],
  { ms, of }: { ms: number; of: number },
): string[] {
  const tests = ends.flatMap((end) => end.tests);
  const red = ends.filter(isRed);
  const skipped = tests.filter(({ outcome }) => outcome === 'skipped').length;
  const failed = red.flatMap(whyRed).length;
  const passed = tests.filter(({ outcome }) => outcome === 'passed').length;
  const missing = of - ends.length;
  return [
    ...red.flatMap((end) => ['', `red: ${end.path}`, ...promises(end), `  again: ${repeat(end)}`]),
    ...(missing > 0 ? ['', `${count(missing, 'file')} of ${of} did not run`] : []),
    '',
    `${count(ends.length, 'file')} in ${seconds(ms)}`,
    `${passed} passed, ${failed} failed, ${skipped} skipped`,
  ];
}

/** Each failure by its promise, with the first line of why. */
function promises(end: FileEnd): string[] {
  return whyRed(end).map((why) => `  ${why.split('\n').slice(0, 2).join('\n  ')}`);
}

/** The command that repeats it: without what is green in the file, where one test can be named. */
export function repeat({ path, tests, died }: FileEnd): string {
  const failed = tests.filter(({ outcome }) => outcome === 'failed');
  const one =
    failed.length === 1 && died === undefined ? failed[0]!.name.split(' > ').at(-1) : undefined;
  const isNamed = one !== undefined && !/['\\]/.test(one) && /:[1-9]\d*$/.test(failed[0]!.at);
  const name = isNamed ? ` --test-name-pattern='${escape(one)}'` : '';
  return `node_modules/node/bin/node --test${name} ${path}`;
}

/** As a regular expression that matches the words themselves. */
function escape(words: string): string {
  return words.replaceAll(/[.*+?^${}()|[\]]/g, '\\$&');
}

/** Every reason for which a file is red, each with all that is known. */
export function whyRed({ tests, leftBehind, died, onlySome }: FileEnd): string[] {
  const failed = tests.filter(({ outcome }) => outcome === 'failed').map(whyFailed);
  const left = leftBehind.map((what) => `left behind: ${what}`);
  const ended = died === undefined ? [] : [`its process ended before it did: ${died}`];
  const none = tests.length === 0 && died === undefined ? ['it has no test'] : [];
  const some = onlySome ? ['it says `only`: its other tests did not run'] : [];
  return [...failed, ...left, ...ended, ...none, ...some];
}

function whyFailed({ name, at, why = 'no reason given' }: TestEnd): string {
  const place = at.split('/').at(-1);
  return `${name}${place ? ` (${place})` : ''}\n${why}`;
}

function indent(text: string): string[] {
  return text.split('\n').map((line, n) => (n === 0 ? `  ${line}` : `    ${line}`));
}

function printedOf({ printed }: FileEnd): string[] {
  const lines = printed
    .trimEnd()
    .split('\n')
    .filter((line) => line !== '');
  return lines.length === 0
    ? []
    : ['  it printed', ...lines.slice(-100).map((line) => `    ${line}`)];
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
