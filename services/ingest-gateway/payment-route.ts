import { isTxnId } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { GatewayMetrics } from './metrics.ts';
import './http-types.ts';
import { readPaymentOperation } from './payment-operations.ts';
import { preferredWaitSeconds } from './prefer-wait.ts';
import {
  readPayment,
  type PaymentQuestion,
  type ReadOutcome,
  type ReadParts,
} from './read-payment.ts';
import { notFound, unknownYet } from './story-problems.ts';

/** What the route stands on. */
export type PaymentRouteParts = ReadParts & { metrics: GatewayMetrics; logger: Logger };

// Each asks the ledger up to four times a second: together a small part of what it can answer.
// Who comes when all seats are taken is answered at once, which RFC 7240 allows.
const waitersMax = 200;

/** `GET /v1/payments/{id}`, with `Prefer: wait=N`. */
export function addPaymentRoute(app: FastifyInstance, parts: PaymentRouteParts): void {
  const { metrics, logger } = parts;
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());
  let waiters = 0;

  const read = async (question: PaymentQuestion): Promise<ReadOutcome> => {
    if (question.waitMs === 0) return readPayment(parts, question);
    metrics.waiters.set((waiters += 1));
    return readPayment(parts, question).finally(() => metrics.waiters.set((waiters -= 1)));
  };

  app.get<{ Params: { id: string } }>(
    '/v1/payments/:id',
    { schema: readPaymentOperation },
    async (request, reply) => {
      const { id } = request.params;
      if (!isTxnId(id)) throw notFound();
      const { partnerId } = request;
      const wished = preferredWaitSeconds(request.headers.prefer);
      const waitSeconds = waiters < waitersMax ? wished : undefined;
      const waitMs = (waitSeconds ?? 0) * 1_000;
      const ended =
        waitMs === 0 ? closing.signal : AbortSignal.any([closing.signal, connectionEnd(reply)]);
      const outcome = await read({ txnId: id, partnerId, waitMs, ended }).catch(
        (error: unknown) => {
          logger.warn({ err: error, txnId: id, partnerId }, 'read failed');
          return { outcome: 'unavailable' } as const;
        },
      );
      metrics.reads.inc({ outcome: outcome.outcome });
      if (outcome.outcome === 'found' && waitSeconds !== undefined) {
        reply.header('Preference-Applied', `wait=${waitSeconds}`);
      }
      return answer(reply, outcome);
    },
  );
}

function answer(
  reply: FastifyReply,
  outcome: ReadOutcome | { outcome: 'unavailable' },
): FastifyReply {
  switch (outcome.outcome) {
    case 'found':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'not-found':
      throw notFound();
    case 'cold':
    case 'unavailable':
      throw unknownYet();
  }
}

/** Aborts when the client is gone: nobody waits for the answer any more. */
function connectionEnd(reply: FastifyReply): AbortSignal {
  const end = new AbortController();
  if (reply.raw.destroyed) end.abort();
  reply.raw.once('close', () => end.abort());
  return end.signal;
}
