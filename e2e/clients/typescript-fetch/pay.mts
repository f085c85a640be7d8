// What a partner writes with the client that openapi-generator makes for TypeScript.
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import {
  Configuration,
  PaymentsApi,
  ProblemFromJSON,
  RefundsApi,
  ResponseError,
} from './client/index.js';

const { GATEWAY, API_KEY, KEY, WEBHOOKS, WEBHOOK_SECRET } = process.env as Record<string, string>;
if (!GATEWAY || !API_KEY || !KEY || !WEBHOOKS || !WEBHOOK_SECRET) throw new Error('no settings');

const configuration = new Configuration({ basePath: GATEWAY, accessToken: API_KEY });
const payments = new PaymentsApi(configuration);
const refunds = new RefundsApi(configuration);
const prefer = 'wait=30';

const paymentRequest = { amount: 3_000_000_000, currency: 'EUR', reference: KEY } as const;
const asked = { idempotencyKey: KEY, paymentRequest };
const accepted = await payments.createPayment(asked);
const again = await payments.createPaymentRaw(asked);
const other = { ...asked, paymentRequest: { ...paymentRequest, amount: 1 } };
const refused = await payments.createPayment(other).then(
  () => Promise.reject(new Error('another body was accepted under the same key')),
  async (error: unknown) => {
    if (!(error instanceof ResponseError)) throw error;
    const { code } = ProblemFromJSON(await error.response.json());
    return { status: error.response.status, code };
  },
);
const payment = await payments.readPayment({ id: accepted.id, prefer });

const { id: refundId } = await refunds.createRefund({
  id: payment.id,
  idempotencyKey: `${KEY}-refund`,
  refundRequest: { amount: 2_500_000_000 },
});
const refund = await refunds.readRefund({ id: refundId, prefer });
const { data } = await payments.listPayments({ reference: KEY, limit: 10 });

const result = {
  payment: { id: payment.id, status: payment.status, amount: payment.amount },
  retried: {
    id: (await again.value()).id,
    replayed: again.raw.headers.get('Idempotency-Replayed'),
  },
  refused,
  refund: { payment: refund.payment, status: refund.status, amount: refund.amount },
  listed: data.map(({ id, amountRefunded }) => ({ id, amount_refunded: amountRefunded })),
  webhook: await webhookOf(WEBHOOKS, WEBHOOK_SECRET, payment.id),
};
console.log(JSON.stringify(result));

async function webhookOf(webhooks: string, secret: string, paymentId: string) {
  const received = await fetch(`${webhooks}/${paymentId}`);
  const body = await received.text();
  const headers = Object.fromEntries(received.headers);
  const webhook = new Webhook(secret);
  const event = webhook.verify(body, headers) as { type: string; data: { id: string } };
  let forged = 'accepted';
  try {
    webhook.verify(body.replace('3000000000', '9000000000'), headers);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    forged = 'refused';
  }
  return { type: event.type, id: event.data.id, forged };
}
