import { openSlots } from '@triplock/runtime';
import type Stripe from 'stripe';
import {
  callersKnownMs,
  chargedByThenMs,
  isObjectId,
  type ForgottenCharge,
  type FoundIntent,
} from '@triplock/provider';
import { isAbout } from './client.ts';
import { unknownBecause } from './errors.ts';

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
 * A restore sets many rows back at once, so what was listed is shared. A slice of time that is over
 * for ten minutes gets no new intent and is listed once. One is listed at a time, so that charges
 * keep most of Stripe's rate limit; a charge is found in its first slice, as a rule, and one that
 * has no intent waits until all were listed.
 */
export function openIntentFinder(
  stripe: Stripe,
): (charge: ForgottenCharge) => Promise<FoundIntent> {
  const sliceAt = openSlices(stripe);
  return async (charge) => {
    try {
      const { from, until, openFrom } = timesOf(charge.acceptedAt.getTime(), Date.now());
      const slices: Slice[] = [];
      // All of them: a second intent is rare, and confirming one beside another charges twice.
      for (let at = from; at < Math.min(until, openFrom); at += sliceSeconds) {
        slices.push(await sliceAt(at));
      }
      if (until > openFrom) {
        slices.push(await listSince(stripe, { gte: Math.min(from, openFrom) }));
      }
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

/** Where the slice begins that a time lies in, Unix seconds. */
const sliceOf = (ms: number) => Math.floor(ms / 1_000 / sliceSeconds) * sliceSeconds;

/** How far the gateways' clocks, ours and Stripe's may differ. */
const clocksDifferMs = 3_600_000;

/**
 * What is listed: whatever was made in one call, and whatever was prepared so long ago that its key
 * may be forgotten. From `openFrom` on more may be made, and the list has no end.
 */
function timesOf(acceptedMs: number, nowMs: number) {
  const listedMs = Math.max(acceptedMs + chargedByThenMs, nowMs - callersKnownMs);
  return {
    from: sliceOf(acceptedMs - clocksDifferMs),
    until: sliceOf(listedMs + clocksDifferMs),
    openFrom: sliceOf(nowMs) - sliceSeconds,
  };
}

function openSlices(stripe: Stripe): (at: number) => Promise<Slice> {
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
  return async (at) => {
    await turn.take();
    try {
      const known = remembered.get(at);
      if (known !== undefined) {
        remembered.delete(at);
        remembered.set(at, known);
        return known;
      }
      const slice = await listSince(stripe, { gte: at, lt: at + sliceSeconds });
      remember(at, slice);
      return slice;
    } finally {
      turn.release();
    }
  };
}

async function listSince(stripe: Stripe, created: { gte: number; lt?: number }): Promise<Slice> {
  const slice = new Map<string, string[]>();
  for await (const { id, metadata } of stripe.paymentIntents.list({ created, limit: 100 })) {
    const txnId = metadata['txn_id'];
    if (txnId === undefined) continue;
    const ids = slice.get(txnId);
    if (ids === undefined) slice.set(txnId, [id]);
    else ids.push(id);
  }
  return slice;
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
