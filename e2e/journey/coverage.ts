import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { eventually } from '@triplock/testing';

/** What `takeCoverage` of node:v8 writes, as far as it is read here. */
type Report = { result: { url: string; functions: CountedFunction[] }[] };
type CountedFunction = { ranges: { startOffset: number; count: number }[] };

const root = resolve(import.meta.dirname, '../..');
const ours = `${pathToFileURL(root).href}/`;

/** Settings under which a service counts what runs and writes it when it is asked. */
export function coverageSettings(folder: string): Readonly<Record<string, string>> {
  const preload = new URL('./take-coverage.mjs', import.meta.url).href;
  return { NODE_V8_COVERAGE: folder, NODE_OPTIONS: `--import ${preload}` };
}

/**
 * The product's files of which a function ran in the process since this was asked last, by their
 * paths from the root. Loading a file is not running it.
 *
 * @throws when the process writes nothing within 15 s: it was not started with the settings above.
 */
export async function takeRanFiles(pid: number, folder: string): Promise<Set<string>> {
  const isIts = (name: string) => name.startsWith(`coverage-${pid}-`);
  for (const name of readdirSync(folder).filter(isIts)) rmSync(join(folder, name));
  process.kill(pid, 'SIGUSR2');
  const report = await eventually(
    async () => {
      const name = readdirSync(folder).find(isIts);
      return name !== undefined && (JSON.parse(readFileSync(join(folder, name), 'utf8')) as Report);
    },
    { withinMs: 15_000, what: `coverage of process ${pid}` },
  );
  const ran = report.result
    .filter(({ url }) => url.startsWith(ours) && url.endsWith('.ts'))
    .filter(({ functions }) => functions.some(hasRun))
    .map(({ url }) => relative(root, fileURLToPath(url)));
  return new Set(ran);
}

/** The function that begins at 0 is the module itself, which runs when the file is loaded. */
function hasRun({ ranges: [whole] }: CountedFunction): boolean {
  return whole !== undefined && whole.startOffset > 0 && whole.count > 0;
}
