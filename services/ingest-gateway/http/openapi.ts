import { fastifySwagger } from '@fastify/swagger';
import { fastifySwaggerUi } from '@fastify/swagger-ui';
import {
  acceptedPaymentSchema,
  acceptedRefundSchema,
  paymentRequestSchema,
  paymentSchema,
  problemSchema,
  redeliveryRequestSchema,
  refundRequestSchema,
  refundSchema,
  settlementListSchema,
  settlementSchema,
  webhookDeliveryListSchema,
  webhookDeliverySchema,
  webhookEndpointRequestSchema,
  webhookEndpointSchema,
  webhookRedeliverySchema,
  webhookSecretSchema,
} from '@triplock/contracts';
import type { FastifyInstance } from 'fastify';

const info = {
  title: 'Triplock',
  version: '1',
  description:
    'A payment takes effect once, and no accepted payment is lost, whatever crashes: effectively ' +
    'once. So do refunds. Each needs an `Idempotency-Key`, as do a new webhook secret and sending ' +
    'the webhooks of a window again; repeat a request with the same key and body as often as you ' +
    'like. What else changes something needs none: repeating it does no harm.',
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
};

/** By the names that the operations refer to, e.g. `{ $ref: 'Payment#' }`. */
const schemas = {
  PaymentRequest: paymentRequestSchema,
  AcceptedPayment: acceptedPaymentSchema,
  Payment: paymentSchema,
  RefundRequest: refundRequestSchema,
  AcceptedRefund: acceptedRefundSchema,
  Refund: refundSchema,
  Settlement: settlementSchema,
  SettlementList: settlementListSchema,
  WebhookEndpointRequest: webhookEndpointRequestSchema,
  WebhookEndpoint: webhookEndpointSchema,
  WebhookSecret: webhookSecretSchema,
  WebhookDelivery: webhookDeliverySchema,
  WebhookDeliveryList: webhookDeliveryListSchema,
  WebhookRedeliveryRequest: redeliveryRequestSchema,
  WebhookRedelivery: webhookRedeliverySchema,
  Problem: problemSchema,
};

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
    },
    convertConstToEnum: false,
    refResolver: { buildLocalReference: (json) => json.$id as keyof typeof schemas },
  });
  app.get('/openapi.json', { config: { access: 'public' }, schema: { hide: true } }, (_, reply) =>
    reply.type('application/json').send(renderOpenApi(app)),
  );
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

/**
 * Serves the OpenAPI document as a page at `/docs`, by Swagger UI from this process alone: it works
 * without a network and needs no API key. What it is asked to try goes to this gateway.
 */
export async function addDocsPage(app: FastifyInstance): Promise<void> {
  await app.register(async (docs) => {
    docs.addHook('onRoute', (route) => {
      route.config = { ...route.config, access: 'public' };
    });
    docs.addHook('onSend', async (_request, reply) => {
      reply.header('X-Content-Type-Options', 'nosniff').header('Referrer-Policy', 'no-referrer');
    });
    await docs.register(fastifySwaggerUi, {
      routePrefix: '/docs',
      staticCSP: policy,
      // Without the bar on top, which asks for the address of another document.
      uiConfig: { layout: 'BaseLayout', deepLinking: true },
      theme: { title: 'Triplock' },
    });
  });
}
