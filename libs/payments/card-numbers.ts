/**
 * The card networks' numbers by their first four digits, and the lengths in which they are issued.
 * A number's form is ISO/IEC 7812-1 (issuer identification number first, Luhn check digit last, 19
 * digits at most); who has which range is what the networks publish: Visa Core Rules; Mastercard's
 * "2-series BIN expansion" and Maestro rules; American Express merchant regulations; Discover
 * Global Network's IIN bulletin (Discover, Diners Club, JCB and UnionPay in its network); NSPK
 * (Mir); NPCI (RuPay).
 *
 * A range is rather too wide here than too narrow where a network's own list is finer than four
 * digits. Airlines' numbers (UATP, which begin with 1) are left out: so do the times in
 * milliseconds and microseconds that many references are made of. So are lengths that a network's
 * rules provide for and no issuer uses, such as Maestro's from 12 to 15: they are those of phones
 * and of goods (GTIN). Of 13 digits are old cards of Visa alone, and {@link isOldVisa} has more.
 */
const networks: readonly [first: number, last: number, ...lengths: number[]][] = [
  [4000, 4914, 13, 16, 19], // Visa
  [4915, 4917, 16, 19], // with 13 digits it is a German mobile phone
  [4918, 4999, 13, 16, 19],
  [5100, 5599, 16], // Mastercard
  [2221, 2720, 16],
  [3400, 3499, 15], // American Express
  [3700, 3799, 15],
  [3000, 3059, 14, 16], // Diners Club
  [3095, 3095, 14, 16],
  [3600, 3699, 14, 16],
  [3800, 3999, 14, 16],
  [6011, 6011, 16, 19], // Discover
  [6440, 6599, 16, 19],
  [3528, 3589, 16, 19], // JCB
  [6200, 6299, 16, 17, 18, 19], // UnionPay
  [8100, 8171, 16, 17, 18, 19],
  [5000, 5099, 16, 18, 19], // Maestro, and networks within its ranges
  [5600, 5899, 16, 18, 19],
  [6300, 6399, 16, 18, 19],
  [6700, 6799, 16, 18, 19],
  [2200, 2204, 16, 19], // Mir
  [6062, 6085, 16, 19], // RuPay, Hipercard
  [8200, 8299, 16], // RuPay
  [9792, 9792, 16], // Troy
];

const [lengthMin, lengthMax] = [13, 19] as const;
const visaOldLength = 13;
/**
 * Thirteen digits and more with at most three separators between two of them (`4242 - 4242`):
 * spaces of any width and none, hyphens and dashes of any length, dots, underscores, slashes, bars,
 * stars, plus signs, tildes. Not commas, colons and line ends, which stand between numbers of a
 * list, and in times and addresses. No two ways lead through it, so it takes linear time.
 */
const longNumber =
  /\d(?:[ \t._/\\|*+~\-\u00a0\u00ad\u2000-\u2015\u202f\u2060\u2212\ufeff]{0,3}\d){12,}/g;

/**
 * UUIDs (RFC 9562), and hexadecimal of 24 digits and more such as hashes and traces, whatever they
 * are written behind (`order_…`): one UUID in 1 500 would have a card's number in it by chance, and
 * they are what keys should be made of. And days that stand alone (31/12/2026): one range of days
 * in 50 would.
 */
const noCard =
  /(?<!\d)[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?!\d)|(?<![0-9a-z])(?=\d*[a-f])[0-9a-f]{24,}(?![0-9a-z])|\b(?<!\d[./-])(?:0?[1-9]|[12]\d|3[01])([./-])(?:0?[1-9]|1[0-2])\1(?:19|20)\d\d(?![./-]\d)\b/gi;

const beyondAscii = /[^\0-\x7f]/;

/** For each four digits the lengths of numbers that begin so: bit 0 is 13 digits. */
const lengthsByBeginning = new Uint8Array(10_000);
for (const [first, last, ...lengths] of networks) {
  const bits = lengths.reduce((sum, length) => sum | (1 << (length - lengthMin)), 0);
  for (let beginning = first; beginning <= last; beginning += 1) {
    lengthsByBeginning[beginning]! |= bits;
  }
}

/**
 * Whether a text has a number in it that could be a payment card's (PAN): of a network's range, of
 * that range's length, and with a right Luhn digit; alone or between other things, in one piece or
 * with separators between groups of digits of any size. Digits are those of ASCII and what Unicode
 * holds for the same (NFKC: full-width, circled, raised). A piece of a longer number is none: both
 * ends are ends of a group. Nor is a piece of a UUID or a hash, of a bank account (IBAN) or a
 * creditor's reference (RF) whose own check digits are right, or the number of a thing that is sold
 * (EAN-13).
 *
 * It is asked for every text of every payment: one search, and nothing else as long as no thirteen
 * digits follow each other.
 */
