import { openSlots, shareReads } from '@triplock/runtime';
import type Stripe from 'stripe';
import { isObjectId, nextPage, type ForgottenCharge, type FoundIntent } from '@triplock/provider';
import { isAbout } from './client.ts';
import { unknownBecause } from './errors.ts';
import { stripePackage } from './package.ts';

/** What is listed and remembered at once. */
const sliceSeconds = 600;

/** Intents of ours that are remembered, some hundred bytes each, beside those of one slice. */
const rememberedMax = 100_000;

/** Ids of intents by the transaction that they carry. */
type Slice = ReadonlyMap<string, readonly string[]>;

/**
 * Looks for the intent of a charge whose idempotency key Stripe may have forgotten, by listing what
 * was created from its acceptance on: Stripe lists by no metadata, and its search lags behind
 * (docs.stripe.com/search#data-freshness). A list can be filtered by `created` in whole seconds and
 * has up to 100 a page (docs.stripe.com/api/payment_intents/list).
 *
 * A restore sets many rows back at once, and a bad minute of Stripe's leaves many charges unknown,
 * so what was listed is shared. A slice of time that is over for ten minutes by Stripe's clock gets
 * no new intent and is listed once. What follows it is listed anew by one list for all that wait
 * for it. One is listed at a time, so that charges keep most of Stripe's rate limit; a charge is
 * found in its first slice, as a rule, and one that has no intent waits until all were listed.
 */
export function openIntentFinder(
  stripe: Stripe,
): (charge: ForgottenCharge) => Promise<FoundIntent> {
  const { sliceAt, openSince } = openSlices(stripe);
  return async (charge) => {
    try {
      const from = sliceOf(charge.acceptedAt.getTime() - clocksDifferMs);
      const openFrom = sliceOf(Date.now()) - sliceSeconds;
      const slices: Slice[] = [];
      // All of them: a second intent is rare, and confirming one beside another charges twice.
      for (let at = from; at < openFrom; at += sliceSeconds) slices.push(await sliceAt(at));
      slices.push(await openSince(openFrom).catch(againUnlessTooMany(() => openSince(openFrom))));
      return await choose(
        stripe,
        charge,
        slices.flatMap((slice) => slice.get(charge.txnId) ?? []),
      );
    } catch (error) {
      return unknownBecause(error);
    }
  };
}

/**
 * One list that fails is no trouble of each who shares it: they share another. One that was turned
 * away is asked for again when its turn comes.
 */
function againUnlessTooMany<Value>(
  again: () => Promise<Value>,
): (error: unknown) => Promise<Value> {
  return async (error) => {
    if (error instanceof stripePackage().errors.StripeRateLimitError) throw error;
    return again();
  };
}

/** Where the slice begins that a time lies in, Unix seconds. */
const sliceOf = (ms: number) => Math.floor(ms / 1_000 / sliceSeconds) * sliceSeconds;

/** How far a gateway's clock may be ahead of Stripe's. */
const clocksDifferMs = 3_600_000;

type Slices = {
  /** The slice that begins at a time. */
  sliceAt(at: number): Promise<Slice>;
  /** All since a time, as of a moment after this was called. */
  openSince(at: number): Promise<Slice>;
};

function openSlices(stripe: Stripe): Slices {
  const turn = openSlots(1);
  /** In the order in which they were last asked for. */
  const remembered = new Map<number, Slice>();
  let size = 0;

  const remember = (at: number, slice: Slice) => {
    remembered.set(at, slice);
    size += slice.size;
    for (const [oldest, { size: freed }] of remembered) {
      if (size <= rememberedMax || oldest === at) break;
      remembered.delete(oldest);
      size -= freed;
    }
  };
  const inTurn = async (list: () => Promise<Slice>): Promise<Slice> => {
    await turn.take();
    try {
      return await list();
    } finally {
      turn.release();
    }
  };
  const sliceAt = async (at: number): Promise<Slice> => {
    const known = remembered.get(at);
    if (known !== undefined) {
      remembered.delete(at);
      remembered.set(at, known);
      return known;
    }
    const { slice, asOf } = await listCreated(stripe, { gte: at, lt: at + sliceSeconds });
    // By a clock of ours that is ahead of Stripe's it may be over, and get more intents.
    if (asOf >= at + 2 * sliceSeconds) remember(at, slice);
    return slice;
  };
  return {
    sliceAt: (at) => inTurn(() => sliceAt(at)),
    openSince: shareReads((at: number) =>
      inTurn(async () => (await listCreated(stripe, { gte: at })).slice),
    ),
  };
}

/** What was created in a time, and when Stripe began to list it, Unix seconds by its own clock. */
async function listCreated(
  stripe: Stripe,
  created: { gte: number; lt?: number },
): Promise<{ slice: Slice; asOf: number }> {
  const slice = new Map<string, string[]>();
  let asOf: number | undefined;
  let after: string | undefined;
  do {
    const from = after === undefined ? {} : { starting_after: after };
    const page = await stripe.paymentIntents.list({ created, limit: 100, ...from });
    // Of an answer without a date nothing is over.
    asOf ??= Date.parse(page.lastResponse.headers['date'] ?? '') / 1_000;
    for (const { id, metadata } of page.data) {
      const txnId = metadata['txn_id'];
      if (txnId === undefined) continue;
      const ids = slice.get(txnId);
      if (ids === undefined) slice.set(txnId, [id]);
      else ids.push(id);
    }
    after = nextPage({ after, more: page.has_more, last: page.data.at(-1)?.id });
  } while (after !== undefined);
  return { slice, asOf };
}

/**
 * The one of a charge's intents that decides it. At most one was ever stored and confirmed; others
 * were left by a crash, unconfirmed, or were cancelled. What ended comes before what could still
 * be confirmed, so that a charge which was refused once is not made after all.
 */
async function choose(
  stripe: Stripe,
  charge: ForgottenCharge,
  ids: readonly string[],
): Promise<FoundIntent> {
  let chosen: { intentId: string; rank: number } | undefined;
  for (const id of ids) {
    const intent: Partial<Stripe.PaymentIntent> = await stripe.paymentIntents.retrieve(id);
    if (!isObjectId(id) || intent.id !== id || !isAbout(intent, charge)) {
      const error = new Error(`intent ${id} is of this transaction and about other money`);
      return { ...unknownBecause(error), untilMended: true };
    }
    const rank = ranks.indexOf(intent.status!);
    if (chosen === undefined || rank < chosen.rank) chosen = { intentId: id, rank };
  }
  return chosen === undefined
    ? { outcome: 'none' }
    : { outcome: 'found', intentId: chosen.intentId };
}

/** From what has moved money to what has moved none; a status that is not known comes first. */
const ranks: readonly Stripe.PaymentIntent.Status[] = [
  'succeeded',
  'requires_capture',
  'processing',
  'requires_action',
  'requires_payment_method',
  'canceled',
  'requires_confirmation',
];
