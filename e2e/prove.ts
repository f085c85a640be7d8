import { claimStores, runCommand, upgradableFrom } from '@triplock/launcher';
import { UsageError, openTerminal } from '@triplock/command';
import { ledgerStoreNames } from '@triplock/ledgers';
import { checkHistory, readHistory, renderHistory } from '@triplock/inspect';
import { chooseServers, proveServers, renderServers } from './prove/claims-servers.ts';
import { chooseClients, clients, proveClients, renderClients } from './prove/clients.ts';
import { proveGate } from './prove/gate.ts';
import { chooseGenerators, proveGenerators } from './prove/generators.ts';
import {
  campaignLines,
  chooseCampaign,
  chooseColumns,
  chooseFiles,
  chooseSeed,
  listCampaigns,
  oneOfTheOthers,
  usualLedger,
} from './prove/promises.ts';
import { proveStores, renderProof } from './prove/run.ts';
import { chooseTimes, proveTwoAtOnce } from './prove/two-at-once.ts';

const help = `
npm run prove -- CAMPAIGN [options]
npm run prove -- check FILE [--json]

${listCampaigns().join('\n')}

In words:

  stores    on every claim store with a ledger in ${usualLedger}, and on the first of them with one
            in each other store; among the promises claims that are lost again and again under load.
            What does not apply is reported with its reason
  faults    what takes long to break, or needs the machine for itself: a storm that kills every
            process and then all at once, under transfers, cards, refunds, retries and reused keys;
            a thousand requests at once, workers that come and go, every scenario. On Redis unless
            --only names stores
  restore   transfers, cards at once and late, captures, cancellations, refunds in turns and at once,
            and disputes, while PostgreSQL is set back by seconds, an hour and more than a day; then
            each row is compared with the provider's charges and refunds, each webhook with what is
            shown, and numbers are 1 to n. On Redis, with the ledger in PostgreSQL
  generators
            a scratch clone of what is committed for each, with lint, types, tests, a system, a
            payment, the audit; then removed again
  claims-servers
            each server is taken from PATH, or fetched and compared with a pinned checksum, and goes
            on with what another left. One that cannot be had on this machine is named with the reason
  clients   each is made by a pinned generator in a temporary folder, compiled, and pays an amount
            beyond 32 bits, retries, refunds, lists, and verifies a webhook and a forged one with the
            library of Standard Webhooks; schemathesis asks for what the document allows, and for
            what it does not, and looks at each answer. One whose tools are not here (go, mvn, java,
            npm, python3) is named with the reason
  gate      every test of \`npm test\` --times over, each time in another order, beside two busy
            loops, and the last time beside a second system of this machine
  two-at-once
            twenty times: nothing is shared, each system settles its own payment under one key, and
            nothing is left after \`down\`
  upgrade   the earlier system has 12 partitions, an ordering key for each bucket and an outbox that
            fills; it is replaced one process after the other while payments, cards, refunds and
            retries go on, and judged from the clients to the webhooks. Then a service goes back,
            and forth again
  check     whether some order of the history's requests fits the contract, everything accepted
            became final once and as asked for, every webhook came once, and the sums are equal. It
            needs no system

Each campaign brings up a system of its own, two of each service, and runs files of e2e/ on it. Exit
code 1 when a promise failed or was not tried. Ctrl-C stops everything that was started.

  --list       the campaigns, a line each
  --only LIST  only these, separated by commas: stores (${claimStores.join(', ')}), files of
               the campaign without .test.ts, or both; of claims-servers servers (redis-6.2, redis-7.0,
               redis-8.2, valkey-9.1), suites (libs/claims/redis/redis-claims), or both; of
               clients their names (${Object.keys(clients).join(', ')})
  --ledger ${ledgerStoreNames.join(' | ')}
               only with this ledger; with another than ${usualLedger} on the first claim store, unless
               --only names stores
  --full       every claim store with every ledger
  --one        of generators another one every day; of stores one that is not the usual, by --seed
  --short      for a check of every change: of stores only the promises that rest on guard 1 most,
               with another ledger than usual on guard 2; of faults a storm of 15 seconds instead of 60,
               which hits every process all the same; of restore the first of its moments and fewer
               requests; of generators only the new piece's own tests;
               of two-at-once one time; of upgrade a smaller outbox and no way back; of claims-servers
               the oldest and the newest, and libs/claims/redis alone; of clients those in Python and
               TypeScript
  --times N    of two-at-once and gate how often
  --from COMMIT
               of upgrade where it begins: the oldest commit with the baselines that are here,
               unless given. \`up\` refuses a database of other baselines
  --seed N     has a storm kill, or the gate's tests begin, in the order of an earlier run, which
               printed it
  --json       prints { ok, seconds, stores: [{ claims, ledger, seconds, promises }] }, of
               two-at-once { ok, seconds, times, failed }, of claims-servers
               { ok, seconds, servers: [{ line, product, version, from, seconds, promises }],
               notTried: [{ line, why }] }, of clients
               { ok, seconds, clients: [{ client, by, seconds, failed? }],
               notTried: [{ client, why }] }, of gate
               { ok, seconds, runs: [{ seed, beside, seconds, outcome, red? }] }, or of check
               { ok, over, judged, sums, findings: [{ check, about, ids, lines, why }], torn? }
  --help
`;

