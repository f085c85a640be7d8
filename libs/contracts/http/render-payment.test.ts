import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Compile } from 'typebox/compile';
import { anyAccepted, anySettled } from '../arbitrary-payment.testing.ts';
import { asSent, renderAccepted } from './accepted-response.ts';
import { acceptedPaymentSchema, paymentSchema } from './payment-schemas.ts';
import { renderPayment, renderPending } from './render-payment.ts';
import { parseStrictJson } from './strict-json.ts';
import { validatePaymentRequest } from './validate-payment-request.ts';

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
