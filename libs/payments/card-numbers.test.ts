import assert from 'node:assert/strict';
import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { hasCardNumber, isIban, namesSecurityCode } from './card-numbers.ts';

/** The networks' published numbers for tests; no account has one. */
const published = [
  '4242424242424242', // Visa
  '4222222222222',
  '4000000000000000006',
  '5555555555554444', // Mastercard
  '2223003122003222',
  '378282246310005', // American Express
  '30569309025904', // Diners Club
  '36227206271667',
  '6011111111111117', // Discover
  '6500000000000002',
  '3530111333300000', // JCB
  '6200000000000005', // UnionPay
  '6205500000000000004',
  '6759649826438453', // Maestro
  '5018000000000009',
  '2200000000000004', // Mir
];

const anyPublished = fc.constantFrom(...published);
const separators = [
  ...[' ', '-', '.', '_', '\t', '\u00a0', '\u2009', '\u2013', ' - ', '  '],
  ...[
    '/',
    ' / ',
    '\\',
    '|',
    '*',
    '+',
    '~',
    '\u00ad',
    '\u200b',
    '\ufeff',
    '\u3000',
    '\uff0f',
    '\uff0d',
  ],
];

test('the numbers that the networks publish for tests are card numbers', () => {
  for (const number of published) assert.ok(hasCardNumber(number), number);
});

test('a card number is found in any groups, with any separator, between anything that is no digit', () => {
  const around = fc.stringMatching(/^([^\d]{0,20}[A-Za-z:#/,])?$/);
  const written = fc.record({
    number: anyPublished,
    separator: fc.constantFrom(...separators),
    cuts: fc.array(fc.boolean(), { minLength: 18, maxLength: 18 }),
    before: around,
    after: around,
  });
  fc.assert(
    fc.property(written, ({ number, separator, cuts, before, after }) => {
      const cut = (at: number) => cuts[at] === true && at < number.length - 1;
      const grouped = [...number].map((digit, at) => (cut(at) ? digit + separator : digit));
      assert.ok(hasCardNumber(`${before}${grouped.join('')}${after}`), grouped.join(''));
    }),
  );
});

test('a card number is found in whatever characters Unicode holds for the same digits', () => {
  const writings = [0xff10, 0x1d7ce, 0x1d7d8, 0x1d7f6, 0x1fbf0, 0x2080].map(
    (from) => (digit: string) => String.fromCodePoint(from + Number(digit)),
  );
  for (const write of writings) {
    for (const number of published) {
      assert.ok(hasCardNumber(`for ${[...number].map(write).join('')}`), number);
      const some = [...number].map((digit, at) => (at % 4 === 1 ? write(digit) : digit));
      assert.ok(hasCardNumber(some.join('')), some.join(''));
    }
  }
});

test('one that follows or precedes other numbers is found where its groups end', () => {
  for (const text of [
    'order-1001-4242424242424242',
    'card 4242 4242 4242 4242 12 28',
    '2026-11-22 378282246310005',
    '22/11/2026/4242424242424242',
    // No day of 2003, but groups of a number.
    '222/300/3/1/2/2003/222',
    'a4242424242424242b',
    '{"pan":"4242424242424242"}',
    'face4242424242424242',
    '7b6ae6a1-0f4b-4bd0-9a2e-4e2a1c0d9f11-4242424242424242',
    'DE89 3704 0044 0532 0130 00 4242 4242 4242 4242',
    // Not the check digits of an account or a creditor, and of no country.
    'DE88 4242 4242 4242 4242',
    'RF17 4242 4242 4242 4242',
    'QQ89 4242 4242 4242 4242',
    '+4242 4242 4242 4242',
    'order+378282246310005',
  ]) {
    assert.ok(hasCardNumber(text), text);
  }
});

test('another last digit, another beginning or another length is no card number', () => {
  fc.assert(
    fc.property(anyPublished, fc.integer({ min: 1, max: 9 }), (number, add) => {
      const last = (Number(number.at(-1)) + add) % 10;
      assert.ok(!hasCardNumber(number.slice(0, -1) + last), number);
    }),
  );
  for (const text of ['9424242424242424', '0000000000000000', '424242424242424242424242', '']) {
    assert.ok(!hasCardNumber(text), text);
  }
});

test('accounts, creditors’ references, goods and phones are no card numbers', () => {
  for (const text of [
    // The examples of the IBAN registry and of ISO 11649.
    'GB29 NWBK 6016 1331 9268 19',
    'NO9386011117947',
    'BE68 5390 0754 7034',
    'MT84MALT011000012345MTLCAST001S',
    'RF18 5390 0754 7034',
    // Right by Luhn's formula also, as one in ten is.
    ...luhnRight(() => iban('DK', 18)),
    ...luhnRight(() => `paid to ${inFours(iban('BE', 16))} for order 7`),
    ...luhnRight(() => ean('40')),
    ...luhnRight(() => `+49 151 ${digits(8)}`),
    ...luhnRight(() => `00 43 660 ${digits(8)}`),
    ...luhnRight(() => `49151${digits(8)}`),
  ]) {
    assert.ok(!hasCardNumber(text), text);
  }
});

test('a bank account is known by its country’s length and its check digits, as machines write it', () => {
  for (const text of ['NO9386011117947', 'MT84MALT011000012345MTLCAST001S', iban('DE', 22)]) {
    assert.ok(isIban(text), text);
    const [first, second] = [text[2]!, text[3]!];
    const otherDigit = `${(Number(second) + 1) % 10}`;
    const wrong = [text.slice(0, -1), `${text}0`, `XX${text.slice(2)}`, text.toLowerCase(), ''];
    wrong.push(`${text.slice(0, 2)}${first}${otherDigit}${text.slice(4)}`, inFours(text));
    for (const each of wrong) assert.ok(!isIban(each), each);
  }
});

test('by the definition of Luhn, a number of a Visa is one when its sum ends in 0', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^4\d{15}$/), (number) => {
      const sum = [...number].reverse().reduce((total, digit, at) => {
        const doubled = at % 2 === 0 ? Number(digit) : Number(digit) * 2;
        return total + Math.floor(doubled / 10) + (doubled % 10);
      }, 0);
      assert.equal(hasCardNumber(number), sum % 10 === 0);
    }),
  );
});

