/**
 * The currencies that Stripe takes payments in, with the smallest charge where Stripe names one, in
 * the minor units of the API: https://docs.stripe.com/currencies (supported presentment currencies,
 * minimum and maximum charge amounts).
 */
const named: Readonly<Record<string, number>> = {
  aed: 200,
  aud: 50,
  brl: 50,
  cad: 50,
  chf: 50,
  czk: 1_500,
  dkk: 250,
  eur: 50,
  gbp: 30,
  hkd: 400,
  huf: 17_500,
  inr: 50,
  jpy: 50,
  mxn: 1_000,
  myr: 200,
  nok: 300,
  nzd: 50,
  pln: 200,
  ron: 200,
  sek: 300,
  sgd: 50,
  thb: 1_000,
  usd: 50,
};

const others =
  'afn all amd ang aoa ars awg azn bam bbd bdt bhd bif bmd bnd bob bsd bwp byn bzd cdf clp cny cop ' +
  'crc cve djf dop dzd egp etb fjd fkp gel gip gmd gnf gtq gyd hnl htg idr ils isk jmd jod kes kgs ' +
  'khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mzn nad ngn ' +
  'nio npr omr pab pen pgk php pkr pyg qar rsd rub rwf sar sbd scr shp sle sos srd std szl tjs tnd ' +
  'top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xcg xof xpf yer zar zmw';

const minimums = new Map(Object.entries(named));
const supported = new Set([...minimums.keys(), ...others.split(' ')]);

// Three-decimal currencies end in a zero; ISK and UGX are written with two decimals that are zeros.
const steps: Readonly<Record<string, number>> = {
  bhd: 10,
  jod: 10,
  kwd: 10,
  omr: 10,
  tnd: 10,
  isk: 100,
  ugx: 100,
};

/**
 * "The amount value supports up to eight digits":
 * https://docs.stripe.com/api/payment_intents/object
 */
export const amountMax = 99_999_999;

/** Whether Stripe takes payments in this currency; its code is written in lower case. */
export function isSupportedCurrency(code: string): boolean {
  return supported.has(code);
}

/** The smallest amount that can be charged; 1 where Stripe names none. */
export function amountMinOf(currency: string): number {
  return minimums.get(currency) ?? 1;
}

/** What an amount must be a multiple of: https://docs.stripe.com/currencies#special-cases */
export function amountStepOf(currency: string): number {
  return steps[currency] ?? 1;
}
