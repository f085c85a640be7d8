// What a partner writes with openapi-fetch and the types that openapi-typescript makes.
import createClient from 'openapi-fetch';
import { Webhook, WebhookVerificationError } from 'standardwebhooks';
import type { paths } from './client/schema.js';

const { GATEWAY, API_KEY, KEY, WEBHOOKS, WEBHOOK_SECRET } = process.env as Record<string, string>;
if (!GATEWAY || !API_KEY || !KEY || !WEBHOOKS || !WEBHOOK_SECRET) throw new Error('no settings');

const client = createClient<paths>({
  baseUrl: GATEWAY,
  headers: { Authorization: `Bearer ${API_KEY}` },
});
const waiting = { Prefer: 'wait=30' };

const body = { amount: 3_000_000_000, currency: 'EUR', reference: KEY } as const;
const idempotent = { header: { 'Idempotency-Key': KEY } };
const accepted = await client.POST('/v1/payments', { params: idempotent, body });
const again = await client.POST('/v1/payments', { params: idempotent, body });
const refused = await client.POST('/v1/payments', {
  params: idempotent,
  body: { ...body, amount: 1 },
});
const payment = await client.GET('/v1/payments/{id}', {
  params: { path: { id: there(accepted).id }, header: waiting },
});

const givenBack = await client.POST('/v1/payments/{id}/refunds', {
  params: {
    path: { id: there(payment).id },
    header: { 'Idempotency-Key': `${KEY}-refund` },
  },
  body: { amount: 2_500_000_000 },
});
const refund = await client.GET('/v1/refunds/{id}', {
  params: { path: { id: there(givenBack).id }, header: waiting },
});
const list = await client.GET('/v1/payments', { params: { query: { reference: KEY, limit: 10 } } });

const { id, status, amount } = there(payment);
const { payment: of, status: itsStatus, amount: given } = there(refund);
const result = {
  payment: { id, status, amount },
  retried: {
    id: there(again).id,
    replayed: again.response.headers.get('Idempotency-Replayed'),
  },
  refused: { status: refused.response.status, code: refused.error?.code },
  refund: { payment: of, status: itsStatus, amount: given },
  listed: there(list).data.map((each) => ({
    id: each.id,
    amount_refunded: each.amount_refunded,
  })),
  webhook: await webhookOf(WEBHOOKS, WEBHOOK_SECRET, id),
};
console.log(JSON.stringify(result));

function there<Data>({ data, error }: { data?: Data; error?: unknown }): Data {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

async function webhookOf(webhooks: string, secret: string, paymentId: string) {
  const received = await fetch(`${webhooks}/${paymentId}`);
  const text = await received.text();
  const headers = Object.fromEntries(received.headers);
  const webhook = new Webhook(secret);
  const event = webhook.verify(text, headers) as { type: string; data: { id: string } };
  let forged = 'accepted';
  try {
    webhook.verify(text.replace('3000000000', '9000000000'), headers);
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    forged = 'refused';
  }
  return { type: event.type, id: event.data.id, forged };
}
