import { createLogger, createMetrics } from '@triplock/runtime';
import { addGatewayRoutes, type GatewayRoutesParts } from './gateway-routes.ts';
import { createHttpServer } from '../http/http-server.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { renderOpenApi } from '../http/openapi.ts';
import { createRateLimiter } from '../http/rate-limiter.ts';

/** Where the OpenAPI document is checked in. */
export const openApiFile = new URL('../../../docs/openapi.json', import.meta.url);

/** The OpenAPI document of all routes as text, made without anything that they stand on. */
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
      addGatewayRoutes(server, { logger, metrics } as GatewayRoutesParts);
    },
  });
  const text = renderOpenApi(app);
  await app.close();
  return text;
}
