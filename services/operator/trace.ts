import { parseIdempotencyKey } from '@triplock/contracts';
import { deriveTxnId, isTxnId, type PartnerId, type TxnId } from '@triplock/payments';
import { CommandError, runCommand, UsageError } from './command.ts';
import { operatorFor, type Caller } from './operator.ts';
import { isNowhere, tracePayment, type PaymentTrace } from './payment-trace.ts';
import { renderTrace } from './render-trace.ts';
import { openTerminal } from './terminal.ts';

const help = `
npm run trace -- ID [options]
npm run trace -- PARTNER KEY [options]

Follows one payment with its refunds, by its id or by its partner and idempotency key, or one refund,
by its id, through every layer: claim, Kafka records, ledger, provider, outbox, published copies,
inbox, delivery and webhook, in order of time. A part that does not answer is named, and the rest is
shown. Exit code 1 when no layer knows it, 2 when the system is not up, or when no layer that could
be asked knows it.

  --home DIR   the instance on this machine (.triplock); elsewhere the settings say which system
  --json       prints everything that was found
  --help

DATABASE_URL         the database; it is only read, so triplock_auditor will do
KAFKA_BROKERS        some brokers
CLAIMS               the claim store, by the gateways' own settings: redis (default), postgres, hybrid or
                     dynamodb, with REDIS_URL, CLAIMS_DATABASE_URL or DYNAMODB_REGION
STRIPE_API_KEY       a key that only reads; without one the provider is not asked
`;

/** `trace`: one payment through all layers, with times. */
export function trace(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'trace',
      help,
      options: { json: { type: 'boolean' } },
      wordsMax: 2,
      run: async ({ values, words, interrupted }) => {
        const txnId = txnIdFrom(words);
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        const found = await tracePayment(operator, txnId);
        if (isNowhere(found)) refuse(found);
        for (const line of renderTrace(found)) terminal.line(line);
        terminal.result(found);
      },
    },
    caller.args,
  );
}

/**
 * The payment that the words of a command name: an id, or a partner and an idempotency key.
 *
 * @throws UsageError when they are neither.
 */
export function txnIdFrom([first, key]: readonly string[]): TxnId {
  if (first === undefined) throw new UsageError('give an id, or a partner and a key');
  if (key === undefined) {
    if (isTxnId(first)) return first;
    throw new UsageError(`'${first}' is not an id: give the id of a 202, or a partner and a key`);
  }
  const parsed = parseIdempotencyKey([key]);
  if (parsed.outcome === 'key') return deriveTxnId('payment', first as PartnerId, parsed.key);
  throw new UsageError(`'${key}' is not an idempotency key`);
}

function refuse({ txnId, unasked }: PaymentTrace): never {
  const nowhere = `no layer knows ${txnId}: no claim, no record, no row`;
  if (unasked.length === 0) throw new CommandError(nowhere);
  const why = unasked.map((each) => each.why);
  throw new UsageError([`no layer that could be asked knows ${txnId}`, ...why].join('\n'));
}
