import { keepingStores } from '@triplock/claim-stores';
import { parseIdempotencyKey } from '@triplock/contracts';
import {
  deriveTxnId,
  isTxnId,
  transactionKinds,
  type PartnerId,
  type TxnId,
  formatMoney,
} from '@triplock/payments';
import {
  CommandError,
  isMissing,
  runCommand,
  UsageError,
  count,
  formatSpan,
  openTerminal,
  renderTable,
  style,
} from '@triplock/command';
import { consumers } from '@triplock/pipeline';
import {
  describeCopyUntil,
  type EventRow,
  operatorFor,
  type Caller,
  titleOfClaims,
  isNowhere,
  partOfClaims,
  traceKnown,
  type PaymentTrace,
  type RecordsSeen,
  type TransactionTrace,
} from '@triplock/inspect';

const help = `
npm run trace -- ID [options]
npm run trace -- PARTNER KEY [options]

Follows one payment with all that followed it, or one refund, capture or cancellation, by its id or
by its partner and idempotency key, through every layer: claim, Kafka records, ledger, provider,
outbox, published copies, inbox, delivery and webhook, in order of time. A key may be that of one of
each kind, and each is shown. A part that does not answer is named, and the rest is shown. Exit code
1 when no layer knows it, 2 when the system is not up, or when no layer that could be asked knows it.

  --home DIR   the instance on this machine (.triplock); elsewhere the settings say which system
  --json       prints everything that was found; what else has the key is in sameKey
  --help

DATABASE_URL         the database; it is only read, so triplock_auditor will do
KAFKA_BROKERS        some brokers
KAFKA_TLS, KAFKA_USERNAME, KAFKA_PASSWORD, KAFKA_SASL  how this logs in to them
CLAIMS               the claim store, ${keepingStores.join(', ')}; with its own settings, as the gateways have
                     them (docs/stores.md)
STRIPE_API_KEY       a key that only reads; without one the provider is not asked
`;

/** `trace`: one payment, or what followed one, through all layers, with times. */
export function trace(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'trace',
      help,
      options: { json: { type: 'boolean' } },
      wordsMax: 2,
      run: async ({ values, words, interrupted }) => {
        const txnIds = txnIdsFrom(words);
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        const [first, ...sameKey] = await traceKnown(operator, txnIds);
        if (isNowhere(first)) refuse(first, words);
        for (const [n, found] of [first, ...sameKey].entries()) {
          if (n > 0) terminal.line('');
          for (const line of renderTrace(found)) terminal.line(line);
        }
        terminal.result({ ...first, sameKey });
      },
    },
    caller.args,
  );
}

/**
 * What the words of a command name: an id, or a partner and an idempotency key, which may be that
 * of one of each kind.
 *
 * @throws UsageError when they are neither.
 */
export function txnIdsFrom([first, key]: readonly string[]): [TxnId, ...TxnId[]] {
  if (first === undefined) throw isMissing('an id', 'that of a 202, or a partner and a key');
  if (key === undefined) {
    if (isTxnId(first)) return [first];
    throw new UsageError(`'${first}' is not an id: give the id of a 202, or a partner and a key`);
  }
  const parsed = parseIdempotencyKey([key]);
  if (parsed.outcome !== 'key') {
    throw new UsageError(`'${key}' is not an idempotency key: give 1 to 255 printable characters`);
  }
  const [payment, ...others] = transactionKinds.map((kind) =>
    deriveTxnId(kind, first as PartnerId, parsed.key),
  );
  return [payment!, ...others];
}

function refuse({ txnId, unasked }: PaymentTrace, [partner, key]: readonly string[]): never {
  const what =
    key === undefined ? txnId : `a ${transactionKinds.join(', ')} of ${partner} by the key ${key}`;
  const nowhere = `no layer knows ${what}: no claim, no record, no row`;
  if (unasked.length === 0) throw new CommandError(nowhere);
  const why = unasked.map((each) => each.why);
  throw new UsageError([`no layer that could be asked knows ${what}`, ...why].join('\n'));
}

/** Something that happened to the payment, or that a layer has of it. */
type Line = { at: Date | null; layer: string; what: string };

/**
 * The way of a payment and its refunds in order of time, each step with the time since the payment
 * was accepted. What has no time stays behind the layer before it.
 */
