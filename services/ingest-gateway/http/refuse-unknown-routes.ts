import { Problem } from '@triplock/contracts';
import type { FastifyInstance, FastifyRequest } from 'fastify';

const nothingHere =
  'There is nothing at this path. GET /docs shows every operation as a page to read, and GET /openapi.json the same for programs; neither needs an API key.';

type KnownPath = { pattern: RegExp; methods: string[] };

/**
 * Answers what no route takes: 405 with `Allow` when the path is known under other methods, else
 * 404. It comes before authentication and parsing, so that neither depends on a key or a body.
 */
export function refuseUnknownRoutes(app: FastifyInstance): void {
  const known = new Map<string, KnownPath>();
  app.addHook('onRoute', ({ url, method }) => {
    const path = known.get(url) ?? { pattern: patternOf(url), methods: [] };
    path.methods.push(...[method].flat());
    known.set(url, path);
  });
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.is404) done(refusal(request, known.values()));
    else done();
  });
  // Reached by methods that Fastify itself does not know, which skip the hooks.
  app.setNotFoundHandler((request) => {
    throw refusal(request, known.values());
  });
}

function refusal(request: FastifyRequest, known: Iterable<KnownPath>): Problem {
  const path = request.url.replace(/\?.*$/s, '');
  for (const { pattern, methods } of known) {
    if (!pattern.test(path)) continue;
    const allow = methods.join(', ');
    return new Problem('method_not_allowed', `Use one of: ${allow}.`, { headers: { allow } });
  }
  return new Problem('not_found', nothingHere);
}

/**
 * `/v1/payments/:id` or `/v1/things/:name(.*).csv` as a pattern; no other character of our paths is
 * special in one.
 */
function patternOf(url: string): RegExp {
  const literal = url.split(/:\w+(?:\([^)]*\))?/).map((part) => part.replaceAll('.', '\\.'));
  return new RegExp(`^${literal.join('[^/]+')}$`);
}
