import { isTxnId, type Payment, type Refund } from '@triplock/payments';
import type { Logger } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply, FastifySchema } from 'fastify';
import type { GatewayMetrics } from '../http/metrics.ts';
import '../http/http-types.ts';
import { preferredWaitSeconds } from './prefer-wait.ts';
import { readTransaction, type ReadOutcome, type ReadParts } from '../accept/read-transaction.ts';
import { notFound, unknownYet } from '../http/story-problems.ts';
import type { WaitSeats } from './wait-seats.ts';

/** What such a route stands on. */
export type ReadRouteParts<Held extends Payment | Refund> = ReadParts<Held> & {
  metrics: Pick<GatewayMetrics, 'reads'>;
  seats: WaitSeats;
  logger: Logger;
};

/** A GET of one payment or refund. */
export type ReadRoute = { path: string; schema: FastifySchema; what: 'payment' | 'refund' };

/** Adds a route that reads one payment or refund by its id, with `Prefer: wait=N`. */
export function addReadRoute<Held extends Payment | Refund>(
  app: FastifyInstance,
  parts: ReadRouteParts<Held>,
  { path, schema, what }: ReadRoute,
): void {
  const { metrics, seats, logger } = parts;
  const closing = new AbortController();
  app.addHook('preClose', async () => closing.abort());

  app.get<{ Params: { id: string } }>(path, { schema }, async (request, reply) => {
    const { id } = request.params;
    if (!isTxnId(id)) throw notFound(what);
    const { partnerId } = request;
    const wished = preferredWaitSeconds(request.headers.prefer);
    const waitSeconds = seats.isFree() ? wished : undefined;
    const waitMs = (waitSeconds ?? 0) * 1_000;
    const ended =
      waitMs === 0 ? closing.signal : AbortSignal.any([closing.signal, connectionEnd(reply)]);
    const reading = readTransaction(parts, { txnId: id, partnerId, waitMs, ended });
    const outcome = await (waitMs === 0 ? reading : seats.hold(reading)).catch((error: unknown) => {
      logger.warn({ err: error, txnId: id, partnerId }, 'read failed');
      return { outcome: 'unavailable' } as const;
    });
    metrics.reads.count(outcome.outcome);
    if (outcome.outcome === 'found' && waitSeconds !== undefined) {
      reply.header('Preference-Applied', `wait=${waitSeconds}`);
    }
    if (outcome.outcome === 'not-found') throw notFound(what);
    return answer(reply, outcome);
  });
}

function answer(
  reply: FastifyReply,
  outcome: Exclude<ReadOutcome, { outcome: 'not-found' }> | { outcome: 'unavailable' },
): FastifyReply {
  switch (outcome.outcome) {
    case 'found':
      return reply.code(200).type('application/json').send(outcome.body);
    case 'cold':
    case 'unavailable':
      throw unknownYet();
    default:
      return outcome satisfies never;
  }
}

/** Aborts when the client is gone: nobody waits for the answer any more. */
function connectionEnd(reply: FastifyReply): AbortSignal {
  const end = new AbortController();
  if (reply.raw.destroyed) end.abort();
  reply.raw.once('close', () => end.abort());
  return end.signal;
}
