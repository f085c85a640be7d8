import { setTimeout as delay } from 'node:timers/promises';
import { commitChange, type Engine } from './engine.ts';
import { drawLatencyMs, type Fault } from './faults.ts';
import type { LimitedReason } from './limiters.ts';
import { cancelPaymentIntent, capturePaymentIntent } from './operations/captures.ts';
import { confirmPaymentIntent } from './operations/confirmations.ts';
import { closeDispute } from './operations/disputes.ts';
import { lists, retrievals } from './operations/lists.ts';
import type { Call, Operation, Result } from './operations/operation.ts';
import { createPaymentIntent, updatePaymentIntent } from './operations/payment-intents.ts';
import { createRefund } from './operations/refunds.ts';
import { searchPaymentIntents } from './operations/search.ts';
import { newId } from './records.ts';
import { fingerprintOf } from './store/store.ts';
import { errorAnswer, invalidRequest, type Answer } from './wire/errors.ts';
import type { Params } from './wire/params.ts';

/** A request after authentication, with its parameters parsed. */
export type Incoming = {
  readonly operation: Operation;
  readonly path: string;
  readonly id: string;
  readonly params: Params;
  readonly key: string | undefined;
};

/** The answer, and the fault that still decides how it is delivered. */
export type Outgoing = {
  readonly answer: Answer;
  readonly requestId: string;
  readonly fault?: Fault;
};

/**
 * The layers of Stripe in their order: limiters, idempotency, validation, execution. "Rate limiters
 * run before the API's idempotency layer": https://docs.stripe.com/error-low-level. Resolves once
 * everything that the answer shows is in the journal.
 */
export async function performOperation(engine: Engine, incoming: Incoming): Promise<Outgoing> {
  const requestId = newId('req_', 14);
  const { name } = incoming.operation;
  const admission = engine.limiters.admit(name);
  if (admission.outcome === 'limited') return { answer: rateLimited(admission), requestId };
  try {
    const fault = engine.faults.strike(name);
    const refused = fault && refusedBy(fault);
    const answer = refused ?? (await throughKeys(engine, incoming, { requestId, fault }));
    await engine.store.settled();
    return { answer, requestId, ...(fault && { fault }) };
  } finally {
    admission.ended();
  }
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
  const prepared = operation.prepare(engine.world, call);
  if (prepared.outcome === 'refused') return prepared.answer;
  const latencyMs = drawLatencyMs(engine.dials.latency, engine.random);
  if (latencyMs > 0) await delay(latencyMs);
  if (fault?.fault === 'hold') await engine.faults.gone(fault.id);

  const { change = {}, answer } = withFault(fault, () => prepared.run());
  if (operation.method === 'GET') return answer();
  let kept: Answer | undefined;
  const keep = () => {
    kept = answer();
    return { ...keyed!, requestId, status: kept.status, body: kept.body };
  };
  commitChange(engine, operation.name, { change, ...(keyed && { keep }) });
  return kept ?? answer();
}

/** A 500 that is kept: "treat the result of a 500 request as indeterminate" (error-low-level). */
function withFault(fault: Fault | undefined, run: () => Result): Result {
  if (fault?.fault === 'error') return { answer: internalError };
  if (fault?.fault === 'error-after') return { ...run(), answer: internalError };
  return run();
}

/** All of the API that is simulated. Anything else is 404, as an unknown URL is at Stripe. */
export const operations: readonly Operation[] = [
  createPaymentIntent,
  updatePaymentIntent,
  confirmPaymentIntent,
  capturePaymentIntent,
  cancelPaymentIntent,
  searchPaymentIntents,
  createRefund,
  closeDispute,
  ...retrievals,
  ...lists,
];

/** What a fault answers before the request is looked at; undefined when it lets it through. */
export function refusedBy(fault: Fault): Answer | undefined {
  switch (fault.fault) {
    case 'rate-limit':
      return rateLimited({ reason: 'global-rate', retryAfterSeconds: 1, ...fault });
    case 'lock-timeout':
      return lockTimeout();
    case 'unavailable':
      return errorAnswer(503, { type: 'api_error', message: 'Stripe is temporarily unavailable.' });
    case 'reset':
      // Nobody gets to read it: the connection is closed instead.
      return errorAnswer(503, { type: 'api_error', message: 'The connection was reset.' });
    case 'hold':
    case 'error':
    case 'error-after':
    case 'slow':
    case 'time-out':
    case 'reset-after':
    case 'half-body':
      return undefined;
  }
}

/** https://docs.stripe.com/rate-limits: `Retry-After` is sent by a fault alone. */
function rateLimited(limited: { reason: LimitedReason; retryAfterSeconds?: number }): Answer {
  const { reason, retryAfterSeconds } = limited;
  const headers = {
    'stripe-rate-limited-reason': reason,
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
  };
  const message = 'Request rate limit exceeded. You can learn more about rate limits here.';
  return errorAnswer(
    429,
    { type: 'invalid_request_error', code: 'rate_limit', message },
    { headers },
  );
}

/** https://docs.stripe.com/rate-limits#object-lock-timeouts */
function lockTimeout(): Answer {
  const message =
    'This object cannot be accessed right now because another API request or Stripe process is ' +
    'currently accessing it. If you see this error intermittently, retry the request.';
  const error = { type: 'invalid_request_error', code: 'lock_timeout', message } as const;
  return errorAnswer(429, error, { retry: 'yes' });
}

/**
 * The package explains why not to retry: "our idempotency framework would typically replay it
 * anyway".
 */
function internalError(): Answer {
  const message = "Something went wrong on Stripe's end.";
  return errorAnswer(500, { type: 'api_error', message }, { retry: 'no' });
}

/** "Idempotency keys are up to 255 characters long." */
function keyTooLong(): Answer {
  return invalidRequest('Idempotency keys can have up to 255 characters.');
}

/** 409 `idempotency_key_in_use`: https://docs.stripe.com/error-codes#idempotency-key-in-use */
function keyInUse(key: string): Answer {
  const message =
    'There is currently another in-progress request using this Idempotent Key (that probably means ' +
    `you submitted twice, and the other request is still going through): ${key}. Please try again later.`;
  const error = { type: 'invalid_request_error', code: 'idempotency_key_in_use', message } as const;
  return errorAnswer(409, error, { retry: 'yes' });
}

/** "Errors if they're not the same to prevent accidental misuse." */
function otherParams(key: string): Answer {
  return mismatch(
    'Keys for idempotent requests can only be used with the same parameters they were first used with.',
    key,
  );
}

/** The same key at another endpoint. */
function otherPath(of: { key: string; path: string; first: string }): Answer {
  const were = `('${of.path}' vs '${of.first}')`;
  return mismatch(
    `Keys for idempotent requests can only be used for the same endpoint they were first used for ${were}.`,
    of.key,
  );
}

function mismatch(what: string, key: string): Answer {
  const message = `${what} Try using a key other than '${key}' if you meant to execute a different request.`;
  return errorAnswer(400, { type: 'idempotency_error', message }, { retry: 'no' });
}
