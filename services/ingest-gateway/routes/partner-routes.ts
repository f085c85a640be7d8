import type {
  FastifyInstance,
  FastifySchema,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
  RouteGenericInterface,
  RouteHandlerMethod,
  RouteShorthandOptions,
} from 'fastify';
import { describeScope, type NeededScope } from '../http/admission.ts';
import { problems } from './schemas.ts';

type Methods = 'get' | 'post' | 'put' | 'patch' | 'delete';

/** Where partners' routes are added: each says what it needs of an API key, or does not compile. */
export type PartnerRoutes = Pick<FastifyInstance, 'addHook'> & Readonly<Record<Methods, AddRoute>>;

type AddRoute = <Generic extends RouteGenericInterface = RouteGenericInterface>(
  path: string,
  options: PartnerRoute<Generic>,
  handler: Handler<Generic>,
) => void;

type Handler<Generic extends RouteGenericInterface> = RouteHandlerMethod<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  Generic
>;

/** What a route says beside its handler. */
type PartnerRoute<Generic extends RouteGenericInterface> = RouteShorthandOptions<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  Generic
> & {
  schema: FastifySchema;
  /** The least that its API key has to be for. */
  scope: NeededScope;
};

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const satisfies readonly Methods[];

/**
 * Adds routes to a server with the scope that they need: whoever has another is refused before the
 * handler, and the OpenAPI document says so.
 */
export function partnerRoutes(server: FastifyInstance): PartnerRoutes {
  const adding = methods.map((method): [Methods, AddRoute] => [
    method,
    (path, { scope, schema, config, ...options }, handler) => {
      const described = { schema: withScope(schema, scope), config: { ...config, scope } };
      server[method](path, { ...options, ...described }, handler);
    },
  ]);
  const addHook = server.addHook.bind<FastifyInstance['addHook']>(server);
  return { addHook, ...(Object.fromEntries<AddRoute>(adding) as Record<Methods, AddRoute>) };
}

function withScope(schema: FastifySchema, scope: NeededScope): FastifySchema {
  const { description, response } = schema;
  const said = describeScope(scope);
  return {
    ...schema,
    description: description === undefined ? said : `${description}\n\n${said}`,
    response: {
      ...(response as object),
      ...(scope === 'any' ? {} : problems('insufficient_scope')),
    },
  };
}
