import { runCommand } from '@triplock/launcher';
import { openTerminal } from '@triplock/operator';
import { chooseGenerators, proveGenerators } from './prove/generators.ts';
import { chooseCampaign, chooseFiles } from './prove/promises.ts';
import { renderProof } from './prove/render.ts';
import { proveStores } from './prove/run.ts';
import { chooseColumns } from './prove/stores.ts';

const help = `
npm run prove -- CAMPAIGN [options]

  stores    the promises end to end on every claim store with a ledger in PostgreSQL, and on the
            first of them with one in Spanner. What does not apply is reported with its reason
  faults    what takes long to break, or needs the machine for itself: a storm of kills, a thousand
            requests at once, workers that come and go, every scenario. On Redis unless --only names
            stores
  generators
            what \`npm run rename\` and \`npm run new\` write: each in a scratch clone of what is
            committed, with lint, types, tests, a system, a payment, the audit; then removed again
  sabotage  takes each guard away and sees duplicates escape, so that the rest of the tests can be
            believed

Each brings up a system of its own, two of each service, and runs files of e2e/ on it. Exit code 1
when a promise failed or was not tried. Ctrl-C stops everything that was started.

  --only LIST  only these, separated by commas: stores (redis, postgres, hybrid, dynamodb), files of
               the campaign without .test.ts, or both
  --ledger postgres | spanner
               only with this ledger; with spanner on Redis, unless --only names stores
  --full       every claim store with every ledger
  --one        of generators another one every day
  --short      for a check of every change: of stores only the promises that rest on guard 1 most,
               with a ledger in Spanner on guard 2; of faults a storm of 15 seconds instead of 60;
               of generators only the new piece's own tests
  --json       prints { ok, seconds, stores: [{ claims, ledger, seconds, promises }] }
  --help
`;

await runCommand({
  name: 'prove',
  help,
  options: {
    only: { type: 'string' },
    ledger: { type: 'string' },
    full: { type: 'boolean' },
    short: { type: 'boolean' },
    one: { type: 'boolean' },
    json: { type: 'boolean' },
  },
  wordsMax: 1,
  run: async ({ values, words, interrupted }) => {
    const short = values.short ?? false;
    if (words[0] === 'generators') {
      const { only, one = false, json = false } = values;
      const kinds = chooseGenerators({ only, one });
      const terminal = openTerminal({ json });
      const proof = await proveGenerators({ kinds, short }, { terminal, signal: interrupted() });
      for (const { kind, seconds, failed } of proof.generators)
        terminal.line(`${failed === undefined ? '✔' : '✘'} ${kind} in ${seconds} s`);
      terminal.result(proof);
      if (!proof.ok) process.exitCode = 1;
      return;
    }
    const campaign = chooseCampaign(words[0]);
    const { only, ledger, full = false } = values;
    const { columns, rest } = chooseColumns(campaign, { only, ledger, full });
    const files = chooseFiles(campaign, { only: rest, short });
    if (short) process.env['STORM_SECONDS'] = '15';
    const terminal = openTerminal({ json: values.json ?? false });
    const proof = await proveStores({ columns, files }, { terminal, signal: interrupted() });
    for (const line of renderProof(proof)) terminal.line(line);
    terminal.result(proof);
    if (!proof.ok) process.exitCode = 1;
  },
});
