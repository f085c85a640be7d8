import type { ClaimSeen } from '@triplock/claims';
import { UsageError, wordsOf, formatSpan, count } from '@triplock/command';
import {
  type LedgerRow,
  type Receipt,
  type Operator,
  type Unasked,
  titleOfClaims,
  partOfClaims,
  tracePayment,
  type PaymentTrace,
  type ProviderObject,
  type RecordSeen,
  type RecordsSeen,
  type TransactionTrace,
} from '@triplock/inspect';
import type { Answer, Console, Route, Visit } from '../console.ts';
import { page, reading } from '../edge/route.ts';
import { html, type Html, type Shown } from '../html/html.ts';
import { deadRecord, entry, event } from './payment.ts';
import { txnIdOf } from './payment-page.ts';
import { layerTitles } from './payment-way.ts';
import * as json from '../edge/schema.ts';
import { id, money, table, time } from '../html/shown.ts';

const ledgerRow = json.shapeOf<LedgerRow>('LedgerRow', {
  kind: json.text,
  paymentId: json.orNull(json.uuid),
  partner: json.text,
  key: json.text,
  fingerprint: json.text,
  state: json.text,
  failure: json.orNull(json.text),
  amount: json.orNull(json.minorUnits),
  currency: json.orNull(json.text),
  createdAt: json.time,
  settledAt: json.orNull(json.time),
  provider: json.orNull(json.text),
  intentId: json.orNull(json.text),
  chargeId: json.orNull(json.text),
  refundId: json.orNull(json.text),
});
const claimSeen = json.shapeOf<ClaimSeen>('Claim', {
  state: json.text,
  partner: json.text,
  fingerprint: json.text,
  acceptedAt: json.time,
  leftMs: json.figure,
});
const recordSeen = json.shapeOf<RecordSeen>('RecordSeen', {
  offset: json.text,
  at: json.time,
  bytes: json.whole,
  txnId: json.optional(json.uuid),
  traceId: json.optional(json.text),
});
const recordsSeen = json.shapeOf<RecordsSeen>('RecordsSeen', {
  partition: json.whole,
  records: json.listOf(recordSeen),
  complete: json.flag,
});
const providerRow = json.named('ProviderRow', {
  type: 'object',
  description: 'what the provider has, as its journal tells it',
});
const providerObject = json.shapeOf<ProviderObject>('ProviderObject', {
  kind: json.text,
  id: json.text,
  row: json.optional(providerRow),
});
const receipt = json.shapeOf<Receipt>('Receipt', {
  id: json.text,
  partner: json.text,
  verified: json.flag,
  attempts: json.whole,
  effects: json.whole,
  type: json.text,
  firstAt: json.text,
  lastAt: json.text,
});

const transaction = {
  txnId: json.uuid,
  ledger: json.listOf(ledgerRow),
  entries: json.listOf(entry),
  events: json.listOf(event),
  deadLetters: json.listOf(deadRecord),
  claim: json.optional(claimSeen),
  receipts: json.listOf(receipt),
  provider: json.listOf(providerObject),
};
const layersOfOne = json.shapeOf<TransactionTrace>('LayersOfOne', transaction);
const layersSchema = json.shapeOf<PaymentTrace>('Layers', {
  ...transaction,
  claims: json.text,
  kafka: json.optional(recordsSeen),
  refunds: json.listOf(layersOfOne),
  ledgerUntil: json.optional(json.time),
  unasked: json.listOf(
    json.object({ part: json.text, why: json.text } satisfies Record<keyof Unasked, json.Schema>),
  ),
});

/** What the layers of a payment have: a piece of its page, and the same for programs. */
export const layersRoutes: readonly Route[] = [
  page('/payments/:id/layers', showLayers),
  reading('/payments/:id/layers', {
    operationId: 'readLayers',
    summary: 'The same as the layers themselves have it: claim, records of Kafka, provider.',
    answers: layersSchema,
    read: (console, { params }) => traceOf(console, params['id']),
  }),
];

