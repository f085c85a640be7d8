import { minorDigits, type Failure, type Money } from '@triplock/payments';
import type { Inexpressible } from '@triplock/provider';

/*
 * The unit that Stripe counts each currency in, which is not always that of ISO 4217, and what it
 * charges. Written from docs.stripe.com/currencies as it stood on 2026-09-03 ("Supported
 * presentment currencies", "Zero-decimal currencies", "Special cases", "Maximum charge amounts");
 * the three-decimal currencies, which that page shows to accounts in the Gulf alone, by its form of
 * 2022-12-31. HUF and TWD, which the page names beside the special ones, are so in payouts alone: a
 * card is charged with their two decimals.
 */

/**
 * What cards can be charged in, where the account's country allows it. ANG and STD are no codes of
 * ISO 4217 any more.
 */
const presentment = new Set(
  (
    'AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BWP BYN BZD CAD ' +
    'CDF CHF CLP CNY COP CRC CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GNF GTQ GYD ' +
    'HKD HNL HTG HUF IDR ILS INR ISK JMD JOD JPY KES KGS KHR KMF KRW KWD KYD KZT LAK LBP LKR LRD LSL ' +
    'MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP ' +
    'PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SEK SGD SHP SLE SOS SRD STD SZL THB TJS TND TOP TRY ' +
    'TTD TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW'
  ).split(' '),
);

/** Without decimals. The page lists UGX too, and takes it out again among the special cases. */
const zeroDecimal = new Set(
  'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF'.split(' '),
);

/** With three decimals, of which the last has to be 0. */
const threeDecimal = new Set('BHD JOD KWD OMR TND'.split(' '));

/**
 * With two decimals, which have to be 00: kept from before these currencies lost theirs (ISK on
 * 2023-04-14). 100 is one króna; 150 is refused with `invalid_charge_amount_no_decimal_compatible`.
 */
const wholeOfTwo = new Set('ISK UGX'.split(' '));

/**
 * The largest amount of most cards, 12 digits in Stripe's unit. A card's network, American Express
 * (9 digits), the smallest charge, which goes by the currency that an account is paid out in, and
 * the account's country are Stripe's to know: it refuses those by itself.
 */
const amountMax = 999_999_999_999n;

/** Stripe's unit: so many decimals, and what every amount is a multiple of. */
function unitOf(currency: string): { digits: number; step: bigint } {
  if (zeroDecimal.has(currency)) return { digits: 0, step: 1n };
  if (threeDecimal.has(currency)) return { digits: 3, step: 10n };
  return { digits: 2, step: wholeOfTwo.has(currency) ? 100n : 1n };
}

/** How many of Stripe's units are how many minor units of ISO 4217; one of them is 1. */
function ratioOf(currency: string): { units: bigint; minor: bigint } {
  const { digits } = unitOf(currency);
  // Nothing of ours is in a currency whose digits are not known: it is left as it is.
  const places = digits - (minorDigits(currency) ?? digits);
  const power = 10n ** BigInt(Math.abs(places));
  return places < 0 ? { units: 1n, minor: power } : { units: power, minor: 1n };
}

/** Money as Stripe writes it: a whole number of its own unit, and a code in lower case. */
export type StripeMoney = { readonly amount: number; readonly currency: string };

/** What Stripe is asked for, or why it cannot be. */
export type Expressed =
  | ({ readonly outcome: 'expressible' } & StripeMoney)
  | ({ readonly outcome: 'inexpressible' } & Inexpressible);

/** A charge in Stripe's unit, or why none can ever be made, whatever the card. */
export function toCharge(money: Money): Expressed {
  const { currency } = money;
  if (presentment.has(currency)) return toStripe(money);
  const message = `A card cannot be charged in ${currency}: choose another currency.`;
  const failure = { code: 'currency_not_supported', message };
  return { outcome: 'inexpressible', field: 'currency', failure };
}

/**
 * An amount in Stripe's unit. Of what was charged before, a refund, a capture, what is read: also
 * in a currency in which nothing new is charged.
 */
export function toStripe({ amount, currency }: Money): Expressed {
  const { units, minor } = ratioOf(currency);
  // In minor units.
  const multiple = (unitOf(currency).step * minor) / units || 1n;
  const most = (amountMax * minor) / units;
  if (amount % multiple === 0n && amount <= most) {
    const asked = Number((amount * units) / minor);
    return { outcome: 'expressible', amount: asked, currency: currency.toLowerCase() };
  }
  const failure =
    amount > most ? tooLarge(currency, most) : notAMultiple(currency, amount, multiple);
  return { outcome: 'inexpressible', field: 'amount', failure };
}

function tooLarge(currency: string, most: bigint): Failure {
  const message = `A card moves at most ${most} minor units of ${currency}.`;
  return { code: 'amount_too_large', message };
}

function notAMultiple(currency: string, amount: bigint, multiple: bigint): Failure {
  const below = amount - (amount % multiple) || multiple;
  const message = `A card moves ${currency} in multiples of ${multiple} minor units, such as ${below}.`;
  return { code: 'amount_not_expressible', message };
}

/**
 * What Stripe says, in minor units of ISO 4217. A fraction of one, which is not `exact` and which
 * only others can have made, counts as a whole.
 */
export function fromStripe({ amount, currency: code }: StripeMoney): {
  amount: bigint;
  /** ISO 4217, upper case. */
  currency: string;
  exact: boolean;
} {
  const currency = code.toUpperCase();
  const { units, minor } = ratioOf(currency);
  const whole = BigInt(amount) * minor;
  const exact = whole % units === 0n;
  return { amount: whole / units + (exact ? 0n : 1n), currency, exact };
}
