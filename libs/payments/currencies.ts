import type { Currency } from './money.ts';

/*
 * The currencies that money is kept in, and how many digits of an amount are behind the point. The
 * digits are ISO 4217's minor units, which is what partners count in and what the ledger keeps.
 * They are not those of a runtime's `Intl`, which has the digits that people write (CLDR): none for
 * HUF, IDR or MGA, and other ones after an update. Nor are they always a provider's, which are the
 * business of its folder.
 */

/**
 * When the list was published that this table was written from: List One of the standard's
 * maintenance agency (www.six-group.com, "Currency, fund and precious metal codes"), with all
 * amendments to number 180. The last ones brought XCG (176), ZWG (177) and XAD (179).
 */
export const currenciesAsOf = '2026-01-01';

/** Every code that has a minor unit, by its digits. Metals, test codes and the like have none. */
const byDigits = {
  0: 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF',
  2:
    'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD ' +
    'CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS ' +
    'GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD ' +
    'LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB ' +
    'PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP ' +
    'SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG',
  3: 'BHD IQD JOD KWD LYD OMR TND',
  4: 'CLF UYW',
} as const;

/**
 * Codes that were on the list when payments in them could be accepted. Such a payment stays
 * readable, and can be given back; a new one is refused. A code that leaves the list comes here and
 * never goes. By amendments 176, 180 and 178.
 */
const withdrawn: ReadonlyMap<string, number> = new Map([
  ['ANG', 2],
  ['BGN', 2],
  ['CUC', 2],
]);

const listed: ReadonlyMap<string, number> = new Map(
  Object.entries(byDigits).flatMap(([digits, codes]) =>
    codes.split(' ').map((code) => [code, Number(digits)] as const),
  ),
);

/** What a new payment may be in, by code. */
export const currencies: readonly Currency[] = codesOf(listed.keys());

/** What an old payment may be in, beside {@link currencies}. */
export const withdrawnCurrencies: readonly Currency[] = codesOf(withdrawn.keys());

function codesOf(codes: Iterable<string>): Currency[] {
  return [...codes].sort() as Currency[];
}

/**
 * How many digits of an amount are behind the point: 2 of EUR, of which 1250 is 12.50. Nothing for
 * a code that this table does not have, such as one that a newer release has accepted: what its
 * amounts come to is not known then.
 */
export function minorDigits(currency: string): number | undefined {
  return listed.get(currency) ?? withdrawn.get(currency);
}
