import { fastifySwagger } from '@fastify/swagger';
import { explainBody, problemSchema, type BodySchema } from '@triplock/contracts';
import { toJson } from '@triplock/command';
import type { JsonValue } from '@triplock/payments';
import { fastify, type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify';
import { Refusal, refusals, type RefusalCode, type Route } from '../console.ts';
import { routes } from '../routes.ts';
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

const problem = json.named('Problem', {
  ...problemSchema,
  properties: {
    ...problemSchema.properties,
    code: { type: 'string', enum: Object.keys(refusals) },
  },
});

const requestId = { 'Request-Id': { $ref: '#/components/headers/RequestId' } };

/** What a refusal of each status is, alike for all operations. */
const refused = Object.fromEntries(
  [...Map.groupBy(Object.keys(refusals) as RefusalCode[], (code) => refusals[code].status)].map(
    ([status, codes]) => {
      const said = codes.map((code) => `\`${code}\`: ${refusals[code].title}.`);
      const content = { 'application/problem+json': { schema: problem } };
      return [status, { description: said.join(' '), content }] as const;
    },
  ),
);

const anyRefusal = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'misdirected',
  'rate_limited',
  'internal_error',
  'unavailable',
] as const satisfies RefusalCode[];

const ofActs = [
  'not_ours',
  'not_found',
  'form_reused',
  'body_too_large',
  'unsupported_media_type',
] as const satisfies RefusalCode[];

/** Fastify's schema of a route: of a page what it can be asked, of the API all that is promised. */
export function schemaOf({ method, path, role, asks, api }: Route): FastifySchema {
  const isAct = method === 'POST';
  const asked = asks && (isAct ? { body: asks } : { querystring: asks });
  if (api === undefined) return { ...asked, hide: true };
  const { answers, ...told } = api;
  const codes: readonly RefusalCode[] = [
    ...anyRefusal,
    ...(isAct ? ofActs : []),
    ...(path.includes(':') ? (['not_found'] as const) : []),
  ];
  const found = { description: 'As asked.', content: { 'application/json': { schema: answers } } };
  const statuses = codes.map((code) => refusals[code].status);
  const response = Object.fromEntries(statuses.map((status) => [status, refused[status]]));
  const description = `Needs the role \`${role}\`.`;
  return { ...asked, ...told, description, response: { 200: found, ...response } };
}

/** How Fastify judges what is asked, and writes what is answered, by the schemas of the routes. */
export const schemaController = {
  compilersFactory: {
    buildValidator: () => validatorOf as never,
    buildSerializer: () => () => toJson,
  },
};

type Judged = { schema: BodySchema; url: string };

/**
 * Judges the fields of a query, a form or a JSON object, and gives those that are not empty. Of
 * programs each is known and sent once, unless it is a list; a page takes the first of what it
 * knows, and leaves the rest aside, which may be of a mail's link.
 */
function validatorOf({ schema, url }: Judged) {
  const explain = explainBody(schema);
  const isOfApi = url.startsWith('/api/');
  return (given: URLSearchParams | null) => {
    const sent = Map.groupBy(given ?? [], ([name]) => name);
    const value = Object.fromEntries(
      [...sent].flatMap(([name, pairs]): [string, JsonValue][] => {
        const type = typeOf(schema, name);
        const texts = pairs.map(([, text]) => text.trim()).filter((text) => text !== '');
        const [first] = texts;
        if (first === undefined || (type === undefined && !isOfApi)) return [];
        if (type === 'array' || (isOfApi && texts.length > 1)) return [[name, texts]];
        return [[name, type === 'integer' ? wholeIn(first) : first]];
      }),
    );
    const errors = explain(value);
    if (errors.length === 0) return { value };
    return { error: new Refusal('invalid_request', 'Correct this, and ask again.', errors) };
  };
}

/** Nothing for a field that is not known. */
function typeOf({ properties }: BodySchema, name: string): unknown {
  const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return known && (known as json.Schema)['type'];
}

/** Only plain digits are a number: `1e1`, `+5` and `0x5` are none. */
const wholeIn = (text: string) => (/^\d{1,15}$/.test(text) ? Number(text) : text);

/** Collects the schemas of all routes that are added after it into `app.swagger()`. */
export async function collectSchemas(app: FastifyInstance): Promise<void> {
  for (const [name, schema] of Object.entries(json.namedIn(routes.map(schemaOf)))) {
    app.addSchema({ ...schema, $id: name });
  }
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info,
      servers: [{ url: '/', description: 'the console that serves this document' }],
      security: [{ token: [] }, { session: [] }],
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
            schema: { type: 'string' },
          },
        },
      },
    },
    convertConstToEnum: false,
    transformObject: (made) => saidOnce((made as { openapiObject: unknown }).openapiObject as Made),
    refResolver: { buildLocalReference: ({ $id }) => $id as string },
  });
}

type Made = {
  paths: Record<string, Record<string, { responses: Record<string, object> }>>;
  components: object;
};

/** With the header of every answer, and each refusal once: an operation refers to it. */
function saidOnce(made: Made): Made {
  const responses: Record<string, object> = {};
  for (const operation of Object.values(made.paths).flatMap((each) => Object.values(each))) {
    for (const [status, response] of Object.entries(operation.responses)) {
      const described = { ...response, headers: requestId };
      const name = `Refused${status}`;
      if (status >= '400') responses[name] = described;
      operation.responses[status] =
        status >= '400' ? { $ref: `#/components/responses/${name}` } : described;
    }
  }
  return { ...made, components: { ...made.components, responses } };
}

/**
 * The OpenAPI document of all routes as text, made without a console. `npm run generate` writes it
 * to docs/console-openapi.json.
 */
export async function describeConsole(): Promise<string> {
  const app = fastify({ schemaController });
  await collectSchemas(app);
  for (const route of routes) {
    const { method, path: url } = route;
    const options: RouteOptions = { method, url, schema: schemaOf(route), handler: unasked };
    app.route(options);
  }
  await app.ready();
  return `${JSON.stringify(app.swagger(), undefined, 2)}\n`;
}

function unasked(): never {
  throw new Error('nobody asks this one');
}
