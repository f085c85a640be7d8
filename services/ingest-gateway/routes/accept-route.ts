import {
  carriedTraceparent,
  inSpan,
  traceparentFrom,
  type Logger,
  type Tally,
} from '@triplock/runtime';
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onResponseHookHandler,
} from 'fastify';
import type { AcceptOutcome, Order } from '../accept/accept-transaction.ts';
import type { AcceptWord, GatewayMetrics } from '../http/metrics.ts';
import { inUse, maybeAccepted, reused } from '../http/story-problems.ts';
import { startBudget } from '../http/time-budget.ts';
import type { AcceptedTransaction } from '../accept/transaction-form.ts';

/** What a route that accepts transactions stands on. */
export type AcceptRouteParts = {
  metrics: Pick<GatewayMetrics, 'caught'>;
  logger: Logger;
  /** How long accepting may take before it is answered with a 503, milliseconds. */
  budgetMs: number;
};

/** A POST that takes effect once per key. */
export type AcceptRoute<Accepted extends AcceptedTransaction> = {
  path: string;
  schema: FastifySchema;
  /** What the log calls it. */
  what: 'payment' | 'refund';
  outcomes: Tally<AcceptWord>;
  /** @throws Problem when the request does not say one. */
  transactionOf(request: FastifyRequest): Accepted;
  /** @throws Problem when it can be refused before the story begins. */
  accept(order: Order<Accepted>): Promise<AcceptOutcome>;
};

/** Adds a route on which a request becomes a transaction, and an outcome an answer. */
export function addAcceptRoute<Accepted extends AcceptedTransaction>(
  app: FastifyInstance,
  { metrics, logger, budgetMs }: AcceptRouteParts,
  { path, schema, what, outcomes, transactionOf, accept }: AcceptRoute<Accepted>,
): void {
  const countRefusal: onResponseHookHandler = (_request, { statusCode }, done) => {
    if (isRefusal(statusCode)) outcomes.count('refused');
    done();
  };
  app.post(path, { schema, onResponse: countRefusal }, async (request, reply) => {
    const transaction = transactionOf(request);
    const { txnId, partnerId } = transaction;
    const incoming = traceparentFrom(request.headers.traceparent as string | undefined);
    const traceparent = carriedTraceparent(incoming);
    const attributes = { 'triplock.txn_id': txnId, 'triplock.partner_id': partnerId };
    const outcome = await inSpan({ name: `accept ${what}`, attributes }, () =>
      accept({ transaction, traceparent, budget: startBudget(budgetMs) }),
    );
    outcomes.count(outcome.outcome);
    if (isKnown(outcome)) metrics.caught.count('claims');
    report(logger, { what, outcome, bindings: { txnId, partnerId, traceparent } });
    return answer(reply, outcome);
  });
}

/**
 * Acceptance is the normal case: a counter counts it, and the ledger keeps id and trace. A line for
 * each would be nearly all of the log.
 */
function report(
  logger: Logger,
  { what, outcome, bindings }: { what: string; outcome: AcceptOutcome; bindings: object },
): void {
  const word = { ...bindings, outcome: outcome.outcome };
  if (outcome.outcome === 'accepted') logger.debug(word, what);
  else if (outcome.outcome === 'unavailable') logger.warn({ ...word, err: outcome.error }, what);
  else logger.info(word, what);
}

/** Guard 1 knows the key, and nothing was done again. */
function isKnown({ outcome }: AcceptOutcome): boolean {
  return outcome === 'replayed' || outcome === 'in-flight';
}

/** Whatever is refused before the story begins; 409 and 422 are outcomes of the story. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 409 && status !== 422;
}

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
    case 'cold':
    case 'unavailable':
      throw maybeAccepted();
    default:
      return outcome satisfies never;
  }
}
