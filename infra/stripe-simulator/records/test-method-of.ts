import type { PaymentMethodRecord } from './records.ts';
import { testPaymentMethods, type TestMethod } from './test-payment-methods.ts';

/** How a payment method behaves. A record of an unknown method is a bug, or an older journal. */
export function testMethodOf(record: PaymentMethodRecord): TestMethod {
  const method = testPaymentMethods[record.testMethod];
  if (method === undefined) throw new Error(`no test payment method ${record.testMethod}`);
  return method;
}
