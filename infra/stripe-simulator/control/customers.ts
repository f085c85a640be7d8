import type { FastifyInstance, FastifyReply } from 'fastify';
import { commitChange, expireNow, settleNow, type Engine } from '../engine.ts';
import { type Authentication, authenticateCustomer } from '../operations/confirmations.ts';
import { type AtTheBank, decideDispute, disputeCharge } from '../operations/disputes.ts';
import { type DisputeReason, disputeReasons, type PaymentIntentRecord } from '../records.ts';

type ById = { Params: { id: string } };

const strict = { type: 'object', additionalProperties: false } as const;

const schemas = {
  settle: { ...strict, properties: { id: { type: 'string' } } },
  authenticate: {
    ...strict,
    required: ['outcome'],
    properties: { outcome: { enum: ['succeeded', 'failed'] } },
  },
  dispute: {
    ...strict,
    properties: { reason: { enum: disputeReasons }, amount: { type: 'integer', minimum: 1 } },
  },
  decision: {
    ...strict,
    required: ['outcome'],
    properties: { outcome: { enum: ['won', 'lost'] } },
  },
} as const;

/** What customers and banks do, or do not do in time, and no API call of a merchant can do. */
export function addCustomerRoutes(app: FastifyInstance, engine: Engine): void {
  const { store } = engine;
  app.post<{ Body: { id?: string } }>(
    '/_simulator/settle',
    { schema: { body: schemas.settle } },
    async ({ body }) => {
      const settled = settleNow(engine, body.id);
      await store.settled();
      return { settled };
    },
  );
  app.post<{ Body: { id?: string } }>(
    '/_simulator/expire',
    { schema: { body: schemas.settle } },
    async ({ body }) => {
      const expired = expireNow(engine, body.id);
      await store.settled();
      return { expired };
    },
  );
  app.post<ById & { Body: { outcome: Authentication } }>(
    '/_simulator/payment_intents/:id/authenticate',
    { schema: { body: schemas.authenticate } },
    async ({ params, body }, reply) => {
      const done = authenticateCustomer(engine.world, params.id, body.outcome);
      if (done.outcome === 'unknown') return reply.code(404).send(done);
      if (done.outcome === 'not-asked') return reply.code(409).send(done);
      commitChange(engine, 'authentication', { change: done.change });
      await store.settled();
      return { outcome: 'done', status: store.account.paymentIntents.get(params.id)?.status };
    },
  );
  addDisputeRoutes(app, engine);
}

function addDisputeRoutes(app: FastifyInstance, engine: Engine): void {
  const answer = async (reply: FastifyReply, done: AtTheBank) => {
    if (done.outcome === 'unknown') return reply.code(404).send(done);
    if (done.outcome === 'not-possible') return reply.code(409).send(done);
    commitChange(engine, 'dispute', { change: done.change });
    await engine.store.settled();
    return { outcome: 'done', id: done.id };
  };
  app.post<ById & { Body: { reason?: DisputeReason; amount?: number } }>(
    '/_simulator/payment_intents/:id/dispute',
    { schema: { body: schemas.dispute } },
    ({ params, body }, reply) => answer(reply, disputeCharge(engine.world, params.id, body)),
  );
  app.post<ById & { Body: { outcome: 'won' | 'lost' } }>(
    '/_simulator/disputes/:id/close',
    { schema: { body: schemas.decision } },
    ({ params, body }, reply) =>
      answer(reply, decideDispute(engine.world, params.id, body.outcome)),
  );
}

/**
 * The bank's page to which `next_action.redirect_to_url` sends a customer: two buttons, and back to
 * the merchant (https://docs.stripe.com/payments/3d-secure/authentication-flow, manual redirect).
 */
export function addAuthenticationPage(app: FastifyInstance, engine: Engine): void {
  const { account } = engine.store;
  const form = 'application/x-www-form-urlencoded';
  app.addContentTypeParser(form, { parseAs: 'string' }, (_request, body, done) => done(null, body));

  app.get<ById>('/_simulator/authenticate/:id', ({ params }, reply) => {
    const intent = account.paymentIntents.get(params.id);
    if (intent?.action == null) return reply.code(404).send({ outcome: 'not-asked' });
    return reply.type('text/html; charset=utf-8').send(page(intent));
  });
  app.post<ById>('/_simulator/authenticate/:id', async ({ params, body }, reply) => {
    const before = account.paymentIntents.get(params.id);
    const wish = typeof body === 'string' ? new URLSearchParams(body).get('outcome') : undefined;
    const result = wish === 'succeeded' ? 'succeeded' : 'failed';
    const done = authenticateCustomer(engine.world, params.id, result);
    if (before === undefined || done.outcome !== 'done') return reply.code(404).send(done);
    commitChange(engine, 'authentication', { change: done.change });
    await engine.store.settled();
    return goBack(reply, before, result);
  });
}

/** The customer comes back with the intent's id and secret, as from Stripe's own page. */
function goBack(reply: FastifyReply, intent: PaymentIntentRecord, result: string): FastifyReply {
  const returnUrl = intent.action?.redirect?.returnUrl;
  if (returnUrl === undefined) return reply.send({ outcome: 'done' });
  const url = new URL(returnUrl);
  url.searchParams.set('payment_intent', intent.id);
  url.searchParams.set('payment_intent_client_secret', intent.clientSecret);
  url.searchParams.set('redirect_status', result);
  return reply.redirect(url.href, 303);
}

/** Nothing on it comes from a caller's text. */
function page({ id, amount, currency }: PaymentIntentRecord): string {
  const button = (outcome: string, label: string) =>
    `<button name="outcome" value="${outcome}">${label}</button>`;
  return `<!doctype html>
<html lang="en">
<title>Authenticate a simulated payment</title>
<h1>Is this you?</h1>
<p>${id}: ${amount} ${currency}, in minor units. Nothing here is real.</p>
<form method="post">${button('succeeded', 'Yes')} ${button('failed', 'No')}</form>
</html>
`;
}
