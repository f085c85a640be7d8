import { readFile } from 'node:fs/promises';
import { fastifySwagger } from '@fastify/swagger';
import {
  balanceEntryListSchema,
  balanceEntrySchema,
  apiKeyListSchema,
  apiKeySchema,
  apiVersions,
  balanceSchema,
  disputeSchema,
  eventFeedSchema,
  fedEventSchema,
  keyStatusSchema,
  newApiKeySchema,
  newWebhookEndpointSchema,
  problemSchema,
  redeliveryRequestSchema,
  settlementListSchema,
  schemaNameOf,
  settlementSchema,
  transactionContracts,
  webhookDeliveryListSchema,
  webhookBodySchemas,
  webhookDeliverySchema,
  webhookEndpointChangesSchema,
  webhookEndpointListSchema,
  webhookEndpointRequestSchema,
  webhookEndpointSchema,
  webhookHeaders,
  webhookRedeliverySchema,
  webhookSecretSchema,
  webhookTestSchema,
} from '@triplock/contracts';
import { transactionKinds } from '@triplock/payments';
import { createDocument, documentAnswer, type HttpDocument } from '@triplock/runtime';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { forGenerators, type Described } from './for-generators.ts';

const info = {
  title: 'Triplock',
  version: '1',
  description:
    'A payment takes effect once, and no accepted payment is lost, whatever crashes: effectively ' +
    'once. So do refunds, captures and cancellations. Each needs an `Idempotency-Key`, as do a new ' +
    'webhook endpoint, secret or API key and sending the webhooks of a window again; repeat a request with ' +
    'the same key and body as often as you ' +
    'like. What else changes something needs none: repeating it does no harm.\n\nA `Triplock-Version` in a request asks for a version of ' +
    `this interface: ${apiVersions.join(', ')}. Without one it is that which was current when the API ` +
    'key was made. Another one is a 400.',
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

/** By the names that the operations refer to, e.g. `{ $ref: 'Payment#' }`. */
const schemas = {
  ...schemasOfTransactions(),
  Dispute: disputeSchema,
  Settlement: settlementSchema,
  SettlementList: settlementListSchema,
  Balance: balanceSchema,
  BalanceEntry: balanceEntrySchema,
  BalanceEntryList: balanceEntryListSchema,
  KeyStatus: keyStatusSchema,
  Event: fedEventSchema,
  EventList: eventFeedSchema,
  WebhookEndpointRequest: webhookEndpointRequestSchema,
  WebhookEndpointCreation: newWebhookEndpointSchema,
  WebhookEndpointChanges: webhookEndpointChangesSchema,
  WebhookEndpoint: webhookEndpointSchema,
  WebhookEndpointList: webhookEndpointListSchema,
  WebhookTest: webhookTestSchema,
  WebhookSecret: webhookSecretSchema,
  WebhookDelivery: webhookDeliverySchema,
  WebhookDeliveryList: webhookDeliveryListSchema,
  WebhookRedeliveryRequest: redeliveryRequestSchema,
  WebhookRedelivery: webhookRedeliverySchema,
  ApiKeyCreation: newApiKeySchema,
  PartnerKey: apiKeySchema,
  ApiKeyList: apiKeyListSchema,
  Problem: problemSchema,
};

/** `RefundRequest`, `AcceptedRefund` and `Refund`, and so of each kind. */
function schemasOfTransactions() {
  const each = transactionKinds.flatMap((kind) => {
    const name = schemaNameOf(kind);
    const { request, accepted, shown } = transactionContracts[kind];
    return [
      [`${name}Request`, request],
      [`Accepted${name}`, accepted],
      [name, shown],
    ] as const;
  });
  return Object.fromEntries(each);
}

const received = {
  '2XX': { description: 'Received: the webhook is delivered, and is not sent again.' },
  '410': { description: 'Gone: nothing is sent here any more until the endpoint is set again.' },
  default: { description: 'Not received: it is sent again under the same id, for 24 hours.' },
};

/** What the gateway's partners get, by type, at the URL of their endpoint. */
const webhooks = Object.fromEntries(
  Object.entries(webhookBodySchemas).map(([type, schema]) => [
    type,
    {
      post: {
        operationId: type.replaceAll(/[._](\w)/g, (_, letter: string) => letter.toUpperCase()),
        summary: type,
        description:
          'Signed as Standard Webhooks asks: verify it by one of its libraries before anything of ' +
          'it is believed. Copies come under one `webhook-id`; handle each id once.',
        security: [],
        parameters: webhookHeaders.map(([name, description]) => ({
          in: 'header' as const,
          name,
          required: true,
          description,
          schema: { type: 'string' as const },
        })),
        requestBody: { required: true, content: { 'application/json': { schema } } },
        responses: received,
      },
    },
  ]),
);

/**
 * Collects the schemas of all routes that are added after it into an OpenAPI 3.1 document and
 * serves it at `/openapi.json`. The schemas are those that validate, so the document cannot differ.
 */
export async function documentOpenApi(app: FastifyInstance): Promise<void> {
  for (const [name, schema] of Object.entries(schemas)) app.addSchema({ ...schema, $id: name });
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info,
      components: { securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } } },
      security: [{ apiKey: [] }],
      servers: [{ url: '/', description: 'the gateway that serves this document' }],
      webhooks,
    },
    convertConstToEnum: false,
    transformObject: (made) =>
      forGenerators(withRequestId((made as { openapiObject: unknown }).openapiObject as Described)),
    refResolver: { buildLocalReference: (json) => json.$id as keyof typeof schemas },
  });
  const made = once(() => createDocument('application/json', renderOpenApi(app)));
  // No request pays for making it; and no route can be added any more.
  app.addHook('onReady', async () => void made());
  app.get(
    '/openapi.json',
    { config: { access: 'public' }, schema: { hide: true } },
    (request, reply) => sendDocument(request, reply, made()),
  );
}

