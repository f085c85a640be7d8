import { newId, type EventRecord, type ShownRecord } from '../records.ts';
import type { Account } from '../store/account.ts';
import type { Change } from '../store/journal.ts';
import type { Answer } from '../wire/errors.ts';
import type { Params } from '../wire/params.ts';

/** What an operation works on. */
export type World = {
  readonly account: Account;
  now(): number;
  /** How long a payment in processing and a refund on its way take. */
  settleAfterMs(): number;
  /** How long what is authorised can be captured. */
  authorizedForMs(): number;
  /**
   * Where the simulator is reached, without a slash at the end: its own pages are linked from
   * there.
   */
  publicUrl(): string;
  /** How far the search is behind the lists. */
  searchLagMs(): number;
};

/** A request, as an operation sees it. `id` is the one in the path. */
export type Call = {
  readonly id: string;
  readonly params: Params;
  readonly request: NonNullable<EventRecord['request']>;
};

/** What an executed operation made; its answer is written once the change is applied. */
export type Result = { readonly change?: Change; answer(): Answer };

/**
 * Preparing is the validation: what it refuses is not kept under the key, "because no API endpoint
 * initiates the execution" (https://docs.stripe.com/api/idempotent_requests). Running is the
 * execution: it is one synchronous step, so that two requests at once see each other's result, and
 * whatever it answers is kept.
 */
export type Prepared =
  | { readonly outcome: 'refused'; readonly answer: Answer }
  | { readonly outcome: 'ready'; run(): Result };

/** One call of the API. */
export type Operation = {
  /** As in the official package: `payment_intents.confirm`. Faults are set for it by this name. */
  readonly name: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  prepare(world: World, call: Call): Prepared;
};

/** An event of this moment, about the record as it is now. */
export function happened(
  type: string,
  object: ShownRecord,
  when: { at: number; request: EventRecord['request'] },
): EventRecord {
  const id = newId('evt_');
  return { kind: 'event', id, created: when.at, type, object, request: when.request };
}

/** 200 with this body. */
export function ok(body: unknown): Answer {
  return { status: 200, body: JSON.stringify(body) };
}
