import type { Dispute, DisputeId, DisputeStatus, JsonObject, TxnId } from '@triplock/payments';
import { Type } from '../schema.ts';
import { paymentFields } from '../kinds/payment.ts';
import { idPattern, limitSchema, pageSizeUsual, shownTime, txnIdSchema } from './fields.ts';
import type { FieldProblem } from './problem.ts';
import { listQueryParser } from './validation.ts';

const id = Type.String({ pattern: `^${idPattern}$`, description: 'a lower-case UUIDv8' });

const statuses = ['open', 'won', 'lost'] as const satisfies readonly DisputeStatus[];
const status = {
  type: 'string',
  enum: [...statuses],
} as const;

/** A dispute as `GET /v1/disputes/{id}` shows it. */
export const disputeSchema = Type.Object(
  {
    id,
    object: Type.Literal('dispute'),
    payment: Type.Unsafe<TxnId>({ ...txnIdSchema, description: 'the id of its payment' }),
    amount: Type.Integer({ minimum: 0, description: 'minor units that are wanted back' }),
    currency: paymentFields.currency,
    reason: Type.String({ description: "in the provider's words, such as `fraudulent`" }),
    status: Type.Unsafe<DisputeStatus>({
      ...status,
      description:
        '`open` until the bank decides; `won`: the money is yours, as where an inquiry is closed; ' +
        '`lost`: it is your customer’s',
    }),
    created_at: Type.String({ ...shownTime, description: 'when it was reported here first' }),
    evidence_due_by: Type.Optional(
      Type.String({
        ...shownTime,
        description:
          'by when the provider wanted evidence when it first told of it, where it does: it may say another time since',
      }),
    ),
    ended_at: Type.Optional(
      Type.String({ ...shownTime, description: 'when it was reported here as won or lost' }),
    ),
    provider: Type.Object(
      { name: Type.String(), dispute_id: Type.String() },
      {
        additionalProperties: false,
        description: 'who reported it, and its id of the dispute, which `payment.disputed` has',
      },
    ),
  },
  { additionalProperties: false },
);

/** A dispute in the form of {@link disputeSchema}. */
export function renderDispute(dispute: Dispute): JsonObject {
  const { paymentId, money, evidenceDueBy, endedAt, provider } = dispute;
  return {
    id: dispute.id,
    object: 'dispute',
    payment: paymentId,
    amount: Number(money.amount),
    currency: money.currency,
    reason: dispute.reason,
    status: dispute.status,
    created_at: dispute.createdAt.toISOString(),
    ...(evidenceDueBy && { evidence_due_by: evidenceDueBy.toISOString() }),
    ...(endedAt && { ended_at: endedAt.toISOString() }),
    provider: { name: provider.name, dispute_id: provider.disputeId },
  };
}

/** The query of `GET /v1/disputes`; what validates is what the OpenAPI document shows. */
export const disputeListQuerySchema = Type.Object(
  {
    limit: Type.Optional(limitSchema),
    starting_after: Type.Optional(
      Type.Unsafe<DisputeId>({
        ...id,
        description: 'the id of a dispute of yours from a page before',
      }),
    ),
    payment: Type.Optional(
      Type.Unsafe<TxnId>({ ...txnIdSchema, description: 'the id of a payment' }),
    ),
    status: Type.Optional(
      Type.Unsafe<DisputeStatus>({ ...status, description: 'open, won or lost' }),
    ),
  },
  { additionalProperties: false },
);

/** What a partner wishes to see of its disputes. */
export type DisputeListQuery = {
  limit: number;
  startingAfter?: DisputeId;
  payment?: TxnId;
  status?: DisputeStatus;
};

/** What parsing gives: the wishes, or everything that is wrong with them (the first 50). */
export type ParsedDisputeListQuery =
  | { outcome: 'valid'; query: DisputeListQuery }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

const parse = listQueryParser(disputeListQuerySchema);

/** Parses the query of `GET /v1/disputes`, without its `?`. */
export function parseDisputeListQuery(query: string): ParsedDisputeListQuery {
  const parsed = parse(query);
  if (parsed.outcome === 'invalid') return parsed;
  const { limit = pageSizeUsual, starting_after: startingAfter, payment, status } = parsed.values;
  return { outcome: 'valid', query: { limit, startingAfter, payment, status } };
}
