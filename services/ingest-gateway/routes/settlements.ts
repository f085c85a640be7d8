import {
  balanceEntryQuerySchema,
  dayMeaning,
  daySchema,
  isDay,
  pageSizeUsual,
  parseBalanceEntryQuery,
  parseBalanceQuery,
  parseSettlementQuery,
  Problem,
  settlementColumns,
  settlementQuerySchema,
} from '@triplock/contracts';
import type {
  LineQuestion,
  SettlementBatch,
  SettlementDay,
  SettlementLine,
  SettlementSums,
} from '@triplock/partners';
import type { Money } from '@triplock/payments';
import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectParameters, queryText, unknownCursor, unknownYet } from '../http/problems.ts';
import { askStore } from '../http/turns.ts';
import { renderCamt053 } from './camt053.ts';
import { pageCost } from './list-transactions.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { problems } from './schemas.ts';

const whatADayIs =
  'A payment or refund belongs to the UTC day in which it was settled (`settled_at`), and is added ' +
  'within seconds of it. A day is closed a while after its end, once all that was final in it is ' +
  'in, and never changes again; what still comes late is in the first day that is open. A currency ' +
  'in which nothing succeeded is not listed.';

const listSettlements: FastifySchema = {
  operationId: 'listSettlements',
  summary: 'What you are owed of a day',
  description:
    `By currency, in the order of their codes. Without \`date\` it is today. ${whatADayIs} ` +
    'What each sum is made of: `GET /v1/balance/entries` with the same `date`.',
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

const downloadStatement: FastifySchema = {
  operationId: 'downloadStatement',
  summary: 'The statement of a closed day, for a bank’s reader',
  description:
    'A BankToCustomerStatement of ISO 20022 (camt.053.001.08): of each currency what your days came ' +
    'to before and with this one, and an entry for what of one kind was settled on one day, which ' +
    'is the value date; of what is late that is an earlier one. A closed day always has the same ' +
    'statement; one that is open has none.',
  params: { type: 'object', required: ['date'], properties: { date: daySchema } },
  response: {
    200: {
      description: 'The day.',
      content: { 'application/xml': { schema: { type: 'string' } } },
    },
    ...problems(
      'invalid_request',
      'unauthorized',
      'not_found',
      'settlement_open',
      'internal_error',
      'unavailable',
    ),
  },
};

const readBalance: FastifySchema = {
  operationId: 'readBalance',
  summary: 'What your payments come to',
  description:
    'By currency, in the order of their codes. `available` and `settled` together are every payment ' +
    'that succeeded less every refund that succeeded, as your settlements add them up: `settled` ' +
    'those of the UTC days that are closed, `available` those of later ones. What is final is added ' +
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

const listEntries: FastifySchema = {
  operationId: 'listBalanceEntries',
  summary: 'What your balance and settlements are made of',
  description:
    'An entry for each payment, capture and refund that succeeded: the newest settlement first, and ' +
    'of one what was added last. Those of a `date` and a `currency` add up to the settlement of that ' +
    'day, all of a currency to `available` and `settled` together. One that came after its day was ' +
    'closed is in a later settlement and keeps its `settled_at`. Follow `has_more` with ' +
    '`starting_after` set to the last id of the page.',
  querystring: balanceEntryQuerySchema,
  response: {
    200: {
      description: 'A page.',
      content: { 'application/json': { schema: { $ref: 'BalanceEntryList#' } } },
    },
    ...problems('invalid_request', 'unauthorized', 'internal_error', 'unavailable'),
  },
};

/**
 * `GET /v1/settlements`, `GET /v1/settlements/{date}.csv` and `.xml`, `GET /v1/balance` and
 * `GET /v1/balance/entries`.
 */
export function addSettlementRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const dayOf = (request: FastifyRequest, date: string) =>
    askStore(gateway, { request, what: 'reading settlements' }, () =>
      gateway.settlements.ofDay({ partnerId: request.partnerId, date }),
    );

  app.get('/v1/settlements', { schema: listSettlements, scope: 'read' }, async (request, reply) => {
    const date = askedDay(request.url);
    const day = await dayOf(request, date);
    const status = statusOf(day);
    const data = day.batches.map((batch) => exactJson({ ...fieldsOf(date, batch), ...status }));
    const head = exactJson({ object: 'list', date, ...status }).slice(0, -1);
    return reply.type('application/json').send(`${head},"data":[${data.join(',')}]}`);
  });

  app.get<{ Params: { date: string } }>(
    '/v1/settlements/:date(.*).csv',
    { schema: downloadSettlements, scope: 'read' },
    async (request, reply) => {
      const date = checkedDay(request.params.date);
      const text = csvOf(date, (await dayOf(request, date)).batches);
      return reply
        .type('text/csv; charset=utf-8')
        .header('Content-Disposition', `attachment; filename="settlements-${date}.csv"`)
        .send(text);
    },
  );

  app.get<{ Params: { date: string } }>(
    '/v1/settlements/:date(.*).xml',
    { schema: downloadStatement, scope: 'read', config: pageCost },
    async (request, reply) => {
      const { partnerId, params } = request;
      const date = checkedDay(params.date);
      const day = await askStore(gateway, { request, what: 'reading a statement' }, () =>
        gateway.settlements.statement({ partnerId, date }),
      );
      if (day.statements.length === 0) {
        const detail = 'Nothing of yours was settled on this day or before it.';
        throw new Problem('not_found', detail);
      }
      if (!day.isClosed) throw stillOpen();
      return reply
        .type('application/xml; charset=utf-8')
        .header('Content-Disposition', `attachment; filename="statement-${date}.xml"`)
        .send(renderCamt053(partnerId, date, day.statements));
    },
  );

  app.get('/v1/balance', { schema: readBalance, scope: 'read' }, async (request, reply) => {
    const parsed = parseBalanceQuery(queryText(request.url));
    if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
    const rows = await askStore(gateway, { request, what: 'reading a balance' }, () =>
      balanceOf(gateway, request),
    );
    const body = `{"object":"balance","data":[${rows.join(',')}]}`;
    return reply.type('application/json').header('Cache-Control', 'no-store').send(body);
  });

  const options = { schema: listEntries, scope: 'read', config: pageCost } as const;
  app.get('/v1/balance/entries', options, async (request, reply) => {
    const question = questionOf(request);
    const page = await askStore(gateway, { request, what: 'listing entries' }, () =>
      gateway.settlements.lines(question),
    );
    if (page.outcome === 'unknown-cursor') throw noSuchEntry();
    const data = page.lines.map(renderLine);
    const body = JSON.stringify({ object: 'list', data, has_more: page.more });
    return reply.type('application/json').send(body);
  });
}

const noSuchEntry = () => unknownCursor('an entry of yours');

function stillOpen(): Problem {
  const detail =
    'A day is closed about a quarter of an hour after its end, and has a statement then: ask again, ' +
    'or read its sums so far from GET /v1/settlements.';
  return new Problem('settlement_open', detail, { headers: { 'Retry-After': '900' } });
}

/** @throws Problem that points at every parameter that is wrong. */
function questionOf({ url, partnerId }: FastifyRequest): LineQuestion {
  const parsed = parseBalanceEntryQuery(queryText(url));
  if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
  const { limit = pageSizeUsual, starting_after: after, date, currency } = parsed.values;
  const [day = '', lineId = ''] = after?.split('.') ?? [];
  if (after !== undefined && !isDay(day)) throw noSuchEntry();
  return {
    partnerId,
    limit,
    day: date === undefined ? undefined : checkedDay(date),
    currency,
    startingAfter: after === undefined ? undefined : { day, lineId: BigInt(lineId) },
  };
}

function renderLine({ day, lineId, txnId, kind, currency, amount, settledAt }: SettlementLine) {
  return {
    id: `${day}.${lineId}`,
    object: 'balance_entry',
    type: kind,
    source: txnId,
    amount: Number(amount),
    currency,
    settlement_date: day,
    settled_at: settledAt.toISOString(),
  };
}

function statusOf({ isClosed, completeThrough }: SettlementDay) {
  return {
    status: isClosed ? 'closed' : 'open',
    complete_through: completeThrough?.toISOString() ?? null,
  };
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
  const days = await settlements.sums({ partnerId });
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
function exactJson(fields: Readonly<Record<string, string | bigint | null>>): string {
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

function fieldsOf(date: string, batch: SettlementBatch) {
  const { currency, gross, refunds, net, payments, refundCount: refund_count } = batch;
  return { date, currency, gross, refunds, net, payments, refund_count };
}

/** No value needs quotes, and none can be taken for a formula: dates, codes and whole numbers. */
function csvOf(date: string, batches: readonly SettlementBatch[]): string {
  const rows = batches.map((batch) => {
    const shown = fieldsOf(date, batch);
    return settlementColumns.map((column) => shown[column]);
  });
  return [settlementColumns, ...rows].map((values) => `${values.join(',')}\r\n`).join('');
}
