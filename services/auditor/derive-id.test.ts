import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveId } from '@triplock/payments';
import { createTestDatabase } from '@triplock/testing';
import fc from 'fast-check';

test("the auditor's own derivation of ids agrees with the vectors and with the domain", async (context) => {
  const database = (await createTestDatabase(context)).open('triplock_auditor');
  const derive = async (parts: readonly string[]) => {
    const sql = 'SELECT derive_id(VARIADIC $1::text[]) AS id';
    return (await database.query<{ id: string }>(sql, [parts]))[0]!.id;
  };
  const payment = await derive(['payment', 'acme', 'order-1001']);
  assert.equal(payment, '37585521-60c9-8d90-a37f-2e1b8a7081e6');
  assert.equal(
    await derive(['refund', 'acme', 'order-1001']),
    '66b9d384-d57e-8dad-9491-3751cc7aa855',
  );
  assert.equal(
    await derive(['event', payment, 'payment.succeeded']),
    '328391a9-46c9-8809-a8b6-3591db80e499',
  );
  const text = fc.string({ unit: 'grapheme' }).map((some) => some.replaceAll('\0', ''));
  await fc.assert(
    fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 4 }), async (parts) => {
      assert.equal(await derive(parts), deriveId(...parts));
    }),
    { numRuns: 50 },
  );
});
