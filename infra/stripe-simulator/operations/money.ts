import { invalidRequest } from '../wire/errors.ts';
import { integer, refuse, took, type Param, type Read } from '../wire/params.ts';

// What Stripe says of currencies and amounts, in its own units and by code of this simulator's own:
// what asks it counts in those of ISO 4217, and a mistake in one must not be a mistake in both.

/** Three letters in lower case, as Stripe demands: https://docs.stripe.com/currencies */
export const currency: Param<string> = {
  read(value, param) {
    if (typeof value === 'string' && supported.has(value)) return took(value);
    const shown = typeof value === 'string' ? value : JSON.stringify(value);
    return refuse(invalidRequest(`Invalid currency: ${shown}`, { param }));
  },
};

/** Above every limit of the API, so that each limit has its own error. */
export const wholeAmount = integer({ min: 1, max: 999_999_999_999 });

/** https://docs.stripe.com/currencies: smallest, largest, and special cases. */
export function checkAmount(amount: number, currency: string): Read<number> {
  const min = amountMinOf(currency);
  const about = { param: 'amount' };
  if (amount < min) {
    const message = `Amount must be at least ${min} in the minor units of ${currency}`;
    return refuse(invalidRequest(message, { code: 'amount_too_small', ...about }));
  }
  if (amount > amountMax) {
    const message = `Amount must be no more than ${amountMax} in the minor units of ${currency}`;
    return refuse(invalidRequest(message, { code: 'amount_too_large', ...about }));
  }
  return checkUnit({ amount, currency, param: 'amount' });
}

/** A part of a charge, to capture or to give back; without one it is all that there is. */
export function checkPart(
  amount: number | undefined,
  { currency }: { currency: string },
  param: string,
): Read<number | undefined> {
  return amount === undefined ? took(amount) : checkUnit({ amount, currency, param });
}

/** Whether the currency has such an amount at all. */
function checkUnit(of: { amount: number; currency: string; param: string }): Read<number> {
  const { amount, currency, param } = of;
  if (effectivelyZeroDecimal.has(currency) && amount % 100 !== 0) {
    const message =
      `Invalid amount. Currency ${currency.toUpperCase()} has become effectively zero-decimal and charged ` +
      'amounts must be evenly divisible by 100. See ' +
      'https://stripe.com/docs/currencies#special-cases for more information.';
    const code = 'invalid_charge_amount_no_decimal_compatible';
    return refuse(invalidRequest(message, { code, param }));
  }
  if (threeDecimal.has(currency) && amount % 10 !== 0) {
    const message = `Invalid amount: in ${currency} the last of its three decimals must be 0`;
    return refuse(invalidRequest(message, { param }));
  }
  return took(amount);
}

/**
 * The currencies that Stripe takes payments in, with the smallest charge where Stripe names one, in
 * the minor units of the API: https://docs.stripe.com/currencies (supported presentment currencies,
 * minimum and maximum charge amounts), as of 2026-09-03.
 */
const named: Readonly<Record<string, number>> = {
  aed: 200,
  ars: 50,
  aud: 50,
  brl: 50,
  cad: 50,
  chf: 50,
  cop: 50,
  czk: 1_500,
  dkk: 250,
  eur: 50,
  gbp: 30,
  hkd: 400,
  huf: 17_500,
  idr: 50,
  ils: 50,
  inr: 50,
  jpy: 50,
  krw: 50,
  mxn: 1_000,
  myr: 200,
  nok: 300,
  nzd: 50,
  php: 50,
  pln: 200,
  ron: 200,
  rub: 50,
  sek: 300,
  sgd: 50,
  thb: 1_000,
  usd: 50,
  zar: 50,
};

const others =
  'afn all amd ang aoa awg azn bam bbd bdt bhd bif bmd bnd bob bsd bwp byn bzd cdf clp cny ' +
  'crc cve djf dop dzd egp etb fjd fkp gel gip gmd gnf gtq gyd hnl htg isk jmd jod kes kgs ' +
  'khr kmf kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mzn nad ngn ' +
  'nio npr omr pab pen pgk pkr pyg qar rsd rwf sar sbd scr shp sle sos srd std szl tjs tnd ' +
  'top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xcg xof xpf yer zmw';

const supported = new Set([...Object.keys(named), ...others.split(' ')]);

/**
 * Three-decimal currencies end in a zero: "these API calls require the least-significant (last)
 * digit to be 0" (https://docs.stripe.com/currencies#three-decimal, as of 2022-12-31).
 */
const threeDecimal = new Set(['bhd', 'jod', 'kwd', 'omr', 'tnd']);

/**
 * Written with two decimals, "where the decimal amount is always 00"
 * (https://docs.stripe.com/currencies#special-cases, as of 2026-09-03). The code and the words of
 * the refusal:
 * https://support.stripe.com/questions/deprecation-of-fractional-isk-charges-and-refunds
 */
const effectivelyZeroDecimal = new Set(['isk', 'ugx']);

/**
 * "The amount value supports up to eight digits":
 * https://docs.stripe.com/api/payment_intents/object
 */
const amountMax = 99_999_999;

/** The smallest amount that can be charged; 1 where Stripe names none. */
function amountMinOf(currency: string): number {
  return named[currency] ?? 1;
}
