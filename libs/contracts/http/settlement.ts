import { kinds, transactionKinds } from '@triplock/payments';
import { Type } from '../schema.ts';
import { limitSchema, timeOrNull, txnIdSchema } from './fields.ts';
import { paymentFields } from '../kinds/payment.ts';
import { listQueryParser } from './validation.ts';

/** Completes the sentence "expected …". */
export const dayMeaning = 'a day of the calendar as yyyy-mm-dd, in UTC';

const dayPattern = '^[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])$';

/** A day; {@link isDay} also knows how long a month is. */
export const daySchema = Type.String({
  format: 'date',
  pattern: dayPattern,
  description: dayMeaning,
});

/** The query of `GET /v1/settlements`; what validates is what the OpenAPI document shows. */
export const settlementQuerySchema = Type.Object(
  { date: Type.Optional(daySchema) },
  { additionalProperties: false },
);

/** Parses the query of `GET /v1/settlements`, without its `?`. */
export const parseSettlementQuery = listQueryParser(settlementQuerySchema);

const dayForm = new RegExp(dayPattern);

/** Whether a text is a day that there is: no 30 February. */
export function isDay(text: string): boolean {
  return dayForm.test(text) && new Date(`${text}T00:00:00Z`).toISOString().startsWith(text);
}

const sum = (description: string) =>
  Type.Integer({ description: `${description}, in minor units` });
const count = (description: string) => Type.Integer({ minimum: 0, description });

/** How far a day has come. */
const dayStatus = {
  status: Type.Unsafe<string>({
    type: 'string',
    enum: ['open', 'closed'],
    description: '`closed`: it never changes again, what comes late is in a later day',
  }),
  complete_through: timeOrNull(
    'all that was final before it is in; at most the end of the day. RFC 3339, UTC, milliseconds; ' +
      'null before the first look',
  ),
};

const sums = {
  date: daySchema,
  currency: paymentFields.currency,
  gross: sum('all payments that succeeded'),
  refunds: sum('all refunds that succeeded'),
  net: sum('gross less refunds, which may be below zero'),
  payments: count('payments that succeeded'),
  refund_count: count('refunds that succeeded'),
};

/** What a partner is owed of one day in one currency. */
export const settlementSchema = Type.Object(
  { ...sums, ...dayStatus },
  { additionalProperties: false },
);

/** The columns of the CSV file, in their order. */
export const settlementColumns = Object.keys(sums) as (keyof typeof sums)[];

/** The query of `GET /v1/balance`, which takes none. */
export const parseBalanceQuery = listQueryParser(Type.Object({}, { additionalProperties: false }));

/** The answer of `GET /v1/balance`. */
export const balanceSchema = Type.Object(
  {
    object: Type.Literal('balance'),
    data: Type.Array(
      Type.Object(
        {
          currency: paymentFields.currency,
          pending: sum('payments that are accepted and not final'),
          available: sum('payments less refunds of the days that are open, maybe below zero'),
          refunded: sum('all refunds that ever succeeded'),
          settled: sum('payments less refunds of the days that are closed, maybe below zero'),
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/settlements`. */
export const settlementListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    date: daySchema,
    ...dayStatus,
    data: Type.Array(Type.Unsafe<object>({ $ref: 'Settlement#' })),
  },
  { additionalProperties: false },
);

const settledKinds = transactionKinds.filter((kind) => kinds[kind].settlement !== undefined);

const entryIdSchema = Type.String({
  pattern: '^[1-9]\\d{3}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])\\.[1-9]\\d{0,17}$',
  description: 'the id of an entry of yours from a page before',
});

/** The query of `GET /v1/balance/entries`; what validates is what the OpenAPI document shows. */
export const balanceEntryQuerySchema = Type.Object(
  {
    limit: Type.Optional(limitSchema),
    starting_after: Type.Optional(entryIdSchema),
    date: Type.Optional(daySchema),
    currency: Type.Optional(paymentFields.currency),
  },
  { additionalProperties: false },
);

/** Parses the query of `GET /v1/balance/entries`, without its `?`. */
export const parseBalanceEntryQuery = listQueryParser(balanceEntryQuerySchema);

/** What one transaction adds to the balance, and to the settlement of a day. */
export const balanceEntrySchema = Type.Object(
  {
    id: Type.String({ ...entryIdSchema, description: 'its day and its number' }),
    object: Type.Literal('balance_entry'),
    type: Type.Unsafe<string>({ type: 'string', enum: settledKinds }),
    source: Type.String({ ...txnIdSchema, description: 'the id of what it comes from' }),
    amount: Type.Integer({
      format: 'int64',
      description: 'minor units; below zero of what was given back',
    }),
    currency: paymentFields.currency,
    settlement_date: Type.String({ ...daySchema, description: 'the settlement that it is in' }),
    settled_at: Type.String({
      format: 'date-time',
      description: 'when it was final: before its settlement, where that day was closed already',
    }),
  },
  { additionalProperties: false },
);

/** The answer of `GET /v1/balance/entries`. */
export const balanceEntryListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<object>({ $ref: 'BalanceEntry#' })),
    has_more: Type.Boolean(),
  },
  { additionalProperties: false },
);
