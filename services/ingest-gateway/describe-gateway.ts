import { createLogger } from '@triplock/runtime';
import { createHttpServer } from './http-server.ts';
import { renderOpenApi } from './openapi.ts';
import { addPaymentListRoute, type PaymentListRouteParts } from './payment-list-route.ts';
import { addPaymentRoute, type PaymentRouteParts } from './payment-route.ts';
import { addPaymentsRoute, type PaymentsRouteParts } from './payments-route.ts';
import { createRateLimiter } from './rate-limiter.ts';
import { addWebhookRoutes, type WebhookRoutesParts } from './webhook-routes.ts';

/** Where the OpenAPI document is checked in. */
export const openApiFile = new URL('../../docs/openapi.json', import.meta.url);

/** The OpenAPI document of all routes as text, made without anything that they stand on. */
export async function describeGateway(): Promise<string> {
  const logger = createLogger({ service: 'ingest-gateway', instance: 'none', level: 'silent' });
  const app = await createHttpServer({
    logger,
    admission: {
      authenticate: async () => ({ outcome: 'refused' }),
      partnerRate: createRateLimiter({ perSecond: 1, burst: 1 }),
      failureRate: createRateLimiter({ perSecond: 1, burst: 1 }),
    },
    routes(server) {
      // No request ever comes, so no handler looks at its parts.
      addPaymentsRoute(server, { logger } as PaymentsRouteParts);
      addPaymentRoute(server, { logger } as PaymentRouteParts);
      addPaymentListRoute(server, { logger } as PaymentListRouteParts);
      addWebhookRoutes(server, { logger } as WebhookRoutesParts);
    },
  });
  const text = renderOpenApi(app);
  await app.close();
  return text;
}