await runCommand({
  name: 'prove',
  help,
  options: {
    list: { type: 'boolean' },
    only: { type: 'string' },
    ledger: { type: 'string' },
    full: { type: 'boolean' },
    short: { type: 'boolean' },
    one: { type: 'boolean' },
    seed: { type: 'string' },
    times: { type: 'string' },
    from: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 2,
  run: async ({ values, words, interrupted }) => {
    if (values.list) {
      const terminal = openTerminal({ json: values.json ?? false });
      for (const line of listCampaigns()) terminal.line(line);
      terminal.result(campaignLines);
      return;
    }
    const short = values.short ?? false;
    if (words[0] === 'check') return proveHistory(words[1], values.json ?? false);
    if (words[1] !== undefined) throw new UsageError(`unexpected argument '${words[1]}'`);
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
    if (words[0] === 'claims-servers') {
      const chosen = chooseServers({ only: values.only, short });
      const terminal = openTerminal({ json: values.json ?? false });
      const proof = await proveServers(chosen, { terminal, signal: interrupted() });
      for (const line of renderServers(proof)) terminal.line(line);
      terminal.result(proof);
      if (!proof.ok) process.exitCode = 1;
      return;
    }
    if (words[0] === 'clients') {
      const chosen = chooseClients({ only: values.only, short });
      const terminal = openTerminal({ json: values.json ?? false });
      const proof = await proveClients(chosen, { terminal, signal: interrupted() });
      for (const line of renderClients(proof)) terminal.line(line);
      terminal.result(proof);
      if (!proof.ok) process.exitCode = 1;
      return;
    }
    if (words[0] === 'two-at-once') {
      const times = chooseTimes(values.times, short ? 1 : 20);
      const terminal = openTerminal({ json: values.json ?? false });
      const proof = await proveTwoAtOnce(times, { terminal, signal: interrupted() });
      terminal.line(`${times - proof.failed.length} of ${times} held, in ${proof.seconds} s`);
      terminal.result(proof);
      if (!proof.ok) process.exitCode = 1;
      return;
    }
    if (words[0] === 'gate') {
      const times = chooseTimes(values.times, 1);
      const terminal = openTerminal({ json: values.json ?? false });
      const asked = { times, seed: chooseSeed(values.seed) };
      const proof = await proveGate(asked, { terminal, signal: interrupted() });
      const green = proof.runs.filter(({ outcome }) => outcome === 'green').length;
      terminal.line(`${green} of ${times} held, in ${proof.seconds} s`);
      terminal.result(proof);
      if (!proof.ok) process.exitCode = 1;
      return;
    }
    await proveCampaign(words[0], values, interrupted);
  },
});

/** What a campaign was asked for. */
type Asked = {
  only?: string;
  ledger?: string;
  full?: boolean;
  one?: boolean;
  short?: boolean;
  seed?: string;
  from?: string;
  json?: boolean;
};

async function proveCampaign(
  word: string | undefined,
  { full = false, one = false, short = false, json = false, ...values }: Asked,
  interrupted: () => AbortSignal,
): Promise<void> {
  const campaign = chooseCampaign(word);
  const seed = chooseSeed(values.seed);
  const { only, ledger } = one ? oneOfTheOthers(seed) : values;
  const { columns, rest } = chooseColumns(campaign, { only, ledger, full });
  const files = chooseFiles(campaign, { only: rest, short });
  const from = campaign === 'upgrade' ? { from: upgradableFrom(values.from) } : {};
  if (short) process.env['STORM_SECONDS'] = '15';
  process.env['STORM_SEED'] = String(seed);
  const terminal = openTerminal({ json });
  terminal.note(`storms of seed ${seed}: --seed ${seed} repeats their order`);
  const proof = await proveStores({ columns, files, ...from }, { terminal, signal: interrupted() });
  for (const line of renderProof(proof)) terminal.line(line);
  terminal.result(proof);
  if (!proof.ok) process.exitCode = 1;
}

/** Judges a file, and fails when it contradicts the contract or proves nothing. */
async function proveHistory(file: string | undefined, json: boolean): Promise<void> {
  if (file === undefined) throw new UsageError('name the file of a history: prove -- check FILE');
  const terminal = openTerminal({ json });
  const report = checkHistory(await readHistory(file));
  for (const line of renderHistory(report)) terminal.line(line);
  terminal.result(report);
  if (!report.ok) process.exitCode = 1;
}
