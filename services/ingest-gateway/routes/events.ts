import {
  eventFeedQuerySchema,
  parseEventFeedQuery,
  Problem,
  renderPosition,
} from '@triplock/contracts';
import type { FedEvent } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { FastifySchema } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { incorrectParameters, queryText } from '../http/problems.ts';
import { askStore } from '../http/turns.ts';
import { pageCost } from './list-transactions.ts';
import type { PartnerRoutes } from './partner-routes.ts';
import { problems } from './schemas.ts';

const readFeed: FastifySchema = {
  operationId: 'listEvents',
  summary: 'Read your events in order',
  description:
    'Everything that webhooks tell, in the same words, whether an endpoint wants it or not, oldest ' +
    'first. Nothing ever comes before what you have read: keep `next`, send it as `after`, at once ' +
    'while `has_more` is true and every few seconds else, and you get every event, each payment in ' +
    'the order of `sequence`. Without `after` it begins with the oldest behind all that left by age, or ' +
    'with `since` five minutes before that time. Events are kept for 90 days where nothing else is ' +
    'set. What is told of endpoints, as `endpoint.disabled`, is not in it. An ' +
    'event may come again after a recovery of the database: handle each `id` once, as of webhooks. ' +
    'With `type` or `object` a page may have few events or none and yet `has_more`. An answer is 256 ' +
    'KiB at most, or one event.',
  querystring: eventFeedQuerySchema,
  response: {
    200: {
      description: 'A part of the feed.',
      content: { 'application/json': { schema: { $ref: 'EventList#' } } },
    },
    ...problems(
      'invalid_request',
      'unauthorized',
      'position_expired',
      'internal_error',
      'unavailable',
    ),
  },
};

/** `GET /v1/events`. */
export function addEventRoutes(app: PartnerRoutes, gateway: Gateway): void {
  const options = { schema: readFeed, scope: 'any', config: pageCost } as const;
  app.get('/v1/events', options, async (request, reply) => {
    const { partnerId, url } = request;
    const parsed = parseEventFeedQuery(partnerId, queryText(url));
    if (parsed.outcome === 'invalid') throw incorrectParameters(parsed.errors);
    const page = await askStore(gateway, { request, what: 'reading events' }, () =>
      gateway.events.read({ partnerId, ...parsed.query }),
    );
    if (page.outcome === 'expired') throw expired();
    const data = page.events.map((event) => render(partnerId, event)).join(',');
    const next = renderPosition(partnerId, page.next);
    return reply
      .type('application/json')
      .send(`{"object":"list","data":[${data}],"next":"${next}","has_more":${page.more}}`);
  });
}

/** The bytes of its webhook, with its id and its position before them. */
function render(partnerId: PartnerId, { eventId, position, body }: FedEvent): string {
  const place = renderPosition(partnerId, position);
  return `{"id":"${eventId}","position":"${place}",${body.slice(1)}`;
}

function expired(): Problem {
  return new Problem(
    'position_expired',
    'Events behind this position are no longer kept. Leave `after` out to read all that are, and ' +
      'compare what you have with the lists of payments and refunds.',
  );
}
