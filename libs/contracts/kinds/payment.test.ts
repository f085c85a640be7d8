import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalJson, type JsonValue } from '@triplock/payments';
import fc from 'fast-check';
import { anyAccepted, anySettled } from '../test/arbitrary-transactions.ts';
import { Compile } from '../schema.ts';
import {
  acceptedPaymentSchema,
  asSent,
  paymentSchema,
  renderAccepted,
  renderPayment,
  renderPending,
  validatePaymentRequest,
} from './payment.ts';
import { parseStrictJson } from '../http/strict-json.ts';

const least = { amount: 1, currency: 'EUR' };

test('the smallest request is a payment', () => {
  assert.deepEqual(validatePaymentRequest(least), {
    outcome: 'valid',
    details: { money: { amount: 1n, currency: 'EUR' } },
    body: least,
  });
});

test('every field at its limit is accepted and kept as it was sent', () => {
  const pairs = Array.from({ length: 20 }, (_, at) => [
    `${at}`.padStart(40, 'n'),
    '😀'.repeat(500),
  ]);
  const body = {
    amount: 999_999_999_999,
    currency: 'JPY',
    reference: '😀'.repeat(64),
    description: `${'é'.repeat(498)}\n.`,
    metadata: Object.fromEntries(pairs) as Record<string, string>,
  };
  const { reference, description, metadata } = body;
  assert.deepEqual(validatePaymentRequest(body), {
    outcome: 'valid',
    details: {
      money: { amount: 999_999_999_999n, currency: 'JPY' },
      reference,
      description,
      metadata,
    },
    body,
  });
});

test('empty texts and empty metadata are kept, not dropped', () => {
  const body = { ...least, reference: '', description: '', metadata: {} };
  const result = validatePaymentRequest(body);
  assert.equal(result.outcome === 'valid' && canonicalJson(result.body), canonicalJson(body));
  assert.deepEqual(result.outcome === 'valid' && result.details.metadata, {});
});