/** How long a page may ask the layers. */
const askWithinMs = 20_000;

/** What only the layers themselves have: the claim, copies in Kafka, the provider's own word. */
async function showLayers(console: Console, { params }: Visit): Promise<Answer> {
  const answer = await traceOf(console, params['id']).catch((error: unknown) => {
    if (error instanceof UsageError) return wordsOf(error);
    throw error;
  });
  if (typeof answer === 'string') {
    return { is: 'fragment', html: html`<p class="trouble">${answer}</p>` };
  }
  return { is: 'fragment', html: layers(answer) };
}

function traceOf({ config }: Console, asked: string | undefined): Promise<PaymentTrace> {
  const signal = AbortSignal.timeout(askWithinMs);
  return tracePayment({ config, terminal: silent, signal, diagnose: nobodyKnows }, txnIdOf(asked));
}

const nobodyKnows: Operator['diagnose'] = () => Promise.resolve([]);
const nothing = () => undefined;
const silent = { line: nothing, progress: nothing, note: nothing, clear: nothing, result: nothing };

function layers(trace: PaymentTrace): Html {
  const isClaimAsked = trace.unasked.every(({ part }) => part !== partOfClaims(trace.claims));
  const rows = [
    ...(isClaimAsked ? [claimRow(trace)] : []),
    ...recordRows(trace),
    ...providerRows(trace),
    ...receiptRows(trace),
  ];
  return html`${trace.unasked.map(({ why }) => html`<p class="trouble">Not asked: ${why}</p>`)}
  ${table('What the layers have now', ['Layer', 'What it has'], { rows, empty: 'Not asked' })}`;
}

function claimRow({ claim, claims }: PaymentTrace): Shown[] {
  if (claim === undefined) {
    return [
      layerTitles.claim,
      `None in ${titleOfClaims(claims)}: expired or forgotten. The ledger still knows the key.`,
    ];
  }
  const { state, leftMs, acceptedAt } = claim;
  const at = acceptedAt && html`${time(acceptedAt, 'milliseconds')} · `;
  return [layerTitles.claim, html`${at}${state}, kept ${formatSpan(leftMs)} more`];
}

function recordRows({ txnId, kafka, ledger }: PaymentTrace): Shown[][] {
  if (kafka === undefined) return [];
  const mine = kafka.records.filter((record) => record.txnId === txnId);
  const rows = mine.map(({ at, offset }, nth): Shown[] => {
    const where = `partition ${kafka.partition}, offset ${offset}`;
    const copy = nth > 0 && html`, <b>a duplicate that guard 2 absorbs</b>`;
    return [layerTitles.kafka, html`${time(at, 'milliseconds')} · ${where}${copy}`];
  });
  // Only the ledger says which payment one follows, and so under whose id its record is.
  const none =
    ledger.length > 0
      ? 'No record any more: past its retention.'
      : 'No record: past its retention, or under the id of the payment that it follows.';
  if (mine.length === 0) rows.push([layerTitles.kafka, none]);
  if (!kafka.complete) rows.push([layerTitles.kafka, 'There is more than was read now.']);
  return rows;
}

function providerRows({ provider }: PaymentTrace): Shown[][] {
  return provider.map(({ kind, id: named, row }) => {
    if (row === undefined) return [layerTitles.provider, `no ${kind} ${named}`];
    const { status, amount, currency } = row;
    return [layerTitles.provider, html`${kind} ${id(named)} ${status}, ${money(amount, currency)}`];
  });
}

function receiptRows({ receipts }: PaymentTrace): Shown[][] {
  return receipts.map(({ id: webhook, verified, attempts, firstAt }) => [
    'Received by the partner',
    html`${time(new Date(firstAt), 'milliseconds')} · ${id(webhook)}, signature
    ${verified ? 'verified' : 'WRONG'}, ${count(attempts, 'attempt')}`,
  ]);
}
