import { createLogger, createMetrics } from '@triplock/runtime';
import type { Gateway } from '../gateway.ts';
import { createRateLimiter } from '../http/admission.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { renderOpenApi } from '../http/openapi.ts';
import { createHttpServer } from '../http/server.ts';
import { addGatewayRoutes } from './gateway-routes.ts';

/**
 * The OpenAPI document of all routes as text, made without anything that they stand on.
 * `npm run generate` writes it to docs/openapi.json.
 */
export async function describeGateway(): Promise<string> {
  const logger = createLogger({ service: 'ingest-gateway', instance: 'none', level: 'silent' });
  const metrics = gatewayMetrics(createMetrics('none'));
  const app = await createHttpServer({
    logger,
    admission: {
      authenticate: async () => ({ outcome: 'refused' }),
      partnerRate: createRateLimiter({ perSecond: 1, burst: 1 }),
      failureRate: createRateLimiter({ perSecond: 1, burst: 1 }),
    },
    routes(server) {
      // No request ever comes, so no handler looks at its parts.
      addGatewayRoutes(server, { logger, metrics } as Gateway);
    },
  });
  const text = renderOpenApi(app);
  await app.close();
  return text;
}
