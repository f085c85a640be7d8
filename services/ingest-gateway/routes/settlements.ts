import {
  dayMeaning,
  daySchema,
  isDay,
  parseSettlementQuery,
  settlementColumns,
  settlementQuerySchema,
} from '@triplock/contracts';
import type { SettlementBatch } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { FastifyInstance, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { askStore, incorrectParameters, queryText } from '../http/problems.ts';
import { problems } from './schemas.ts';

const whatADayIs =
  'A payment or refund belongs to the UTC day in which it was settled (`settled_at`), and is added ' +
  'within seconds of it. No day is closed: today grows until midnight, and what arrives late is ' +
  'added to its own day. A currency in which nothing succeeded is not listed.';

const listSettlements: FastifySchema = {
  operationId: 'listSettlements',
  summary: 'What you are owed of a day',
  description: `By currency, in the order of their codes. Without \`date\` it is today. ${whatADayIs}`,
  querystring: settlementQuerySchema,
  response: {
    200: {
      description: 'The day, by currency.',
      content: { 'application/json': { schema: { $ref: 'SettlementList#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

const downloadSettlements: FastifySchema = {
  operationId: 'downloadSettlements',
  summary: 'What you are owed of a day, as a file',
  description:
    'CSV of RFC 4180 with a header row: `date,currency,gross,refunds,net,payments,refund_count`. ' +
    `It holds dates, currency codes and whole numbers alone. ${whatADayIs}`,
  params: { type: 'object', required: ['date'], properties: { date: daySchema } },
  response: {
    200: {
      description: 'The day, a row for each currency.',
      content: { 'text/csv': { schema: { type: 'string' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

/** `GET /v1/settlements` and `GET /v1/settlements/{date}.csv`. */
export function addSettlementRoutes(app: FastifyInstance, gateway: Gateway): void {
  const batchesOf = (partnerId: PartnerId, date: string) =>
    askStore(gateway, {
      what: 'reading settlements',
      work: gateway.settlements.ofDay({ partnerId, date }),
    });

  app.get('/v1/settlements', { schema: listSettlements }, async (request, reply) => {
    const batches = await batchesOf(request.partnerId, askedDay(request.url));
    const body = JSON.stringify({ object: 'list', data: batches.map(render) });
    return reply.type('application/json').send(body);
  });

  app.get<{ Params: { date: string } }>(
    '/v1/settlements/:date(.*).csv',
    { schema: downloadSettlements },
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
