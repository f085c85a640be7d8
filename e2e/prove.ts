import { openTerminal } from '@triplock/demo';
import { runCommand, UsageError } from '@triplock/infra';
import { chooseFiles } from './prove/choose-files.ts';
import { chooseStores, proveStores } from './prove/prove-stores.ts';
import { renderProof } from './prove/render-proof.ts';

const help = `
npm run prove -- CAMPAIGN [options]

  stores   the promises end to end on every claim store: brings up a system of its own for each, two
           of each service, and runs the files of e2e/ on it. What does not apply to a store is told
           with its reason

Exit code 1 when a promise failed or was not tried. Ctrl-C stops everything that was started.

  --only LIST  only these, separated by commas: stores (redis, postgres, hybrid, dynamodb), files of
               e2e/ without .test.ts, or both
  --short      only the promises that rest on guard 1 most, for a check of every change
  --json       prints { ok, seconds, stores: [{ store, seconds, promises }] }
  --help
`;

await runCommand({
  name: 'prove',
  help,
  options: {
    only: { type: 'string' },
    short: { type: 'boolean' },
    json: { type: 'boolean' },
  },
  wordsMax: 1,
  run: async ({ values, words, interrupted }) => {
    const [campaign] = words;
    if (campaign !== 'stores') {
      const said = campaign === undefined ? 'name a campaign' : `no campaign '${campaign}'`;
      throw new UsageError(`${said}: there is stores (npm run prove -- --help)`);
    }
    const { stores, rest } = chooseStores(values.only);
    const files = chooseFiles({ only: rest, short: values.short ?? false });
    const terminal = openTerminal({ json: values.json ?? false });
    const proof = await proveStores({ stores, files }, { terminal, signal: interrupted() });
    for (const line of renderProof(proof)) terminal.line(line);
    terminal.result(proof);
    if (!proof.ok) process.exitCode = 1;
  },
});
