import { loadStatements, type Queryable } from '@triplock/postgres';
import {
  type IdempotencyKey,
  type PartnerId,
  type ProviderName,
  type TxnId,
  formatMoney,
} from '@triplock/payments';
import type { IntentOutcome, IntentQuery, Provider, RefundRequest } from '@triplock/provider';
import { findProvider, lacking, openProvider, type AccountSettings } from '@triplock/providers';
import { CommandError, wordsOf } from '@triplock/command';
import { recordGiveBack, type Actor } from './operator-acts.ts';

const sql = loadStatements(import.meta.url, 'give-back.sql', ['readPayment']);

/** Longer than a slow provider takes for a refund. */
const timeoutMs = 30_000;

/** Opens providers by keys that may refund charges and cancel intents. */
export type Giver = (provider: ProviderName) => Promise<Provider>;

/** @param missing throws what says that these settings are to be given. */
export function openGiver(
  accounts: AccountSettings,
  missing: (settings: readonly string[]) => never,
): Giver {
  return async (provider) => {
    const name = findProvider(provider);
    if (name === undefined) throw new CommandError(`there is no provider ${provider} here`);
    const lacks = lacking(name, accounts);
    if (lacks.length > 0) missing(lacks);
    return openProvider(name, accounts, { timeoutMs });
  };
}

/**
 * What the provider has of a payment that has ended without it: each of its intents, and what is to
 * be done about it. Nothing is changed.
 *
 * @throws CommandError for what no provider charges, or has not ended; UnknownOutcomeError when
 * nobody knows how an intent is; what the giver throws.
 */
export async function findToGiveBack(
  database: Queryable,
  giver: Giver,
  id: TxnId,
): Promise<ToDo[]> {
  const payment = await readPayment(database, id);
  const provider = await giver(payment.provider);
  return Promise.all(payment.intents.map((intentId) => lookAt(provider, payment, intentId)));
}

/**
 * Records who gives back what an intent has, and why, and then has the provider do it: what was
 * begun is known also when this dies half way. Done twice it gives nothing back twice.
 *
 * @throws UnknownOutcomeError when nobody knows what became of it; CommandError when it was not
 * given back.
 */
export async function giveBackOne(
  database: Queryable,
  { giver, txnId }: { giver: Giver; txnId: TxnId },
  todo: Doable,
  actor: Actor,
): Promise<void> {
  await recordGiveBack(database, { txnId, intentId: todo.intentId }, actor);
  await carryOut(await giver(todo.provider), todo);
}

type PaymentRow = {
  txnId: TxnId;
  /** Who charges it. */
  provider: ProviderName;
  partnerId: PartnerId;
  state: string;
  /** Minor units. */
  amount: bigint;
  currency: string;
  /** The one that it names. */
  intentId: string | null;
  /** That one, and every other of which the provider says that it is of this payment. */
  intents: string[];
};

/** @throws CommandError for what no provider charges, or has not ended. */
async function readPayment(database: Queryable, id: TxnId): Promise<PaymentRow> {
  const [row] = await database.query<PaymentRow>(sql.readPayment, [id]);
  if (row === undefined)
    throw new CommandError(`${id} is no payment of this ledger that a provider charges`);
  if (row.state !== 'pending') return row;
  throw new CommandError(`${id} is pending: the workers bring it to its end`);
}

/** What is to be done about an intent, and how to ask for it. */
export type ToDo = { provider: ProviderName; intentId: string; why: string } & (
  | { act: 'none' }
  | { act: 'cancel'; intent: IntentQuery }
  | { act: 'refund'; request: RefundRequest }
);

/** What there is something to do about. */
export type Doable = Exclude<ToDo, { act: 'none' }>;

/** @throws UnknownOutcomeError when nobody knows how the intent is. */
async function lookAt(provider: Provider, payment: PaymentRow, intentId: string): Promise<ToDo> {
  const at = { provider: payment.provider, intentId };
  const { txnId, amount, currency, state } = payment;
  const intent = { txnId, intentId, money: { amount, currency } as IntentQuery['money'] };
  const isPaidBy = intentId === payment.intentId && ['succeeded', 'captured'].includes(state);
  if (isPaidBy) return { ...at, act: 'none', why: 'paid the payment' };
  const seen = await provider.readIntent(intent);
  switch (seen.outcome) {
    case 'succeeded': {
      const request = refundOf(payment, intent, seen.received);
      const found = await provider.findRefund(request);
      if (found.outcome === 'unknown') throw unknown(intentId, found.error);
      const taken = `took ${formatMoney(seen.received, currency)}`;
      if (found.outcome === 'none' || found.outcome === 'refused') {
        return { ...at, act: 'refund', request, why: `${taken}: to be refunded` };
      }
      // Asked for again, so that the act is recorded where a crash or a restore left it out.
      return { ...at, act: 'refund', request, why: `${taken}, and it was given back` };
    }
    case 'authorized':
    case 'reopened':
    case 'unconfirmed':
      return { ...at, act: 'cancel', intent, why: `${states[seen.outcome]}: to be cancelled` };
    case 'waiting': {
      const why = `waits for its ${seen.waitsFor}`;
      if (seen.waitsFor === 'provider') return { ...at, act: 'none', why };
      return { ...at, act: 'cancel', intent, why: `${why}: to be cancelled` };
    }
    case 'declined':
      return { ...at, act: 'none', why: 'is cancelled' };
    case 'unknown':
      throw unknown(intentId, seen.error);
    default:
      return seen satisfies never;
  }
}

const states = {
  authorized: 'holds the money',
  reopened: 'was refused and may be confirmed again',
  unconfirmed: 'may be confirmed',
} as const;

/**
 * It carries the payment's own id: no refund of a partner's does. The key is the intent's, so two
 * who do this at once give back once; later the list of refunds is looked through.
 */
function refundOf(
  { txnId, partnerId, currency }: PaymentRow,
  { intentId }: IntentQuery,
  amount: bigint,
): RefundRequest {
  const key = `give-back:${intentId}` as IdempotencyKey;
  const money = { amount, currency } as RefundRequest['money'];
  return { txnId, kind: 'refund', partnerId, key, intentId, money };
}

/** @throws CommandError when it was not given back; UnknownOutcomeError when nobody knows. */
async function carryOut(provider: Provider, todo: Doable): Promise<void> {
  const { intentId } = todo;
  if (todo.act === 'cancel') {
    const ended: IntentOutcome = await provider.cancelIntent(todo.intent);
    if (ended.outcome === 'declined') return;
    if (ended.outcome === 'unknown') throw unknown(intentId, ended.error);
    throw new CommandError(`${intentId} is ${ended.outcome} by now: look at it again`);
  }
  const found = await provider.findRefund(todo.request);
  const made = found.outcome === 'none' ? await provider.refund(todo.request) : found;
  switch (made.outcome) {
    case 'succeeded':
    case 'waiting':
      return;
    case 'refused':
      throw new CommandError(`${intentId} could not be refunded: ${made.failure.message}`);
    case 'unknown':
      throw unknown(intentId, made.error);
    default:
      return made satisfies never;
  }
}

/** Nobody knows what the provider has, or made of what it was asked for: it is to be done again. */
export class UnknownOutcomeError extends CommandError {}

function unknown(intentId: string, error: unknown): UnknownOutcomeError {
  const text = `nobody knows how ${intentId} is: ${wordsOf(error)}. Do it again`;
  return new UnknownOutcomeError(text, { cause: error });
}