function sendDocument(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  document: HttpDocument,
): FastifyReply {
  const answer = documentAnswer(headers, document);
  return reply.code(answer.status).headers(answer.headers).send(answer.body);
}

function once<Value>(make: () => Value): () => Value {
  let made: { value: Value } | undefined;
  return () => (made ??= { value: make() }).value;
}

const requestIdHeader = {
  required: true,
  description: 'Names this request, also in problems and in our logs: quote it to support.',
  schema: { type: 'string' },
};

const versionHeader = {
  required: true,
  description: 'The version of the interface that the answer is in.',
  schema: { type: 'string' },
};

/** Adds to every answer the headers that all of them have. */
function withRequestId(document: Described): Described {
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  for (const answer of operations.flatMap(({ responses }) => Object.values(responses))) {
    const ofAll = { 'Request-Id': requestIdHeader, 'Triplock-Version': versionHeader };
    answer.headers = { ...ofAll, ...answer.headers };
  }
  return document;
}

/** The document as text, the way it is served and checked in. */
export function renderOpenApi(app: FastifyInstance): string {
  return `${JSON.stringify(app.swagger(), undefined, 2)}\n`;
}

/** Nothing from elsewhere and nothing inline; `data:` images are the icons in the style sheet. */
const policy = {
  'default-src': "'none'",
  'script-src': "'self'",
  'style-src': "'self'",
  'img-src': "'self' data:",
  'connect-src': "'self'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
};

/** Of Swagger UI, as its package has them. */
const files = [
  'swagger-ui.css',
  'index.css',
  'swagger-ui-bundle.js',
  'swagger-ui-standalone-preset.js',
  'favicon-16x16.png',
  'favicon-32x32.png',
] as const;

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
};

const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Triplock</title>
    <link rel="stylesheet" href="/docs/static/swagger-ui.css" />
    <link rel="stylesheet" href="/docs/static/index.css" />
    <link rel="icon" type="image/png" href="/docs/static/favicon-32x32.png" sizes="32x32" />
    <link rel="icon" type="image/png" href="/docs/static/favicon-16x16.png" sizes="16x16" />
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="/docs/static/swagger-ui-bundle.js"></script>
    <script src="/docs/static/swagger-ui-standalone-preset.js"></script>
    <script src="/docs/static/swagger-initializer.js"></script>
  </body>
</html>
`;

/** Without the bar on top, which asks for the address of another document. */
const initializer = `window.onload = () => {
  const ui = SwaggerUIBundle({
    dom_id: '#swagger-ui',
    url: '/docs/json',
    layout: 'BaseLayout',
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
  });
};
`;

/**
 * Serves the OpenAPI document as a page at `/docs`, by Swagger UI from this process alone: it works
 * without a network and needs no API key. What it is asked to try goes to this gateway.
 *
 * Its files are served as bytes, and not by its plugin: that reads one from the disk for each who
 * asks, and a second Fastify to render it once makes the first slower at everything.
 */
export async function addDocsPage(app: FastifyInstance): Promise<void> {
  const made = new Map<string, HttpDocument>();
  const add = (path: string, kind: string, content: string | Buffer) =>
    made.set(path, createDocument(types[kind] ?? kind, content));
  for (const path of ['/docs', '/docs/']) add(path, 'html', page);
  add('/docs/static/swagger-initializer.js', 'js', initializer);
  const folder = new URL('static/', import.meta.resolve('@fastify/swagger-ui'));
  for (const file of files) {
    add(`/docs/static/${file}`, file.split('.').at(-1)!, await readFile(new URL(file, folder)));
  }
  const yaml = '/docs/yaml';
  const paths = [...made.keys(), '/docs/json', yaml];
  app.addHook('onReady', async () => {
    add('/docs/json', 'application/json', JSON.stringify(app.swagger()));
  });
  const documentAt = (path: string) => {
    // Made when it is first asked for: it takes as long as all else here, and few ask for it.
    if (path === yaml && !made.has(yaml)) {
      add(yaml, 'application/yaml', app.swagger({ yaml: true }));
    }
    return made.get(path)!;
  };
  const headers = {
    'Content-Security-Policy': Object.entries(policy)
      .map((each) => `${each.join(' ')};`)
      .join(' '),
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
  };
  for (const path of paths) {
    app.get(path, { config: { access: 'public' }, schema: { hide: true } }, (request, reply) =>
      sendDocument(request, reply.headers(headers), documentAt(path)),
    );
  }
}
