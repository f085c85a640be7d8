import { openTerminal } from '@triplock/demo';
import { claimStores, runCommand } from '@triplock/infra';
import { chooseCampaign, chooseFiles } from './prove/choose-files.ts';
import { chooseStores, proveStores } from './prove/prove-stores.ts';
import { renderProof } from './prove/render-proof.ts';

const help = `
npm run prove -- CAMPAIGN [options]

  stores    the promises end to end on every claim store. What does not apply to a store is
            reported with its reason
  faults    what takes long to break: a storm of kills under load, workers that come and go, every
            scenario. On Redis unless --only names stores
  sabotage  takes each guard away and sees duplicates escape, so that the rest of the tests can be
            believed

Each brings up a system of its own, two of each service, and runs files of e2e/ on it. Exit code 1
when a promise failed or was not tried. Ctrl-C stops everything that was started.

  --only LIST  only these, separated by commas: stores (redis, postgres, hybrid, dynamodb), files of
               the campaign without .test.ts, or both
  --short      for a check of every change: of stores only the promises that rest on guard 1 most,
               of faults a storm of 15 seconds instead of 60
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
    const campaign = chooseCampaign(words[0]);
    const short = values.short ?? false;
    const { stores, rest } = chooseStores(
      values.only,
      campaign === 'stores' ? claimStores : ['redis'],
    );
    const files = chooseFiles(campaign, { only: rest, short });
    if (short) process.env['STORM_SECONDS'] = '15';
    const terminal = openTerminal({ json: values.json ?? false });
    const proof = await proveStores({ stores, files }, { terminal, signal: interrupted() });
    for (const line of renderProof(proof)) terminal.line(line);
    terminal.result(proof);
    if (!proof.ok) process.exitCode = 1;
  },
});
