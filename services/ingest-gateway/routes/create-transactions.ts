import { responseVersion, transactionContracts, type KindContract } from '@triplock/contracts';
import {
  deriveTxnId,
  fingerprint,
  isFollowUp,
  isTxnId,
  type FollowUpKind,
  type JsonValue,
  type PaymentKind,
  type TransactionKind,
} from '@triplock/payments';
import { whyUnpayable } from '@triplock/providers';
import { carriedTraceparent, inSpan, startBudget, traceparentFrom } from '@triplock/runtime';
import type {
  FastifyReply,
  FastifyRequest,
  onRequestHookHandler,
  onResponseHookHandler,
} from 'fastify';
import { acceptTransaction, type AcceptOutcome } from '../accept/accept-transaction.ts';
import type { Order, Transaction, WhyNever } from '../accept/transaction.ts';
import type { Gateway } from '../gateway.ts';
import {
  inUse,
  incorrectFields,
  maybeAccepted,
  notFound,
  reused,
  tooBusy,
  tooManyKeys,
} from '../http/problems.ts';
import { readKey, refuseCardData } from '../http/request-body.ts';

/** The handler and the guard of the route by which a transaction of a kind is made. */
export function accepting(gateway: Gateway, kind: TransactionKind, whyNever?: WhyNever) {
  const transactionOf = isFollowUp(kind)
    ? (request: FastifyRequest) => followUpOf(request, kind)
    : (request: FastifyRequest) => paymentOf(request, kind);
  return {
    ...guardAccepting(gateway, kind),
    handler: async (request: FastifyRequest, reply: FastifyReply) =>
      create(gateway, { transaction: transactionOf(request), whyNever }, reply),
  };
}

function paymentOf(request: FastifyRequest, kind: PaymentKind): Transaction {
  return askedOf(request, { kind, path: `/v1/${kind}s`, contract: transactionContracts[kind] });
}

/** @throws Problem when the path names no payment, and as {@link askedOf} does. */
function followUpOf(request: FastifyRequest, kind: FollowUpKind): Transaction {
  const { id: paymentId } = request.params as { id: string };
  if (!isTxnId(paymentId)) throw notFound('payment');
  const path = `/v1/payments/${paymentId}/${kind}s`;
  const contract = transactionContracts[kind];
  return { ...askedOf(request, { kind, path, contract }), paymentId };
}

/** @throws Problem when the key or the body is not valid, or could be a card's number. */
function askedOf<Kind extends TransactionKind, Details>(
  request: FastifyRequest,
  { kind, path, contract }: { kind: Kind; path: string; contract: Validating<Details> },
) {
  const key = readKey(request);
  const validated = contract.validate(request.body as JsonValue | undefined);
  if (validated.outcome === 'invalid') throw incorrectFields(validated.errors);
  refuseCardData(request, validated.body);
  const { partnerId } = request;
  return {
    kind,
    txnId: deriveTxnId(kind, partnerId, key),
    partnerId,
    key,
    fingerprint: fingerprint({ method: 'POST', path, body: validated.body }),
    responseVersion,
    acceptedAt: new Date(),
    details: validated.details,
  };
}

type Validating<Details> = Pick<KindContract<Details>, 'validate'>;

/**
 * Accepts what a route has read, once per key, and answers. Nothing is written before
 * {@link acceptTransaction}: a crash while the request is read leaves nothing, and the retry counts
 * as the first request. Id and fingerprint are made from the request alone, so a retry at any
 * replica meets what this one left.
 *
 * @throws Problem for a charge that no provider here can ever make, and for outcomes that are none
 * of accepting.
 */
async function create(
  gateway: Gateway,
  { transaction, whyNever }: Pick<Order, 'transaction' | 'whyNever'>,
  reply: FastifyReply,
): Promise<FastifyReply> {
  refuseUnpayable(gateway, transaction);
  const { kind, txnId, partnerId } = transaction;
  const { id: requestId, headers } = reply.request;
  const incoming = traceparentFrom(headers.traceparent as string | undefined);
  const traceparent = carriedTraceparent(incoming);
  const attributes = { 'triplock.txn_id': txnId, 'triplock.partner_id': partnerId };
  const outcome = await inSpan({ name: `accept ${kind}`, attributes }, () =>
    acceptTransaction(gateway, {
      transaction,
      traceparent,
      budget: startBudget(gateway.budgetMs),
      requestId,
      whyNever,
    }),
  );
  count(gateway, kind, outcome);
  report(gateway, { kind, outcome, bindings: { txnId, partnerId, traceparent, requestId } });
  return answer(reply, outcome);
}