export function renderTrace(trace: PaymentTrace): string[] {
  const start = trace.ledger[0]?.createdAt ?? trace.claim?.acceptedAt;
  const lines = [
    ...linesOf(trace, trace),
    ...trace.refunds.flatMap((refund) => {
      const kind = refund.ledger[0]?.kind ?? 'refund';
      return linesOf(refund, trace).map((line) => ({ ...line, layer: `${kind}: ${line.layer}` }));
    }),
  ];
  const rows = inOrderOfTime(lines).map(({ at, layer, what }) => {
    return [timeOf(at), sinceStart(at, start), style.name(layer), what];
  });
  const columns = [
    { head: 'time (UTC)' },
    { head: 'after', align: 'right' as const },
    { head: 'layer' },
    { head: 'what it has' },
  ];
  const unasked = trace.unasked.map(({ why }) => style.bad(`not asked: ${why}`));
  return [
    ...renderHead(trace),
    ...traceLines(trace),
    ...unasked,
    ...(trace.ledgerUntil === undefined ? [] : [style.bad(describeCopyUntil(trace.ledgerUntil))]),
    '',
    ...renderTable(columns, rows),
  ];
}

/** What all transactions of a trace have in common. */
type Around = Pick<PaymentTrace, 'kafka' | 'claims' | 'unasked'>;

/** What one transaction left in the layers; one that was not asked has none. */
function linesOf(trace: TransactionTrace, { kafka, claims, unasked }: Around): Line[] {
  const isAsked = (name: string) => unasked.every(({ part }) => part !== name);
  return [
    ...(isAsked(partOfClaims(claims)) ? [claimLine(trace, claims)] : []),
    ...(kafka === undefined ? [] : recordLines(trace, kafka)),
    ...(isAsked('postgres') ? ledgerLines(trace) : []),
    ...providerLines(trace),
    ...trace.events.flatMap(eventLines),
    ...receiptLines(trace),
    ...trace.deadLetters.map(({ reason, partition, offset, at }) => {
      const what = `${reason}, partition ${partition}, offset ${offset}`;
      return { at, layer: 'dead letter', what };
    }),
  ];
}

function providerLines({ provider }: TransactionTrace): Line[] {
  const layer = 'provider';
  return provider.map(({ kind, id, row }) => {
    if (row === undefined) return { at: null, layer, what: `no ${kind} ${id}` };
    const { status, amount, currency } = row;
    // Its times are whole seconds, which would put it before what caused it.
    return { at: null, layer, what: `${kind} ${id} ${status}, ${formatMoney(amount, currency)}` };
  });
}

/**
 * Layers have clocks and moments of their own: an inbox row may be older than the auditor's look.
 */
function inOrderOfTime(lines: readonly Line[]): Line[] {
  let latest = 0;
  const dated = lines.map((line) => ({ line, at: (latest = line.at?.getTime() ?? latest) }));
  return dated.sort((one, other) => one.at - other.at).map(({ line }) => line);
}

function renderHead({ txnId, ledger, refunds, unasked }: PaymentTrace): string[] {
  const [row] = ledger;
  if (row === undefined) {
    const isAsked = unasked.every(({ part }) => part !== 'postgres');
    return [isAsked ? `${style.title(txnId)} is not in the ledger` : style.title(txnId)];
  }
  const { kind, paymentId, partner, key, amount, currency, state } = row;
  const money =
    amount === null || currency === null ? 'no amount yet' : formatMoney(amount, currency);
  const about = [partner, key, money, state].join(' · ');
  const head = `${style.title(txnId)} · ${about}`;
  if (paymentId !== null) return [head, `a ${kind} of ${paymentId}`];
  return [head, ...refunds.map((refund) => describeRefund(refund))];
}

/** Where its spans are, if any were sent (docs/observability.md); a duplicate has its own. */
function traceLines({ txnId, kafka, events }: PaymentTrace): string[] {
  const records = kafka?.records.filter((record) => record.txnId === txnId) ?? [];
  const traceIds = new Set([...records, ...events].flatMap(({ traceId }) => traceId ?? []));
  return [...traceIds].map((traceId) => `trace ${traceId}`);
}

