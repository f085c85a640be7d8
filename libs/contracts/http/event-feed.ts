import {
  deriveId,
  eventTypes,
  isTxnId,
  type EventType,
  type PartnerId,
  type TxnId,
} from '@triplock/payments';
import { Type } from '../schema.ts';
import { idPattern, limitSchema, pageSizeUsual, txnIdSchema } from './fields.ts';
import type { FieldProblem } from './problem.ts';
import { noDayIn, timeOf, timeSchema } from './times.ts';
import { fieldProblem, listQueryParser } from './validation.ts';

const positionMeaning = 'a `position` or `next` that you were given here';

const positionSchema = Type.String({
  pattern: '^\\d{1,18}-[0-9a-f]{8}$',
  description: positionMeaning,
});

/** What events are of: how the names of their types begin. */
const eventObjects = [...new Set(eventTypes.map((type) => type.split('.')[0]!))];

/** The query of `GET /v1/events`; what validates is what the OpenAPI document shows. */
export const eventFeedQuerySchema = Type.Object(
  {
    after: Type.Optional(positionSchema),
    since: Type.Optional(timeSchema),
    limit: Type.Optional(limitSchema),
    type: Type.Optional(
      Type.Unsafe<EventType>({
        type: 'string',
        enum: eventTypes,
        description: `the type of an event: ${eventTypes.join(', ')}`,
      }),
    ),
    object: Type.Optional(
      Type.String({
        pattern: `^(${eventObjects.join('|')}|${idPattern})$`,
        description: `${eventObjects.join(', ')}, or the id of one`,
      }),
    ),
  },
  { additionalProperties: false },
);

/** What a partner wishes to read of its feed. */
export type EventFeedQuery = {
  from: { after: bigint } | { since: Date } | undefined;
  limit: number;
  type: EventType | undefined;
  of: { object: string } | { txnId: TxnId } | undefined;
};

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedEventFeedQuery =
  | { outcome: 'valid'; query: EventFeedQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const parse = listQueryParser(eventFeedQuerySchema);

/** Parses a partner's query of `GET /v1/events`, without its `?`. */
export function parseEventFeedQuery(partnerId: PartnerId, query: string): ParsedEventFeedQuery {
  const parsed = parse(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { after, since, limit = pageSizeUsual, type, object } = parsed.values;
  const position = after === undefined ? undefined : parsePosition(partnerId, after);
  const errors = noDayIn({ since });
  if (after !== undefined && position === undefined) {
    errors.push(fieldProblem(['after'], `expected ${positionMeaning}`));
  }
  if (after !== undefined && since !== undefined) {
    errors.push(fieldProblem(['since'], 'send either `after` or `since`'));
  }
  if (errors.length > 0) return { outcome: 'invalid', errors };
  const from =
    position !== undefined
      ? { after: position }
      : since === undefined
        ? undefined
        : { since: timeOf(since) };
  const of = object === undefined ? undefined : isTxnId(object) ? { txnId: object } : { object };
  return { outcome: 'valid', query: { from, limit, type, of } };
}

/**
 * How a partner is told a position of its feed. A few characters of it are made from the rest and
 * the partner, so that one that was cut, changed, made up or is another partner's is none.
 */
export function renderPosition(partnerId: PartnerId, position: bigint): string {
  return `${position}-${deriveId('position', partnerId, `${position}`).slice(0, 8)}`;
}

/** The position in a text of that form; `undefined` for one that the partner was never told. */
function parsePosition(partnerId: PartnerId, text: string): bigint | undefined {
  const position = BigInt(text.split('-')[0]!);
  return renderPosition(partnerId, position) === text ? position : undefined;
}

/** An event in a feed, as its webhook tells it. */
export const fedEventSchema = Type.Object(
  {
    id: Type.String({ ...txnIdSchema, description: 'the `webhook-id` of its webhooks' }),
    position: Type.String({
      ...positionSchema,
      description: 'where it stands in your feed; go on behind it with `after`',
    }),
    type: Type.Unsafe<string>({ type: 'string', enum: eventTypes }),
    timestamp: Type.String({ format: 'date-time', description: 'RFC 3339, UTC, milliseconds' }),
    sequence: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "its number among its payment's events; a `key_conflict` has none",
      }),
    ),
    data: Type.Unsafe<object>({
      type: 'object',
      additionalProperties: true,
      description: 'the object as the webhook of this type tells it',
    }),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/events`. */
export const eventFeedSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<object>({ $ref: 'Event#' })),
    next: Type.String({
      ...positionSchema,
      description: 'keep it and send it as `after`: the events behind it, now or later',
    }),
    has_more: Type.Boolean({ description: 'whether to ask on at once, or a while later' }),
  },
  { additionalProperties: false },
);