const control = ['\0', '\u001f', '\u007f', '\u0080', '\u009f', '\t', '\r'];
const wrong: readonly [what: string, body: JsonValue | undefined, pointers: string[]][] = [
  ['no body', undefined, ['#']],
  ['null', null, ['#']],
  ['an array', [least], ['#']],
  ['a text', 'EUR', ['#']],
  ['an empty object', {}, ['#/amount', '#/currency']],
  ['an amount of 0', { ...least, amount: 0 }, ['#/amount']],
  ['a negative amount', { ...least, amount: -1 }, ['#/amount']],
  ['an amount above the limit', { ...least, amount: 1_000_000_000_000 }, ['#/amount']],
  ['an amount as text', { ...least, amount: '1' }, ['#/amount']],
  ['an amount of null', { ...least, amount: null }, ['#/amount']],
  ['a currency in lower case', { ...least, currency: 'eur' }, ['#/currency']],
  ['a currency that is none', { ...least, currency: 'ZZZ' }, ['#/currency']],
  ['a currency that has no minor unit', { ...least, currency: 'XAU' }, ['#/currency']],
  ['the code for no currency', { ...least, currency: 'XXX' }, ['#/currency']],
  ['a currency with white space', { ...least, currency: 'EUR ' }, ['#/currency']],
  ['a currency as a list', { ...least, currency: ['EUR'] }, ['#/currency']],
  ['65 characters of reference', { ...least, reference: 'r'.repeat(65) }, ['#/reference']],
  ['65 emoji of reference', { ...least, reference: '😀'.repeat(65) }, ['#/reference']],
  ['a line feed in a reference', { ...least, reference: 'a\nb' }, ['#/reference']],
  ['501 characters of description', { ...least, description: 'd'.repeat(501) }, ['#/description']],
  ...[
    'nowhere',
    '/done',
    '//shop.example/done',
    'javascript:alert(1)',
    'data:text/html,<script>alert(1)</script>',
    'https:///done',
    'https://',
    'https://localhost/done',
    'https://10.0.0.1/done',
    'http://shop.example/done',
    'https://shop.example@evil.example/',
    'https://shop.example/\n',
    'https://shop.example/"onload=alert(1)',
    'https://shop.example\\@evil.example/',
    ' https://shop.example/done',
    `https://shop.example/${'x'.repeat(2_028)}`,
  ].map((url): [string, JsonValue, string[]] => [
    `a return URL such as ${url.slice(0, 60)}`,
    { ...least, payment_method: 'pm_card_visa', return_url: url },
    ['#/return_url'],
  ]),
  ['metadata of null', { ...least, metadata: null }, ['#/metadata']],
  ['metadata as a list', { ...least, metadata: ['a'] }, ['#/metadata']],
  ['21 pairs of metadata', { ...least, metadata: metadataOf(21) }, ['#/metadata']],
  ['an empty name', { ...least, metadata: { '': 'a' } }, ['#/metadata/']],
  ['a long value', { ...least, metadata: { a: 'v'.repeat(501) } }, ['#/metadata/a']],
  ['a number as value', { ...least, metadata: { 'a/b~c': 1 } }, ['#/metadata/a~1b~0c']],
  ['a value on two lines', { ...least, metadata: { a: '1\n2' } }, ['#/metadata/a']],
  [
    'a name with U+2028 and no text',
    { ...least, metadata: { '\u2028': 1 } },
    ['#/metadata/%E2%80%A8'],
  ],
  ['an unknown field', { ...least, amout: 1 }, ['#/amout']],
  ['a field that objects inherit', { ...least, constructor: 1 }, ['#/constructor']],
  ...control.flatMap((character): [string, JsonValue, string[]][] => {
    const name = `U+${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return [
      [`${name} in a reference`, { ...least, reference: character }, ['#/reference']],
      [`${name} in a description`, { ...least, description: character }, ['#/description']],
      [`${name} in a value`, { ...least, metadata: { a: character } }, ['#/metadata/a']],
    ];
  }),
];

for (const [what, body, pointers] of wrong) {
  test(`${what} is refused and pointed at`, () => {
    const result = validatePaymentRequest(body);
    assert.deepEqual(
      result.outcome === 'invalid' && result.errors.map((error) => error.pointer),
      pointers,
    );
  });
}

test('a control character in the name of metadata is refused', () => {
  for (const character of control) {
    const result = validatePaymentRequest({ ...least, metadata: { [character]: 'a' } });
    assert.equal(result.outcome, 'invalid');
  }
});

test('41 characters are too long for a name of metadata', () => {
  const result = validatePaymentRequest({ ...least, metadata: { ['n'.repeat(41)]: 'a' } });
  assert.equal(result.outcome, 'invalid');
});

test('a card is named by its payment method, and by nothing that cannot be one', () => {
  const card = validatePaymentRequest({ ...least, payment_method: 'pm_card_visa' });
  assert.ok(card.outcome === 'valid');
  assert.equal(card.details.paymentMethod, 'pm_card_visa');
  for (const method of ['', 'pm_', 'card_1', 'pm_ü', 'pm_1\n', `pm_${'x'.repeat(253)}`, null, 1]) {
    const result = validatePaymentRequest({ ...least, payment_method: method });
    const errors = result.outcome === 'invalid' ? result.errors : [];
    assert.deepEqual(
      errors.map((error) => error.pointer),
      ['#/payment_method'],
    );
    assert.match(errors[0]!.detail, /an id that the provider gave/);
  }
});

test('all wrong fields are reported at once', () => {
  const body = { amount: 0, currency: 'eur', reference: 1, metadata: { a: 1, b: 2 }, x: 1 };
  const result = validatePaymentRequest(body);
  assert.deepEqual(result.outcome === 'invalid' && result.errors.map((error) => error.pointer), [
    '#/amount',
    '#/currency',
    '#/reference',
    '#/metadata/a',
    '#/metadata/b',
    '#/x',
  ]);
});

test('thousands of wrong fields get a short answer', () => {
  const result = validatePaymentRequest({ ...least, ...metadataOf(5_000) });
  assert.equal(result.outcome === 'invalid' && result.errors.length, 50);
});

test('any JSON gets an answer, and what is refused is always pointed at', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (body) => {
      const result = validatePaymentRequest(body);
      assert.ok(result.outcome === 'valid' || result.errors.length > 0);
    }),
  );
});

function metadataOf(pairs: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: pairs }, (_, at) => [`name-${at}`, 'value']));
}

const accepted = Compile(acceptedPaymentSchema);
const shown = Compile(paymentSchema);

test('the 202 body is what its schema says, with every field as it was sent', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      const { body, location } = renderAccepted(payment);
      const fields = JSON.parse(body) as Record<string, unknown>;
      assert.deepEqual(accepted.Errors(fields), []);
      const { id, object, status, ...rest } = fields;
      assert.deepEqual(
        { id, object, status },
        { id: payment.txnId, object: 'payment', status: 'pending' },
      );
      assert.deepEqual(rest, JSON.parse(JSON.stringify(asSent(payment.details))));
      assert.equal(location, `/v1/payments/${payment.txnId}`);
    }),
  );
});

test('a payment that went through the 202 body gives the same bytes again', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      const again = parseStrictJson(Buffer.from(JSON.stringify(asSent(payment.details))));
      assert.equal(again.outcome, 'value');
      const valid = validatePaymentRequest(again.outcome === 'value' ? again.value : undefined);
      assert.equal(valid.outcome, 'valid');
      const details = valid.outcome === 'valid' ? valid.details : payment.details;
      assert.deepEqual(renderAccepted({ ...payment, details }), renderAccepted(payment));
    }),
  );
});

test('no clock is in the 202 body', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      const later = { ...payment, acceptedAt: new Date(payment.acceptedAt.getTime() + 86_400_000) };
      assert.deepEqual(renderAccepted(later), renderAccepted(payment));
    }),
  );
});

test('the order of metadata in the request changes no byte of the 202 body', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      const metadata = Object.fromEntries(Object.entries(payment.details.metadata ?? {}).reverse());
      const details = { ...payment.details, metadata };
      const sorted = { ...payment.details, metadata: payment.details.metadata ?? {} };
      assert.deepEqual(
        renderAccepted({ ...payment, details }),
        renderAccepted({ ...payment, details: sorted }),
      );
    }),
  );
});

test('a form of the 202 body that is not known here is never guessed', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      assert.throws(() => renderAccepted({ ...payment, responseVersion: 2 }), /not known/);
    }),
    { numRuns: 1 },
  );
});

test('a settled payment is shown as its schema says', () => {
  fc.assert(
    fc.property(anySettled, (payment) => {
      const fields = renderPayment(payment);
      assert.deepEqual(shown.Errors(fields), []);
      assert.equal(fields['status'], payment.state);
      assert.equal(fields['settled_at'], payment.settledAt?.toISOString());
      assert.deepEqual(fields['failure'], payment.failure);
    }),
  );
});

test('a payment that the ledger does not know yet has the same fields, pending', () => {
  fc.assert(
    fc.property(anyAccepted, (payment) => {
      const pending = renderPending(payment);
      assert.deepEqual(shown.Errors(pending), []);
      assert.deepEqual(pending, {
        ...(JSON.parse(renderAccepted(payment).body) as object),
        amount_refunded: 0,
        created_at: payment.acceptedAt.toISOString(),
        settled_at: null,
      });
    }),
  );
});