test('the longest text of separated digits is looked through in linear time and memory', () => {
  for (const text of ['9 '.repeat(50_000), '9   '.repeat(50_000), '9'.repeat(100_000)]) {
    assert.equal(hasCardNumber(text), false);
  }
});

test('names of security codes are known, and those of other things are not', () => {
  for (const name of ['cvv', 'CVC2', 'cardCvv', 'card_cvc', 'csc', 'x-cvn', 'Security Code']) {
    assert.ok(namesSecurityCode(name), name);
  }
  for (const name of ['order', 'cid', 'customer_id', 'discscount', 'code', 'verification']) {
    assert.ok(!namesSecurityCode(name), name);
  }
});

const digits = (count: number) =>
  Array.from({ length: count }, () => String(randomInt(10))).join('');
const inFours = (text: string) => text.replace(/.{4}(?=.)/g, '$& ');

/** The digit that makes the sum of all, each by its weight from the right, a multiple of ten. */
function withCheckDigit(number: string, weigh: (digit: number, fromRight: number) => number) {
  const sum = [...number]
    .reverse()
    .reduce((total, digit, at) => total + weigh(Number(digit), at), 0);
  return `${number}${(10 - (sum % 10)) % 10}`;
}
const byLuhn = (number: string) =>
  withCheckDigit(number, (digit, at) => {
    return at % 2 === 1 ? digit : digit < 5 ? digit * 2 : digit * 2 - 9;
  });
const ean = (country: string) =>
  withCheckDigit(country + digits(10), (digit, at) => (at % 2 === 0 ? 3 : 1) * digit);

/** With the check digits of ISO/IEC 7064, MOD 97-10. */
function withMod97(country: string, number: string): string {
  const asDigits = [...`${number}${country}00`].map((each) => Number.parseInt(each, 36)).join('');
  const check = 98n - (BigInt(asDigits) % 97n);
  return `${country}${String(check).padStart(2, '0')}${number}`;
}
const iban = (country: string, length: number) => withMod97(country, digits(length - 4));

