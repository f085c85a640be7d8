import {
  dayMeaning,
  daySchema,
  isDay,
  parseBalanceQuery,
  parseSettlementQuery,
  settlementColumns,
  settlementQuerySchema,
} from '@triplock/contracts';
import type { SettlementBatch, SettlementSums } from '@triplock/partners';
import type { Money } from '@triplock/payments';
import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectParameters, queryText, unknownYet } from '../http/problems.ts';
import { askStore } from '../http/turns.ts';
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

const readBalance: FastifySchema = {
  operationId: 'readBalance',
  summary: 'What your payments come to',
  description:
    'By currency, in the order of their codes. `available` and `settled` together are every payment ' +
    'that succeeded less every refund that succeeded, as your settlements add them up: `settled` ' +
    'those of the UTC days that are over, `available` those of today. What is final is added ' +
    'within seconds. A refund counts once it has succeeded. A currency in which you never had a ' +
    'payment is not listed. Sums of many payments can be beyond 2^53.',
  response: {
    200: {
      description: 'The balance.',
      content: { 'application/json': { schema: { $ref: 'Balance#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

/** `GET /v1/settlements`, `GET /v1/settlements/{date}.csv` and `GET /v1/balance`. */
export function addSettlementRoutes(app: FastifyInstance, gateway: Gateway): void {
  const batchesOf = (request: FastifyRequest, date: string) =>
    askStore(gateway, { request, what: 'reading settlements' }, () =>
      gateway.settlements.ofDay({ partnerId: request.partnerId, date }),
    );

  app.get('/v1/settlements', { schema: listSettlements }, async (request, reply) => {
    const batches = await batchesOf(request, askedDay(request.url));
    const body = `{"object":"list","data":[${batches.map(renderBatch).join(',')}]}`;
    return reply.type('application/json').send(body);
  });

  app.get<{ Params: { date: string } }>(
    '/v1/settlements/:date(.*).csv',
    { schema: downloadSettlements },
    async (request, reply) => {
      const date = checkedDay(request.params.date);
      const text = csvOf(await batchesOf(request, date));
      return reply
        .type('text/csv; charset=utf-8')
        .header('Content-Disposition', `attachment; filename="settlements-${date}.csv"`)
        .send(text);
    },
  );

  app.get('/v1/balance', { schema: readBalance }, async (request, reply) => {
    const parsed = parseBalanceQuery(queryText(request.url));
    if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
    const rows = await askStore(gateway, { request, what: 'reading a balance' }, () =>
      balanceOf(gateway, request),
    );
    const body = `{"object":"balance","data":[${rows.join(',')}]}`;
    return reply.type('application/json').header('Cache-Control', 'no-store').send(body);
  });
}

/**
 * By currency, as JSON. What is pending is read last: a payment that becomes final meanwhile is
 * missing from both for the second that it also takes until it is added to its day, and none is
 * counted twice.
 */
async function balanceOf(
  { settlements, ledger, logger }: Gateway,
  { partnerId, id: requestId }: FastifyRequest,
): Promise<string[]> {
  const days = await settlements.sums({ partnerId, today: today() });
  const pending = await ledger.pendingOf(partnerId).catch((err: unknown) => {
    logger.warn({ err, partnerId, requestId }, 'what is pending is not known');
    throw unknownYet();
  });
  const currencies = new Set([...days, ...pending].map(({ currency }) => currency));
  return [...currencies].sort().map((currency) =>
    renderBalance(
      currency,
      pending.find((sum) => sum.currency === currency),
      days.find((sum) => sum.currency === currency),
    ),
  );
}

function renderBalance(currency: string, pending?: Money, days?: SettlementSums): string {
  const { settled = 0n, open = 0n, refunds = 0n } = days ?? {};
  const sums = { pending: pending?.amount ?? 0n, available: open, refunded: refunds, settled };
  return exactJson({ currency, ...sums });
}

/** Numbers are written digit by digit: those of JavaScript are exact up to 2^53 alone. */
function exactJson(fields: Readonly<Record<string, string | bigint>>): string {
  const pairs = Object.entries(fields).map(([name, value]) => {
    return `"${name}":${typeof value === 'bigint' ? value : JSON.stringify(value)}`;
  });
  return `{${pairs.join(',')}}`;
}

/** The day of the query, or today. */
function askedDay(url: string): string {
  const parsed = parseSettlementQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  return checkedDay(parsed.values.date ?? today());
}

function today(): string {
  return new Date().toISOString().slice(0, 'yyyy-mm-dd'.length);
}

/** @throws Problem that points at the date when there is no such day. */
function checkedDay(text: string): string {
  if (isDay(text)) return text;
  throw incorrectParameters([{ pointer: '#/date', detail: `expected ${dayMeaning}` }]);
}

function renderBatch(batch: SettlementBatch): string {
  return exactJson(fieldsOf(batch));
}

function fieldsOf(batch: SettlementBatch) {
  const { date, currency, gross, refunds, net, payments, refundCount: refund_count } = batch;
  return { date, currency, gross, refunds, net, payments, refund_count };
}

/** No value needs quotes, and none can be taken for a formula: dates, codes and whole numbers. */
function csvOf(batches: readonly SettlementBatch[]): string {
  const rows = batches.map((batch) => {
    const shown = fieldsOf(batch);
    return settlementColumns.map((column) => shown[column]);
  });
  return [settlementColumns, ...rows].map((values) => `${values.join(',')}\r\n`).join('');
}
