import { LauncherError, runCommand, UsageError } from '@triplock/launcher';
import { findSystem } from './system.ts';
import { openTerminal } from './terminal/terminal.ts';
import { renderTrace } from './trace/print-trace.ts';
import { isNowhere, tracePayment, type PaymentTrace } from './trace/trace-payment.ts';
import { txnIdFrom } from './trace/txn-id-from.ts';

const help = `
npm run trace -- ID [options]
npm run trace -- PARTNER KEY [options]

Follows one payment with its refunds, by its id or by its partner and idempotency key, or one refund,
by its id, through every layer: claim, Kafka records, ledger, provider, outbox, published copies,
inbox, delivery and webhook, in order of time. A part that is away is named, and the rest is shown.
Exit code 1 when no layer knows it, 2 when the system is not up, or when no layer that could be asked
knows it.

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
      const trace = await tracePayment(system, txnId);
      if (isNowhere(trace)) refuse(trace);
      for (const line of renderTrace(trace)) terminal.line(line);
      terminal.result(trace);
    } finally {
      await system.close();
    }
  },
});

function refuse({ txnId, unasked }: PaymentTrace): never {
  const nowhere = `no layer knows ${txnId}: no claim, no record, no row`;
  if (unasked.length === 0) throw new LauncherError(nowhere);
  const why = unasked.map((each) => each.why);
  throw new UsageError([`no layer that could be asked knows ${txnId}`, ...why].join('\n'));
}