function describeRefund({ txnId, ledger: [row] }: TransactionTrace): string {
  if (row === undefined) return `refund ${txnId}`;
  const { kind, amount, currency, state, failure } = row;
  const money = amount === null || currency === null ? [] : [formatMoney(amount, currency)];
  const end = failure === null ? state : `${state}: ${failure}`;
  return [`${kind} ${txnId}`, ...money, end].join(' · ');
}

function claimLine({ claim }: TransactionTrace, claims: PaymentTrace['claims']): Line {
  const layer = 'guard 1 claim';
  if (claim === undefined) {
    const what = `none in ${titleOfClaims(claims)}: expired or forgotten`;
    return { at: null, layer, what };
  }
  const { state, leftMs, acceptedAt } = claim;
  return { at: acceptedAt, layer, what: `${state}, kept ${formatSpan(leftMs)} more` };
}

function recordLines(
  { txnId, ledger }: TransactionTrace,
  { partition, records, complete }: RecordsSeen,
): Line[] {
  const layer = 'Kafka';
  const mine = records.filter((record) => record.txnId === txnId);
  const found = mine.map(({ at, offset }, index) => {
    const which = index === 0 ? '' : ' (a duplicate that guard 2 absorbs)';
    return { at, layer, what: `partition ${partition}, offset ${offset}${which}` };
  });
  if (!complete) found.push({ at: new Date(), layer, what: 'there is more than was read now' });
  if (found.length > 0) return found;
  // Only the ledger says which payment one follows, and so under whose id its record is.
  const why =
    ledger.length > 0
      ? 'past its retention'
      : 'past its retention, or under the id of the payment that it follows';
  return [{ at: null, layer, what: `none in partition ${partition}: ${why}` }];
}

function ledgerLines({ ledger, entries }: TransactionTrace): Line[] {
  const layer = 'guard 2 ledger';
  if (ledger.length === 0) return [{ at: null, layer, what: 'no row' }];
  return [
    ...ledger.map(({ state, settledAt }) => ({ at: settledAt, layer, what: state })),
    ...entries.map(({ debit, credit, amount, currency, at }) => {
      return { at, layer, what: `${debit} → ${credit} ${formatMoney(amount, currency)}` };
    }),
  ];
}

function eventLines(event: EventRow): Line[] {
  const { eventId, type, sequence, state, copies, altered } = event;
  const number = sequence === null ? '' : `, sequence ${sequence}`;
  const changed = altered === 0 ? '' : `, ${altered} of them ALTERED`;
  const seen = `${count(copies, 'copy', 'copies')} seen${changed}`;
  const last = copies > 1 && event.lastSeenAt ? `, last ${timeOf(event.lastSeenAt)}` : '';
  const sent = `${event.delivery ?? 'none'}, ${count(event.attempts, 'attempt')}`;
  return [
    {
      at: event.publishedAt ?? event.createdAt,
      layer: 'outbox',
      what: `${type} ${state}${number}`,
    },
    { at: event.firstSeenAt, layer: 'Pub/Sub', what: `${seen} of event ${eventId}${last}` },
    ...consumers.map(({ trace }) => ({
      at: event[trace.receivedAt],
      layer: trace.layer,
      what: inboxOf(event[trace.rows], { isApplied: event[trace.isPast] }),
    })),
    { at: event.deliveredAt, layer: 'delivery', what: sent },
  ];
}

/** Inbox rows leave after a month; what was applied and the cursor stay. */
function inboxOf(rows: number, { isApplied }: { isApplied: boolean }): string {
  if (rows > 0) return `${count(rows, 'row')}, so ${count(rows, 'effect')}`;
  return isApplied ? 'row gone by age, its effect stays' : 'not there yet';
}

function receiptLines({ receipts }: TransactionTrace): Line[] {
  return receipts.map(({ id, verified, attempts, firstAt }) => {
    const signature = verified ? 'signature verified' : 'signature WRONG';
    const what = `${id}, ${signature}, ${count(attempts, 'attempt')}`;
    return { at: new Date(firstAt), layer: 'webhook', what };
  });
}

function timeOf(at: Date | null): string {
  return at === null ? '–' : at.toISOString().slice(11, 23);
}

function sinceStart(at: Date | null, start: Date | undefined): string {
  if (at === null || start === undefined) return '';
  return `+${formatSpan(Math.max(0, at.getTime() - start.getTime()))}`;
}
