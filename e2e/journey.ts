import { join, resolve } from 'node:path';
import { bringUp, runCommand, takeDown, withLock, type Endpoints } from '@triplock/launcher';
import { openTerminal } from '@triplock/command';
import {
  type PaymentKind,
  type RanFiles,
  countingSettings,
  distinct,
  followNobody,
  followPayment,
  pageFiles,
  untrueSteps,
} from './journey/payment-files.ts';

const help = `
npm run journey -- [options]

Shows which files run for one payment, from the request to the partner's answer to the webhook: for
a book transfer and for a card. A system of its own comes up, empty, one of each service; V8 counts
which functions run. Loops that also run while nobody pays are left out; they are listed.
Exit code 1 when more files run than may, or when docs/journey.md names a step that did not happen.

  --json  prints { ok, problems, limits, loops, transfer, card }
  --help
`;

/** Most files that one payment may run through; who reaches it merges what is one subject. */
const limits: Readonly<Record<PaymentKind, number>> = { transfer: 58, card: 74 };

/** Left out: each runs by the clock whether somebody pays or not. */
const loops: readonly string[] = [
  // Runs the passes of every service.
  'libs/runtime/loop.ts',
  // Looks for pending transactions that no worker finished in time.
  'services/ledger-worker/resolver.ts',
  // Looks each second whether the ledger is on a server that is known.
  'services/ledger-worker/continuity.ts',
  'libs/ledger/postgres/continuity.ts',
  // Asked by each pass of the resolver whether the provider is left alone.
  'libs/provider/circuit-breaker.ts',
  // Asked by each pass how many the provider takes just now.
  'libs/provider/pace.ts',
  // Renews the dispatcher's leases, measures its backlog, and removes events by age.
  'services/outbox-dispatcher/upkeep.ts',
  // Renews what reads show of payments that the ledger does not have yet.
  'services/ingest-gateway/accept/unposted.ts',
  // Looks whether claims were lost, and reads back from the ledger which keys were used.
  'services/ingest-gateway/accept/read-back.ts',
  // Follows the connections of every port, those of the readiness probes too.
  'libs/runtime/http-connections.ts',
  // Measures what is still to be delivered, and removes what was kept for long enough.
  'services/partner-notifier/upkeep.ts',
  // Looks for what nobody tells the notifier of: webhooks due again, endpoints that were set.
  'services/partner-notifier/main.ts',
];

await runCommand({
  name: 'journey',
  help,
  options: { json: { type: 'boolean' } },
  run: async ({ values, interrupted }) => {
    const terminal = openTerminal({ json: values.json ?? false });
    const signal = interrupted();
    const report = (line: string) => terminal.progress(line);
    const home = resolve(import.meta.dirname, '../.triplock/journey');
    const folder = join(home, 'coverage');
    const journey = await withLock(`${home}.lock`, { report, signal }, async () => {
      await takeDown({ home, data: 'forget', report });
      const settings = countingSettings(folder);
      try {
        const wanted = { home, replicas: 1, parts: 'native', settings } as const;
        const system = await bringUp({ ...wanted, report, signal });
        await holdReports(system);
        terminal.progress('one payment of each kind, and nobody');
        return await measure({ system, folder });
      } finally {
        await takeDown({ home, data: 'forget', report });
        terminal.clear();
      }
    });
    for (const line of render(journey)) terminal.line(line);
    terminal.result(journey);
    if (!journey.ok) process.exitCode = 1;
  },
});

/**
 * The provider reports each card that it has charged, which ends nothing that its answer has not:
 * it comes while the card is followed or after that, by how busy the machine is.
 */
async function holdReports({ stripe, controlToken }: Endpoints): Promise<void> {
  const answer = await fetch(`${stripe}/_simulator/webhooks`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${controlToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ paused: true }),
  });
  if (!answer.ok) throw new Error(`the Stripe simulator answers ${await answer.text()}`);
}

type Journey = Awaited<ReturnType<typeof measure>>;

async function measure(counted: Parameters<typeof followPayment>[0]) {
  const ran = {
    transfer: withoutLoops(await followPayment(counted, 'transfer')),
    card: withoutLoops(await followPayment(counted, 'card')),
  };
  const idle = distinct(await followNobody(counted));
  const problems = [
    ...loops
      .filter((file) => !idle.has(file))
      .map((file) => `e2e/journey.ts: ${file} does not run while nobody pays: no loop`),
    ...(['transfer', 'card'] as const)
      .filter((kind) => distinct(ran[kind]).size > limits[kind])
      .map(
        (kind) => `${distinct(ran[kind]).size} files run for a ${kind}, at most ${limits[kind]}`,
      ),
    ...untrueSteps(pageFiles(), ran.transfer),
  ];
  return { ok: problems.length === 0, problems, limits, loops, ...ran };
}

function withoutLoops(ran: RanFiles): RanFiles {
  const kept = Object.entries(ran).map(([service, files]) => [
    service,
    files.filter((file) => !loops.includes(file)),
  ]);
  return Object.fromEntries(kept) as RanFiles;
}

function render({ transfer, card, problems }: Journey): string[] {
  const more = [...distinct(card)].filter((file) => !distinct(transfer).has(file)).sort();
  const indented = (files: readonly string[]) => files.map((file) => `  ${file}`);
  return [
    ...Object.entries(transfer).flatMap(([service, files]) => [
      `${service}: ${files.length} files`,
      ...indented(files),
    ]),
    `a card besides: ${more.length} files`,
    ...indented(more),
    'left out, because they run while nobody pays:',
    ...indented(loops),
    `book transfer: ${distinct(transfer).size} files of at most ${limits.transfer}`,
    `card payment: ${distinct(card).size} files of at most ${limits.card}`,
    ...problems,
  ];
}
