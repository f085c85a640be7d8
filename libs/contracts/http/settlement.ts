import { Type } from '../schema.ts';
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

/** What a partner is owed of one day in one currency. */
export const settlementSchema = Type.Object(
  {
    date: daySchema,
    currency: paymentFields.currency,
    gross: sum('all payments that succeeded'),
    refunds: sum('all refunds that succeeded'),
    net: sum('gross less refunds, which may be below zero'),
    payments: count('payments that succeeded'),
    refund_count: count('refunds that succeeded'),
  },
  { additionalProperties: false },
);

/** The columns of the CSV file, in their order. */
export const settlementColumns = Object.keys(
  settlementSchema.properties,
) as (keyof typeof settlementSchema.properties)[];

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
          available: sum('payments less refunds of the day that is not over, maybe below zero'),
          refunded: sum('all refunds that ever succeeded'),
          settled: sum('payments less refunds of the days that are over, maybe below zero'),
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
    data: Type.Array(Type.Unsafe<object>({ $ref: 'Settlement#' })),
  },
  { additionalProperties: false },
);