/**
 * Refuses what no provider here charges, or its own can never charge so much in this currency; as
 * a book transfer the same money is accepted. What only the provider can know (the account's
 * country, the card's network, its smallest charge) ends the payment as `failed`. A part to capture
 * or to give back is judged where its payment is, by the ledger's worker: a gateway accepts it
 * without knowing the payment's currency, and one request has one answer.
 *
 * @throws Problem that points at the field to change.
 */
function refuseUnpayable({ offered }: Gateway, { details }: Transaction): void {
  if (!('paymentMethod' in details)) return;
  const why = whyUnpayable(details, offered);
  if (why === undefined) return;
  throw incorrectFields([{ pointer: `#/${why.field}`, detail: why.failure.message }]);
}

/** Which outcome gives which answer. */
function answer(reply: FastifyReply, outcome: AcceptOutcome): FastifyReply {
  switch (outcome.outcome) {
    case 'accepted':
    case 'replayed': {
      const { status, location, body } = outcome.answer;
      if (outcome.outcome === 'replayed') reply.header('Idempotency-Replayed', 'true');
      return reply.code(status).header('Location', location).type('application/json').send(body);
    }
    case 'reused':
      throw reused();
    case 'in-flight':
      throw inUse();
    case 'over-limit':
      throw tooManyKeys(outcome.retryAfterMs);
    case 'not-found':
      throw notFound('payment');
    case 'impossible':
      throw incorrectFields(outcome.errors);
    case 'cold':
    case 'unavailable':
      throw maybeAccepted();
    default:
      return outcome satisfies never;
  }
}

/**
 * What is not found, impossible or too much is counted as refused, with what was no request to
 * accept.
 */
function count({ metrics }: Gateway, kind: Transaction['kind'], outcome: AcceptOutcome): void {
  if (isRefusal(outcome)) return;
  metrics.accepts[kind].count(outcome.outcome);
  const isKnown = outcome.outcome === 'replayed' || outcome.outcome === 'in-flight';
  if (isKnown) metrics.caught.count('claims');
}

type Refusal = Extract<AcceptOutcome, { outcome: 'not-found' | 'impossible' | 'over-limit' }>;

function isRefusal(outcome: AcceptOutcome): outcome is Refusal {
  return ['not-found', 'impossible', 'over-limit'].includes(outcome.outcome);
}

/**
 * Hooks of a route that accepts something. While the gateway is behind, a request is refused before
 * its body is read and before anything is written: its key stays unused, and those who wait already
 * are not held up by it. What is refused later, before it could be accepted, is counted; 409 and
 * 422 are outcomes of accepting.
 */
function guardAccepting(
  { backlogs, metrics }: Gateway,
  kind: Transaction['kind'],
): { onRequest: onRequestHookHandler; onResponse: onResponseHookHandler } {
  const outcomes = metrics.accepts[kind];
  return {
    onRequest: ({ partnerId }, _reply, done) => {
      const isBehind = backlogs.claims.isBehind(partnerId) || backlogs.appends.isBehind(partnerId);
      if (!isBehind) return done();
      outcomes.count('shed');
      done(tooBusy());
    },
    onResponse: (_request, { statusCode }, done) => {
      const isRefused = statusCode >= 400 && statusCode < 500;
      if (isRefused && statusCode !== 409 && statusCode !== 422) outcomes.count('refused');
      done();
    },
  };
}

/**
 * Acceptance is the normal case: a counter counts it, and the ledger keeps id and trace. A line for
 * each would be nearly all of the log.
 */
function report(
  { logger }: Gateway,
  { kind, outcome, bindings }: { kind: string; outcome: AcceptOutcome; bindings: object },
): void {
  const line = { ...bindings, outcome: outcome.outcome };
  if (outcome.outcome === 'accepted') logger.debug(line, kind);
  else if (outcome.outcome === 'unavailable') logger.warn({ ...line, err: outcome.error }, kind);
  else if (outcome.outcome !== 'not-found' && outcome.outcome !== 'impossible') {
    logger.info(line, kind);
  }
}
