import { fastifySwaggerUi } from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';

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
