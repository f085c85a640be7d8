import type { FastifyInstance, FastifyReply } from 'fastify';
import { commitChange, type Engine } from '../engine.ts';
import { authenticateCustomer } from '../operations/confirmations.ts';
import type { PaymentIntentRecord } from '../records.ts';

type ById = { Params: { id: string } };

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
