import { createLogger, createMetrics } from '@triplock/runtime';
import { writeFileSync } from 'node:fs';
import type { Gateway } from '../gateway.ts';
import { createRateLimiter } from '../http/admission.ts';
import { gatewayMetrics } from '../http/metrics.ts';
import { renderOpenApi } from '../http/openapi.ts';
import { createHttpServer } from '../http/server.ts';
import { addGatewayRoutes } from './gateway-routes.ts';

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
      addGatewayRoutes(server, { logger, metrics } as Gateway);
    },
  });
  const text = renderOpenApi(app);
  await app.close();
  return text;
}

// Run it after a change of a route or a schema:
// npx node services/ingest-gateway/routes/write-openapi.ts
if (import.meta.main) writeFileSync(openApiFile, await describeGateway());
