import { LauncherError, runCommand } from '@triplock/infra';
import { withParts } from './needed-parts.ts';
import { findSystem } from './system.ts';
import { openTerminal } from './terminal/terminal.ts';
import { renderTrace } from './trace/print-trace.ts';
import { tracePayment } from './trace/trace-payment.ts';
import { txnIdFrom } from './trace/txn-id-from.ts';

const help = `
npm run trace -- ID [options]
npm run trace -- PARTNER KEY [options]

Follows one payment, by its id or by its partner and idempotency key, through every layer: claim,
Kafka records, ledger, outbox, published copies, inbox, delivery and webhook, in order of time. Exit
code 1 when no layer knows it, 2 when the system or a part of it is not up.

  --home DIR   the instance (.triplock)
  --json       prints everything that was found
  --help
`;

await runCommand({
  name: 'trace',
  help,
  options: { home: { type: 'string' }, json: { type: 'boolean' } },
  wordsMax: 2,
  run: async ({ values, words, interrupted }) => {
    const txnId = txnIdFrom(words);
    const terminal = openTerminal({ json: values.json ?? false });
    const system = await findSystem(values.home, { terminal, signal: interrupted() });
    try {
      const inRedis = system.endpoints.claims === 'redis';
      const needed = [
        'postgres',
        'kafka',
        ...(inRedis ? (['redis'] as const) : []),
        'catcher',
      ] as const;
      const trace = await withParts(system, needed, () => tracePayment(system, txnId));
      if (trace === undefined) {
        throw new LauncherError(`no layer knows ${txnId}: no claim, no record, no row`);
      }
      for (const line of renderTrace(trace)) terminal.line(line);
      terminal.result(trace);
    } finally {
      await system.close();
    }
  },
});
