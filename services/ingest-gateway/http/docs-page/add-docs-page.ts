import type { FastifyInstance } from 'fastify';
import type { Document } from './document.ts';
import { renderDocs } from './render-docs.ts';

/** Serves the OpenAPI document as a page at `/docs`; it needs no API key. */
export function addDocsPage(app: FastifyInstance): void {
  // The routes are known once the server is ready; then the page never changes.
  let page: ReturnType<typeof renderDocs> | undefined;
  app.get('/docs', { config: { access: 'public' }, schema: { hide: true } }, (_, reply) => {
    page ??= renderDocs(app.swagger() as unknown as Document);
    return reply
      .header('Content-Security-Policy', page.contentSecurityPolicy)
      .header('X-Content-Type-Options', 'nosniff')
      .header('Referrer-Policy', 'no-referrer')
      .type('text/html; charset=utf-8')
      .send(page.body);
  });
}
