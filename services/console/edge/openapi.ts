import { paymentStatuses, problemSchema } from '@triplock/contracts';
import { actSchemas } from '../acts/acts.ts';
import { breakSchemas } from '../break/break-agent.ts';
import { refusals, type KindOfAct, type RefusalCode, type Route } from '../console.ts';
import { letterSchemas } from '../lists/dead-letters-page.ts';
import { flowSchemas } from '../flow/flow-history.ts';
import { kindsOfActs } from '../acts/kinds-of-acts.ts';
import { listingSchemas } from '../lists/listings.ts';
import { sessionSchemas } from './login.ts';
import { layerSchemas } from '../payments/payment-layers.ts';
import { viewSchemas } from '../payments/payment.ts';
import { paymentSchemas } from '../payments/payments.ts';
import * as json from './schema.ts';

const info = {
  title: 'Triplock console',
  version: '1',
  description:
    'What the pages of the console show, and every act that operators can do, for programs. ' +
    'Amounts are whole minor units, times are in UTC. Every act needs a `reason`, which is ' +
    'recorded with who did it before it begins; sent again with the same `form` it is done once, ' +
    'and another act with that `form` is refused.',
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

/** By the names that the operations refer to. */
const schemas: json.Schemas = {
  ...flowSchemas,
  ...paymentSchemas,
  ...viewSchemas,
  ...layerSchemas,
  ...listingSchemas,
  ...actSchemas,
  ...sessionSchemas,
  ...letterSchemas,
  ...breakSchemas,
  Problem: {
    ...problemSchema,
    properties: {
      ...problemSchema.properties,
      code: { type: 'string', enum: Object.keys(refusals) },
    },
  },
};

/** What a query can ask for. */
const parameters = {
  partner: { description: 'of this partner alone' },
  status: { schema: { enum: paymentStatuses } },
  state: { description: 'those that were given up', schema: { enum: ['failed'] } },
  show: { schema: { enum: ['waiting', 'dismissed'] } },
  act: { description: 'acts of this kind' },
  from: { description: 'from then on: 2026-11-20, or 2026-11-20T08:00Z' },
  until: { description: 'before then; of days, that day included' },
  reference: { description: 'goes with a partner' },
  currency: { description: 'ISO 4217; goes with a partner' },
  least: { description: 'at least so much, such as 12.50; goes with a currency' },
  greatest: { description: 'at most so much; goes with a currency' },
  after: { description: 'a page’s `next`; of partners, the last one’s name' },
  before: { description: 'acts before the one of this number' },
  target: { description: 'acts on this' },
  by: { description: 'acts of this operator' },
  q: { description: 'an id, key, reference, provider’s id or webhook-id', required: true },
} satisfies Record<string, object>;
type Parameter = keyof typeof parameters;

/** What the document says of a path that reads, beside what the table of routes says. */
type Reading = {
  operationId: string;
  summary: string;
  answer: string;
  query: readonly Parameter[];
};

const amounts = ['currency', 'least', 'greatest'] as const;
const filters = ['partner', 'status', 'from', 'until', 'reference', ...amounts, 'after'] as const;
const actsBy = ['before', 'act', 'target', 'by'] as const;

const readings: Readonly<Record<string, Reading>> = {
  '/api/v1/flow': reading('readFlow', 'Flow', 'The pipeline as it is now, and its last hour.'),
  '/api/v1/payments': reading('listPayments', 'PaymentPage', 'Payments, newest first.', filters),
  '/api/v1/payments/find': reading(
    'findPayments',
    'Found',
    'Payments and what follows them, by whatever one has of them; 50 at most.',
    ['q', 'partner'],
  ),
  '/api/v1/payments/{id}': reading(
    'readPayment',
    'Payment',
    'One payment, refund, capture or cancellation, as every table has it.',
  ),
  '/api/v1/payments/{id}/layers': reading(
    'readLayers',
    'Layers',
    'The same as the layers themselves have it: claim, records of Kafka, provider.',
  ),
  '/api/v1/dead-letters': reading(
    'listDeadLetters',
    'DeadLetters',
    'What could not go on and was set aside.',
    ['show'],
  ),
  '/api/v1/dead-letters/{id}': reading('readDeadLetter', 'Letter', 'One of them, as it was.'),
  '/api/v1/webhooks': reading(
    'listWebhooks',
    'Webhooks',
    'Webhooks, newest first, and the endpoints that they go to.',
    ['partner', 'state', 'after'],
  ),
  '/api/v1/settlements': reading(
    'listSettlements',
    'Settlements',
    'What partners are owed by day and currency; the last week unless asked otherwise.',
    ['partner', 'from', 'until'],
  ),
  '/api/v1/partners': reading(
    'listPartners',
    'Partners',
    'Partners by name, 100 at a time, and what may be shown of their keys.',
    ['after'],
  ),
  '/api/v1/audit': reading(
    'readAudit',
    'Audit',
    'What the last scheduled audit found, what it closed, and what Kafka lost.',
  ),
  '/api/v1/acts': reading('listActs', 'Acts', 'Who did what and why, newest first.', actsBy),
  '/api/v1/acts/{id}': reading('readAct', 'Act', 'One act.'),
  '/api/v1/break': reading(
    'readBreak',
    'Break',
    'What of a demo can be broken, and what is under way; there is none in production.',
  ),
  '/api/v1/session': reading(
    'readSession',
    'Session',
    'Who asks, and the token that the forms of a browser bring along.',
  ),
};

function reading(
  operationId: string,
  answer: string,
  summary: string,
  query: readonly Parameter[] = [],
): Reading {
  return { operationId, answer, summary, query };
}

const requestId = { 'Request-Id': { $ref: '#/components/headers/RequestId' } };

/** What a refusal of each status is, once for all operations. */
const refused = new Map(
  [...Map.groupBy(Object.keys(refusals) as RefusalCode[], (code) => refusals[code].status)].map(
    ([status, codes]) => {
      const said = codes.map((code) => `\`${code}\`: ${refusals[code].title}.`);
      const content = { 'application/problem+json': { schema: json.ref('Problem') } };
      return [`Refused${status}`, { description: said.join(' '), headers: requestId, content }];
    },
  ),
);

function answers(schema: string, codes: readonly RefusalCode[]): object {
  const statuses = new Set(codes.map((code) => refusals[code].status));
  const problems = [...statuses].map((status) => {
    return [status, { $ref: `#/components/responses/Refused${status}` }] as const;
  });
  const content = { 'application/json': { schema: json.ref(schema) } };
  const found = { description: 'As asked.', headers: requestId, content };
  return { 200: found, ...Object.fromEntries(problems) };
}

const anyRefusal = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'misdirected',
  'rate_limited',
  'internal_error',
  'unavailable',
] as const satisfies RefusalCode[];

