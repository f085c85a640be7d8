import { runCommand } from '@triplock/launcher';
import { UsageError, openTerminal, wholeNumber } from '@triplock/command';
import { compareStores, renderComparison } from './compare/compare-stores.ts';
import { onOwnStores } from './compare/own-stores.ts';

const help = `
npm run compare -- WHAT [options]

  stores   the claim stores side by side: claims with their completions per second, latency, CPU of
           the process that claims, bytes per claim, and what outlives kill -9 of the store, which is
           really done. Stores of its own are started and leave nothing behind; each measures
           in turn with the others. docs/stores.md says how to read it

  --seconds N   seconds of each run of a store (4)
  --repeat N    runs of each store (3)
  --at-once N   concurrent claims (16)
  --claims N    claims that kill -9 of a store is tried on (1000)
  --json        prints { rig, settings, stores }
  --help
`;

await runCommand({
  name: 'compare',
  help,
  options: {
    seconds: { type: 'string' },
    repeat: { type: 'string' },
    'at-once': { type: 'string' },
    claims: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 1,
  run: async ({ values, words, interrupted }) => {
    const [what] = words;
    if (what !== 'stores') {
      const problem = what === undefined ? 'say what to compare' : `no '${what}' to compare`;
      throw new UsageError(`${problem}: there is stores (npm run compare -- --help)`);
    }
    const number = (option: 'seconds' | 'repeat' | 'at-once' | 'claims', max: number) =>
      wholeNumber(values[option], { option, min: 1, max });
    const settings = {
      seconds: number('seconds', 600) ?? 4,
      repeat: number('repeat', 100) ?? 3,
      atOnce: number('at-once', 1_024) ?? 16,
      claims: number('claims', 100_000) ?? 1_000,
    };
    const terminal = openTerminal({ json: values.json ?? false });
    const signal = interrupted();
    const comparison = await onOwnStores({ terminal, signal }, (stores) =>
      compareStores({ stores, terminal, signal }, settings),
    );
    for (const line of renderComparison(comparison)) terminal.line(line);
    terminal.result(comparison);
  },
});
