import { transactionKinds, type TransactionKind } from '@triplock/payments';
import { Type } from '../schema.ts';
import { txnIdSchema } from './fields.ts';

/** What became of a key. */
export type KeyStatus = { kind: TransactionKind; key: string } & (
  | { status: 'accepted'; id: string }
  | { status: 'in_flight' }
  | { status: 'never_accepted'; asOf: Date }
);

/** The kind in the path. */
export const kindSchema = Type.Unsafe<TransactionKind>({
  type: 'string',
  enum: [...transactionKinds],
  description: 'what the key was sent for',
});

/** The answer of `GET /v1/keys/{kind}/{key}`. */
export const keyStatusSchema = Type.Object(
  {
    object: Type.Literal('key'),
    kind: kindSchema,
    key: Type.String({ minLength: 1, maxLength: 255, description: 'as it was asked for' }),
    status: Type.Unsafe<KeyStatus['status']>({
      type: 'string',
      enum: ['accepted', 'in_flight', 'never_accepted'],
      description:
        '`accepted`: it takes effect once. `in_flight`: a request under it is at work, or ended ' +
        'without an answer just now; ask again. `never_accepted`: see `as_of`',
    }),
    id: Type.Optional(txnIdSchema),
    as_of: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'with `never_accepted`: of what arrived before this time nothing was or will be accepted',
      }),
    ),
  },
  { additionalProperties: false },
);

/** The answer in the form of {@link keyStatusSchema}. */
export function renderKeyStatus(of: KeyStatus): object {
  const { kind, key, status } = of;
  return {
    object: 'key',
    kind,
    key,
    status,
    ...(of.status === 'accepted' && { id: of.id }),
    ...(of.status === 'never_accepted' && { as_of: of.asOf.toISOString() }),
  };
}