/** Two dozen that end in thirteen or more digits which Luhn's formula allows. */
function luhnRight(make: () => string): string[] {
  const isRight = (text: string) => {
    const number = text.replaceAll(/\D/g, '');
    return number === byLuhn(number.slice(0, -1));
  };
  const made: string[] = [];
  while (made.length < 24) {
    const text = make();
    if (isRight(text)) made.push(text);
  }
  return made;
}

const crockford = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const ulid = () =>
  `01${Array.from({ length: 24 }, () => crockford[randomInt(crockford.length)]).join('')}`;
const day = () => new Date(1.7e12 + randomInt(1e11)).toISOString();
const compactDay = () => day().slice(2, 10).replaceAll('-', '');

const slashed = (time: string) => time.slice(0, 10).split('-').reverse().join('/');

/** References of partners that are no cards, and the most of them that may be refused. */
const references: Readonly<Record<string, [make: () => string, shareMax: number]>> = {
  'numbers of 16 digits': [() => digits(16), 0.05],
  'numbers of 12 to 19 digits': [() => digits(randomInt(12, 20)), 0.03],
  'numbers of 12 digits': [() => digits(12), 0],
  'a day, four digits and a time, 2611220001102030': [
    () => `${compactDay()}${digits(4)}${day().slice(11, 19).replaceAll(':', '')}`,
    0.15,
  ],
  'a day and four digits, 2611220001': [() => `${compactDay()}${digits(4)}`, 0],
  'UUIDs (version 4)': [randomUUID, 0],
  'order_ and a UUID': [() => `order_${randomUUID()}`, 0],
  'SHA-256 in hexadecimal': [() => randomBytes(32).toString('hex'), 0],
  ULIDs: [ulid, 0.0005],
  'IBANs as printed, of Germany': [() => inFours(iban('DE', 22)), 0],
  'IBANs as printed, of Belgium': [() => inFours(iban('BE', 16)), 0],
  'IBANs in one piece, of Denmark': [() => iban('DK', 18), 0],
  'creditors’ references, RF18 5390 0754 7034': [
    () => inFours(withMod97('RF', digits(randomInt(8, 22)))),
    0,
  ],
  'EAN-13 of Germany': [() => ean('40'), 0],
  'EAN-13 of the United Kingdom': [() => ean('50'), 0],
  'phones, +49 151 12345678': [() => `+49 151 ${digits(8)}`, 0],
  'Norwegian KID of 13 to 19 digits, by Luhn': [() => byLuhn(digits(randomInt(12, 19))), 0.25],
  'Norwegian KID of 16 digits, by Luhn': [() => byLuhn(digits(15)), 0.4],
  'Swedish OCR of 13 to 19 digits, by length and Luhn': [
    () => {
      const number = digits(randomInt(11, 18));
      return byLuhn(`${number}${(number.length + 2) % 10}`);
    },
    0.25,
  ],
  'a date and a number of 6 digits, 2026-11-22-001234': [
    () => `${day().slice(0, 10)}-${digits(6)}`,
    0.01,
  ],
  'a date and a number of 8 digits, 20261122-00123456': [
    () => `${day().slice(0, 10).replaceAll('-', '')}-${digits(8)}`,
    0.01,
  ],
  'times, 2026-11-22T10:20:30.123Z': [day, 0.0005],
  'two days, 22/11/2026 - 30/11/2026': [() => `${slashed(day())} - ${slashed(day())}`, 0],
  'two numbers of 8 digits, 12345678/12345678': [() => `${digits(8)}/${digits(8)}`, 0.05],
  'a day and a number, INV/2026/11/00012345': [
    () => `INV/${day().slice(0, 7).replace('-', '/')}/${digits(8)}`,
    0,
  ],
  'order- and a number of 10 digits': [() => `order-${digits(10)}`, 0],
};

const tries = 50_000;

test('few references that are no cards look like one; how many of which kind is shown', (t) => {
  for (const [kind, [make, shareMax]] of Object.entries(references)) {
    const made = Array.from({ length: tries }, make);
    const began = performance.now();
    const hits = made.filter(hasCardNumber).length;
    const us = (1_000 * (performance.now() - began)) / tries;
    const share = ((100 * hits) / tries).toFixed(3);
    t.diagnostic(`${kind}: ${share} % refused, ${us.toFixed(2)} µs each`);
    assert.ok(hits / tries <= shareMax, `${kind}: ${hits} of ${tries}`);
  }
});