export function hasCardNumber(text: string): boolean {
  if (text.length < lengthMin) return false;
  const plain = beyondAscii.test(text) ? text.normalize('NFKC') : text;
  if (plain.match(longNumber) === null) return false;
  const rest = withoutAccounts(plain.replace(noCard, '#'));
  for (const { 0: number, index } of rest.matchAll(longNumber)) {
    if (holdsCardNumber(number, rest.slice(Math.max(0, index - 3), index))) return true;
  }
  return false;
}

/**
 * Looks at every run of whole groups of a text of digits and separators.
 *
 * @param before the few characters in front of it.
 */
function holdsCardNumber(text: string, before: string): boolean {
  const digits: number[] = [];
  /** How many digits there are before each group, and in all. */
  const bounds: number[] = [];
  let inGroup = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (isDigit(code)) {
      if (!inGroup) bounds.push(digits.length);
      digits.push(code - zero);
    }
    inGroup = isDigit(code);
  }
  bounds.push(digits.length);
  const sums = luhnSums(digits);
  return bounds.some((start, group) => {
    const lengths = lengthsByBeginning[beginningAt(digits, start)]!;
    if (lengths === 0) return false;
    return bounds.slice(group + 1, group + 1 + lengthMax).some((end) => {
      const length = end - start;
      if (length < lengthMin || length > lengthMax) return false;
      const sum = sums[end % 2]!;
      const isNumber =
        (lengths & (1 << (length - lengthMin))) !== 0 && (sum[end]! - sum[start]!) % 10 === 0;
      if (!isNumber || length !== visaOldLength) return isNumber;
      return isOldVisa(digits.slice(start, end), isDialled(digits.slice(0, start), before));
    });
  });
}

/**
 * Whether a number of 13 digits that Luhn's formula allows is one of Visa's old cards, and neither
 * the number of a thing that is sold (EAN-13; GS1 General Specifications, 7.9: its check digit goes
 * by weights of 1 and 3) nor of a telephone (ITU-T E.164), by what it is dialled with.
 */
function isOldVisa(digits: readonly number[], dialled: boolean): boolean {
  const sum = digits.reduce((total, digit, at) => total + digit * (at % 2 === 0 ? 1 : 3), 0);
  return !dialled && sum % 10 !== 0;
}