function describeReading(path: string, role: Route['role']): object {
  const described = readings[path];
  if (described === undefined) throw new Error(`say in openapi.ts what ${path} reads`);
  const { operationId, summary, answer, query } = described;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    in: 'path',
    name,
    required: true,
    schema: json.text,
  }));
  const inQuery = query.map((name) => ({
    in: 'query',
    name,
    schema: json.text,
    ...parameters[name],
  }));
  const codes = inPath.length > 0 ? [...anyRefusal, 'not_found' as const] : anyRefusal;
  const description = `Needs the role \`${role}\`.`;
  const given = { operationId, summary, description, parameters: [...inPath, ...inQuery] };
  return { ...given, responses: answers(answer, codes) };
}

function describeAct(path: string, role: Route['role']): object {
  const name = path.replace('/api/v1/acts/', '');
  const kind = (kindsOfActs as Readonly<Record<string, KindOfAct>>)[name];
  if (kind === undefined) throw new Error(`say in openapi.ts what ${path} takes`);
  const { label, fields, optional = [] } = kind;
  const common = { reason: 'why, at most 500 characters', form: 'a UUID: the same one acts once' };
  const properties = Object.entries({ ...fields, ...common }).map(([field, told]) => {
    return [field, typeof told === 'string' ? { ...json.text, description: told } : told] as const;
  });
  const schema = json.object(Object.fromEntries(properties), [...optional, 'form']);
  return {
    operationId: name.replaceAll(/[.-](\w)/g, (_, letter: string) => letter.toUpperCase()),
    summary: `${label}.`,
    description: `Needs the role \`${role}\`.`,
    requestBody: { required: true, content: { 'application/json': { schema } } },
    responses: answers('AskedAct', [
      ...anyRefusal,
      'not_ours',
      'not_found',
      'form_reused',
      'body_too_large',
      'unsupported_media_type',
    ]),
  };
}

/**
 * The OpenAPI 3.1 document of every path of the API in this table; `npm run generate` writes it to
 * docs/console-openapi.json. The roles are the table's, the answers' shapes stand with what
 * reads them.
 *
 * @throws for a path of the API that nobody described.
 */
export function describeApi(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { method, path: written, role } of routes) {
    if (!written.startsWith('/api/')) continue;
    const path = written.replaceAll(/:(\w+)/g, '{$1}');
    const operation = method === 'GET' ? describeReading(path, role) : describeAct(path, role);
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  }
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: '/', description: 'the console that serves this document' }],
    security: [{ token: [] }, { session: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'an operator’s token' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-triplock',
          description: 'a browser’s; an act then needs `X-CSRF-Token` too',
        },
      },
      headers: {
        RequestId: {
          required: true,
          description: 'Names this request, also in problems and in the log.',
          schema: json.text,
        },
      },
      responses: Object.fromEntries(refused),
      schemas,
    },
  };
}
