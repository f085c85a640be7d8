import { amountMax } from '@triplock/payments';
import { codes } from 'currency-codes';
import { Type } from 'typebox';

/*
 * The fields that several objects of the HTTP interface have. Schemas that validate a request are
 * those that the OpenAPI document shows; a field's `description` completes the sentence
 * "expected …".
 */

/** The id of a payment or refund. */
export const txnIdSchema = Type.String({
  pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
  description: 'a lower-case UUIDv8',
});

/** An amount of money of one transaction. */
export const amountSchema = Type.Integer({
  minimum: 1,
  maximum: Number(amountMax),
  description: `an integer number of minor units (cents, yen, fils) from 1 to ${amountMax}`,
});

/**
 * Codes of ISO 4217 that have no minor unit, so that no amount can be given in them: metals, units
 * of account, a code for tests, and the one for no currency at all.
 */
const withoutMinorUnit = new Set('XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX'.split(' '));

/**
 * The currency codes of ISO 4217 that money can be paid in. The package's list is of June 2024;
 * amendment 176 has since added the Caribbean guilder.
 */
export const currencies: readonly string[] = [...codes(), 'XCG'].filter(
  (code) => !withoutMinorUnit.has(code),
);

/**
 * The pattern of a text on one line. C0, DEL and C1 characters are refused: some stores cannot hold
 * them (PostgreSQL refuses NUL), and they can rewrite a terminal that shows a log. Lengths of JSON
 * schema count Unicode code points.
 */
export const withoutControls = '^[^\\u0000-\\u001f\\u007f-\\u009f]*$';

/** Why a transaction failed. */
export const failure = Type.Object(
  { code: Type.String(), message: Type.String() },
  { additionalProperties: false, description: 'why it failed; `code` is stable' },
);

/** How a moment is shown. */
export const shownTime = { format: 'date-time', description: 'RFC 3339, UTC, milliseconds' };

/** How many are on a page of a list when the partner does not say. */
export const pageSizeUsual = 20;

/** How many a page may have. */
export const limitSchema = Type.Integer({
  minimum: 1,
  maximum: 100,
  default: pageSizeUsual,
  description: 'a whole number from 1 to 100',
});
