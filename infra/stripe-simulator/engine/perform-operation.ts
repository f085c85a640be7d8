import { setTimeout as delay } from 'node:timers/promises';
import type { Fault } from '../faults/faults.ts';
import { drawLatencyMs } from '../faults/latency.ts';
import type { Call, Operation, Result } from '../operations/operation.ts';
import { newId } from '../records/new-id.ts';
import { fingerprintOf } from '../store/idempotency-keys.ts';
import type { Params } from '../wire/parse-params.ts';
import type { Answer } from '../wire/stripe-error.ts';
import { commitChange, type Engine } from './engine.ts';
import {
  internalError,
  keyInUse,
  keyTooLong,
  otherParams,
  otherPath,
  refusedBy,
} from './layer-answers.ts';

/** A request after authentication, with its parameters parsed. */
export type Incoming = {
  readonly operation: Operation;
  readonly path: string;
  readonly id: string;
  readonly params: Params;
  readonly key: string | undefined;
};

/** The answer, and the fault that still has a say in how it is delivered. */
export type Outgoing = {
  readonly answer: Answer;
  readonly requestId: string;
  readonly fault?: Fault;
};

/**
 * The layers of Stripe in their order: limiters, idempotency, validation, execution. "Rate limiters
 * run before the API's idempotency layer": https://docs.stripe.com/error-low-level. Resolves once
 * everything that the answer tells of is in the journal.
 */
export async function performOperation(engine: Engine, incoming: Incoming): Promise<Outgoing> {
  const requestId = newId('req_', 14);
  const fault = engine.faults.strike(incoming.operation.name);
  const refused = fault && refusedBy(fault);
  const answer = refused ?? (await throughKeys(engine, incoming, { requestId, fault }));
  await engine.store.settled();
  return { answer, requestId, ...(fault && { fault }) };
}

type Passage = { readonly requestId: string; readonly fault: Fault | undefined };

/** https://docs.stripe.com/api/idempotent_requests: "All POST requests accept idempotency keys." */
async function throughKeys(engine: Engine, incoming: Incoming, passage: Passage): Promise<Answer> {
  const { key, path, params } = incoming;
  if (key === undefined || incoming.operation.method === 'GET') {
    return execute(engine, incoming, passage);
  }
  if (key.length > 255) return keyTooLong();
  const { keys } = engine.store;
  const fingerprint = fingerprintOf(path, params);
  const state = keys.begin({ key, path, fingerprint }, engine.clock.now());
  switch (state.outcome) {
    case 'in-use':
      return keyInUse(key);
    case 'other-path':
      return otherPath({ key, path, first: state.path });
    case 'other-params':
      return otherParams(key);
    case 'kept': {
      const { status, body, requestId } = state.answer;
      const headers = { 'idempotent-replayed': 'true', 'original-request': requestId };
      return { status, body, headers, ...(status >= 400 && { retry: 'no' }) };
    }
    case 'first':
      try {
        return await execute(engine, incoming, { ...passage, keyed: { key, path, fingerprint } });
      } finally {
        // Of no effect once an answer is kept: the key then replays it.
        keys.release(key);
      }
  }
}

type Keyed = { readonly key: string; readonly path: string; readonly fingerprint: string };

/**
 * Validation is not kept; from `run` on everything is, in one journal entry with its effect. The
 * latency comes between, with the key in use: a retry within it gets a 409, as at Stripe.
 */
async function execute(
  engine: Engine,
  incoming: Incoming,
  { requestId, fault, keyed }: Passage & { keyed?: Keyed },
): Promise<Answer> {
  const { operation, id, params, key } = incoming;
  const call: Call = { id, params, request: { id: requestId, idempotencyKey: key ?? null } };
  const prepared = operation.prepare(engine.desk, call);
  if (prepared.outcome === 'refused') return prepared.answer;
  const latencyMs = drawLatencyMs(engine.dials.latency, engine.random);
  if (latencyMs > 0) await delay(latencyMs);
  if (fault?.fault === 'hold') await engine.faults.gone(fault.id);

  const { change = {}, answer } = withFault(fault, () => prepared.run());
  if (operation.method === 'GET') return answer();
  let said: Answer | undefined;
  const keep = () => {
    said = answer();
    return { ...keyed!, requestId, status: said.status, body: said.body };
  };
  commitChange(engine, operation.name, { change, ...(keyed && { keep }) });
  return said ?? answer();
}

/** A 500 that is kept: "treat the result of a 500 request as indeterminate" (error-low-level). */
function withFault(fault: Fault | undefined, run: () => Result): Result {
  if (fault?.fault === 'error') return { answer: internalError };
  if (fault?.fault === 'error-after') return { ...run(), answer: internalError };
  return run();
}
