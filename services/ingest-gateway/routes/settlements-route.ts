import { dayMeaning, isDay, parseSettlementQuery, settlementColumns } from '@triplock/contracts';
import type { SettlementBatch, Settlements } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { FastifyInstance } from 'fastify';
import { askStore, type AskParts } from '../http/ask-store.ts';
import '../http/http-types.ts';
import { incorrectParameters, queryText } from '../http/incorrect-request.ts';
import { downloadSettlementsOperation, listSettlementsOperation } from './settlement-operations.ts';

/** What the routes stand on. */
export type SettlementsRouteParts = AskParts & { settlements: Settlements };

/** `GET /v1/settlements` and `GET /v1/settlements/{date}.csv`. */
export function addSettlementRoutes(app: FastifyInstance, parts: SettlementsRouteParts): void {
  const batchesOf = (partnerId: PartnerId, date: string) =>
    askStore(parts, {
      what: 'reading settlements',
      work: parts.settlements.ofDay({ partnerId, date }),
    });

  app.get('/v1/settlements', { schema: listSettlementsOperation }, async (request, reply) => {
    const batches = await batchesOf(request.partnerId, askedDay(request.url));
    const body = JSON.stringify({ object: 'list', data: batches.map(render) });
    return reply.type('application/json').send(body);
  });

  app.get<{ Params: { date: string } }>(
    '/v1/settlements/:date(.*).csv',
    { schema: downloadSettlementsOperation },
    async ({ partnerId, params }, reply) => {
      const date = checkedDay(params.date);
      const text = csvOf(await batchesOf(partnerId, date));
      return reply
        .type('text/csv; charset=utf-8')
        .header('Content-Disposition', `attachment; filename="settlements-${date}.csv"`)
        .send(text);
    },
  );
}

/** The day of the query, or today. */
function askedDay(url: string): string {
  const parsed = parseSettlementQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const today = new Date().toISOString().slice(0, 'yyyy-mm-dd'.length);
  return checkedDay(parsed.values.date ?? today);
}

/** @throws Problem that points at the date when there is no such day. */
function checkedDay(text: string): string {
  if (isDay(text)) return text;
  throw incorrectParameters([{ pointer: '#/date', detail: `expected ${dayMeaning}` }]);
}

/** A day's sums are far below 2^53 minor units, up to which numbers are exact. */
function render(batch: SettlementBatch) {
  return {
    date: batch.date,
    currency: batch.currency,
    gross: Number(batch.gross),
    refunds: Number(batch.refunds),
    net: Number(batch.net),
    payments: Number(batch.payments),
    refund_count: Number(batch.refundCount),
  };
}

/** No value needs quotes, and none can be taken for a formula: dates, codes and whole numbers. */
function csvOf(batches: readonly SettlementBatch[]): string {
  const rows = batches.map((batch) => {
    const shown = render(batch);
    return settlementColumns.map((column) => shown[column]);
  });
  return [settlementColumns, ...rows].map((values) => `${values.join(',')}\r\n`).join('');
}