/** Whether a plus sign or two zeros stand in front, as before a country's code. */
function isDialled(digitsBefore: readonly number[], before: string): boolean {
  if (digitsBefore.length === 0) return /\+[( ]?$/.test(before);
  return digitsBefore.length === 2 && digitsBefore.every((digit) => digit === 0);
}

/** Two letters and two check digits, and what may belong to them, in one piece or in groups. */
const account = /(?<![0-9a-z])[a-z]{2}\d{2}(?:[ .-]?[0-9a-z]){1,31}/gi;

/**
 * How long an account's number (IBAN) is in each country, from the registry of ISO 13616 that SWIFT
 * keeps (swift.com, "IBAN Registry").
 */
const ibanLengths: Readonly<Record<number, string>> = {
  15: 'NO',
  16: 'BE',
  18: 'DK FI FK FO GL NL SD',
  19: 'MK SI',
  20: 'AT BA EE KZ LT LU MN XK',
  21: 'CH HR LI LV',
  22: 'BG BH CR DE GB GE IE ME RS VA',
  23: 'AE GI IL IQ OM SO TL',
  24: 'AD CZ ES MD PK RO SA SE SK TN VG',
  25: 'LY PT ST',
  26: 'IS TR',
  27: 'BI DJ FR GR IT MC MR SM',
  28: 'AL AZ BY CY DO GT HN HU LB NI PL SV',
  29: 'BR EG PS QA UA',
  30: 'JO KW MU YE',
  31: 'MT SC',
  32: 'LC',
  33: 'RU',
};
const ibanLengthOf = new Map(
  Object.entries(ibanLengths).flatMap(([length, countries]) =>
    countries.split(' ').map((country) => [country, Number(length)] as const),
  ),
);
const creditorLengthMax = 25;

/**
 * The text without what is certainly no card: numbers of accounts (IBAN, ISO 13616) and references
 * of creditors (RF, ISO 11649), each with its own check digits, which one other text in 97 has.
 */
function withoutAccounts(text: string): string {
  return text.replace(account, (found, at: number, whole: string) => {
    const plain = found.toUpperCase();
    const country = plain.slice(0, 2);
    const exact = ibanLengthOf.get(country);
    if (exact === undefined && country !== 'RF') return found;
    // A creditor's reference is of any length: of those that end where a group ends, the longest.
    let compact = '';
    let end: number | undefined;
    for (let read = 0; read < plain.length; read += 1) {
      if (!/[0-9A-Z]/.test(plain[read]!)) continue;
      compact += plain[read]!;
      if (compact.length > (exact ?? creditorLengthMax)) break;
      const isWhole = exact === undefined ? compact.length > 4 : compact.length === exact;
      const next = whole[at + read + 1];
      const endsHere = next === undefined || !/[0-9a-z]/i.test(next);
      if (isWhole && endsHere && isRightMod97(compact)) end = read + 1;
    }
    return end === undefined ? found : `#${found.slice(end)}`;
  });
}

/** ISO/IEC 7064, MOD 97-10: the first four characters last, and letters as 10 to 35. */
function isRightMod97(compact: string): boolean {
  let rest = 0;
  for (const character of compact.slice(4) + compact.slice(0, 4)) {
    const value = Number.parseInt(character, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}

/** The first four digits from there as a number; 0, which no network has, where there are fewer. */
function beginningAt(digits: readonly number[], start: number): number {
  const [a, b, c, d] = digits.slice(start, start + 4);
  return d === undefined ? 0 : a! * 1_000 + b! * 100 + c! * 10 + d;
}

/**
 * Sums of the digits before each place by ISO/IEC 7812-1, annex B: doubled are those at even places
 * in the first, those at odd places in the second. The sum of any piece is a difference of two.
 */
function luhnSums(digits: readonly number[]): [evenDoubled: number[], oddDoubled: number[]] {
  const sums: [number[], number[]] = [[0], [0]];
  for (const [at, digit] of digits.entries()) {
    const doubled = digit < 5 ? digit * 2 : digit * 2 - 9;
    sums[at % 2]!.push(sums[at % 2]![at]! + doubled);
    sums[1 - (at % 2)]!.push(sums[1 - (at % 2)]![at]! + digit);
  }
  return sums;
}

const [zero, nine] = [0x30, 0x39] as const;

function isDigit(code: number): boolean {
  return code >= zero && code <= nine;
}

// Visa, JCB and UnionPay say CVV and CVN, Mastercard CVC, Discover and others CSC or CAV. `cid`,
// which American Express says, is left out: it is many a customer's id.
const securityCode =
  /cvv|cvc|(?:^|[^a-z])(?:csc|cvn2?|cav2?)(?:[^a-z]|$)|card.?(?:verification|validation).?(?:code|value|number)|security.?code/i;

/**
 * Whether a name says that its value is a card's security code, which nobody may keep once a
 * payment is authorised (PCI DSS 4.0, requirement 3.3.1).
 */
export function namesSecurityCode(name: string): boolean {
  return securityCode.test(name);
}

/**
 * The fields whose texts are looked at for card numbers, as an exemption names them. A single value
 * of metadata is `metadata.NAME`; `*` is every field.
 */
export const cardNumberFields = [
  'idempotency-key',
  'reference',
  'description',
  'reason',
  'metadata',
] as const;

/** Where a partner's texts may look like card numbers; nowhere unless it is said. */
export type CardNumbersIn = readonly string[];

/** Everywhere, as {@link CardNumbersIn}. */
export const cardNumbersEverywhere: CardNumbersIn = ['*'];

const metadataValue = /^metadata\.[^,]{1,40}$/;

/** Whether every field is exempt. */
export function isExemptEverywhere(exempt: CardNumbersIn): boolean {
  return exempt.includes('*');
}

/** Whether a word names a field, or a value of metadata, that can be exempt. */
export function isCardNumberField(word: string): boolean {
  return (cardNumberFields as readonly string[]).includes(word) || metadataValue.test(word);
}

/** Whether a field is exempt, alone or with all of metadata or everything. */
export function mayLookLikeCard(exempt: CardNumbersIn, field: string): boolean {
  if (isExemptEverywhere(exempt)) return true;
  return exempt.some((each) => each === field || field.startsWith(`${each}.`));
}

const runOfDigits = /\d(?:[^\p{L}\d]{0,3}\d){11,}/gu;
/** What stands in the place of one. */
export const cardNumberMask = '[card number masked]';

/**
 * A text without what looks like a card's number. Partners may be allowed to send such, and then it
 * is kept; a person who looks at a payment has no need of it (PCI DSS 4.0, requirement 3.4.1).
 */
export function maskCardNumbers(text: string): string {
  if (!hasCardNumber(text)) return text;
  const rest = text.replaceAll(runOfDigits, (run) => (hasCardNumber(run) ? cardNumberMask : run));
  return hasCardNumber(rest) ? cardNumberMask : rest;
}

/** Whether a text is the number of a bank account (IBAN, ISO 13616), as machines write it. */
export function isIban(text: string): boolean {
  const isWritten = /^[A-Z]{2}\d{2}[A-Z0-9]+$/.test(text);
  return isWritten && text.length === ibanLengthOf.get(text.slice(0, 2)) && isRightMod97(text);
}
