import {
  claimStoreNames,
  partOfClaims,
  tracePayment,
  type PaymentTrace,
} from '../payment-trace.ts';
import { UsageError, wordsOf } from '../command.ts';
import type { Operator } from '../operator.ts';
import { formatSpan } from '../terminal.ts';
import type { Answer, Console, Visit } from './console.ts';
import { html, type Html, type Shown } from './html.ts';
import { txnIdOf } from './payment-page.ts';
import { id, money, table, time } from './shown.ts';
import { words } from './words.ts';

const say = words.payment;

/** How long a page may ask the layers. */
const askWithinMs = 20_000;

/** What only the layers themselves have: the claim, copies in Kafka, the provider's own word. */
export async function readLayers(console: Console, { params }: Visit): Promise<Answer> {
  return { is: 'json', body: await traceOf(console, params['id']) };
}

/** The same as a piece of the payment's page. */
export async function showLayers(console: Console, { params }: Visit): Promise<Answer> {
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
  return html`${trace.unasked.map(
    ({ why }) => html`<p class="trouble">${say.notAsked}: ${why}</p>`,
  )}
  ${table(say.layersNow, say.layerHeads, { rows, empty: say.notAsked })}`;
}

function claimRow({ claim, claims }: PaymentTrace): Shown[] {
  if (claim === undefined) return [say.layers.claim, say.noClaim(claimStoreNames[claims])];
  const { state, leftMs, acceptedAt } = claim;
  const at = acceptedAt && html`${time(acceptedAt, 'milliseconds')} · `;
  return [say.layers.claim, html`${at}${say.claim(state, formatSpan(leftMs))}`];
}

function recordRows({ txnId, kafka }: PaymentTrace): Shown[][] {
  if (kafka === undefined) return [];
  const mine = kafka.records.filter((record) => record.txnId === txnId);
  const rows = mine.map(({ at, offset }, nth): Shown[] => {
    const where = say.recordSeen(kafka.partition, offset);
    const copy = nth > 0 && html`, <b>${say.duplicate}</b>`;
    return [say.layers.kafka, html`${time(at, 'milliseconds')} · ${where}${copy}`];
  });
  if (mine.length === 0) rows.push([say.layers.kafka, say.noRecords]);
  if (!kafka.complete) rows.push([say.layers.kafka, say.moreRecords]);
  return rows;
}

function providerRows({ provider }: PaymentTrace): Shown[][] {
  return provider.map(({ kind, id: named, row }) => {
    if (row === undefined) return [say.layers.provider, say.nothingAtProvider(kind, named)];
    const { status, amount, currency } = row;
    return [say.layers.provider, html`${kind} ${id(named)} ${status}, ${money(amount, currency)}`];
  });
}

function receiptRows({ receipts }: PaymentTrace): Shown[][] {
  return receipts.map(({ id: webhook, verified, attempts, firstAt }) => [
    say.receiver,
    html`${time(new Date(firstAt), 'milliseconds')} · ${id(webhook)},
    ${say.received(verified, attempts)}`,
  ]);
}
