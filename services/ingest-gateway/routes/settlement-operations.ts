import { daySchema, settlementQuerySchema } from '@triplock/contracts';
import type { FastifySchema } from 'fastify';
import { problems } from './problem-responses.ts';

const whatADayIs =
  'A payment or refund belongs to the UTC day in which it was settled (`settled_at`), and is added ' +
  'within seconds of it. No day is closed: today grows until midnight, and what arrives late is ' +
  'added to its own day. A currency in which nothing succeeded is not listed.';

/** What the OpenAPI document says of `GET /v1/settlements`. */
export const listSettlementsOperation: FastifySchema = {
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

/** What the OpenAPI document says of `GET /v1/settlements/{date}.csv`. */
export const downloadSettlementsOperation: FastifySchema = {
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
