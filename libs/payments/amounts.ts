import { minorDigits } from './currencies.ts';

/*
 * Amounts as people read and write them, by every command, page and file alike. They are kept in
 * minor units of ISO 4217, and how many digits those have is asked in one place.
 */

/**
 * An amount as people write it: 1250 and EUR give `12.50 EUR`. Exact at any size. Of a currency
 * that is not known here the minor units: nobody may take them for something else.
 */
export function formatMoney(minorUnits: bigint | number | string, currency: string): string {
  const [whole = '', fraction] = formatDecimal(minorUnits, currency).split('.');
  const grouped = whole.replace(/(?<=\d)(?=(\d{3})+(\D|$))/g, ' ');
  return `${grouped}${fraction === undefined ? '' : `.${fraction}`} ${currency}`;
}

/**
 * The same for files that machines read, without grouping or currency: `1250.00`. Of a currency
 * that is not known here it is no number: `1250 minor units`.
 */
export function formatDecimal(minorUnits: bigint | number | string, currency: string): string {
  const digits = minorDigits(currency);
  const value = BigInt(minorUnits);
  if (digits === undefined) return `${value} minor units`;
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  const fraction = digits === 0 ? '' : `.${text.slice(-digits)}`;
  return `${value < 0n ? '-' : ''}${text.slice(0, text.length - digits)}${fraction}`;
}

/** A decimal that a person wrote, in minor units; nothing when it is none of this currency. */
export function parseDecimal(text: string, currency: string): bigint | undefined {
  const digits = minorDigits(currency);
  const [, whole, fraction = ''] = /^(\d{1,12})(?:\.(\d{1,4}))?$/.exec(text.trim()) ?? [];
  if (digits === undefined || whole === undefined || fraction.length > digits) return undefined;
  return BigInt(whole + fraction.padEnd(digits, '0'));
}

/** What a record of somebody else says an amount is: as it is written where it is none. */
export function describeAmount(amount: unknown, currency: unknown): string {
  const isAmount = Number.isSafeInteger(amount) && /^[A-Z]{3}$/.test(String(currency));
  return isAmount
    ? formatMoney(amount as number, String(currency))
    : `${String(amount)} ${String(currency)}`;
}
