import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quickLimits } from '@triplock/runtime';
import {
  createTestDatabase,
  createTestStripe,
  createTestTopic,
  freePort,
  heapOfServices,
  holdsUpNobody,
  ofDeadLetters,
  residentMiBOf,
} from '@triplock/testing';
import { anew, aWebhook, start } from './test/at-stripe.ts';
import { settingsOf } from './test/pipeline.ts';
import { connectionLimits } from './provider-reports.ts';

const secret = 'whsec_of_a_worker';
const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: worker\r\n\r\n`;

test('whoever does not wait for answers of a worker, or does not read them, holds up neither Stripe nor operators', async (t) => {
  const [store, stripe] = [await createTestDatabase(t), await createTestStripe(t)];
  const topics = {
    accepted: await createTestTopic(t),
    dead: await createTestTopic(t, ofDeadLetters),
  };
  const port = await freePort();
  const settings: Readonly<Record<string, string>> = {
    ...(await anew(settingsOf(store.url('triplock_ledger'), topics), stripe)),
    ...heapOfServices,
    WEBHOOKS_PORT: String(port),
    STRIPE_WEBHOOK_SECRETS: secret,
  };
  const worker = start(t, settings);
  await worker.ready();
  const serve = {
    ask: async () => {
      const more = { type: 'payment_intent.created' };
      const webhook = aWebhook('pi_1', { by: secret, more });
      const answer = await fetch(`http://127.0.0.1:${port}/stripe/webhooks`, webhook);
      assert.equal(answer.status, 200, await answer.text());
      assert.match(await (await worker.admin('/metrics')).text(), /triplock_worker/);
    },
    residentMiB: () => residentMiBOf(worker),
  };
  await holdsUpNobody(t, {
    ...serve,
    port,
    unansweredMax: connectionLimits.unansweredMax,
    hasty: ['POST /stripe/webhooks', 'GET /healthz', 'QUERY /nothing'].map(headOf),
    unread: ['GET /healthz'].map(headOf),
  });
  await holdsUpNobody(t, {
    ...serve,
    port: Number(settings['ADMIN_PORT']),
    unansweredMax: quickLimits.unansweredMax,
    hasty: ['GET /metrics', 'GET /readyz', 'GET /nothing'].map(headOf),
    unread: ['GET /metrics'].map(headOf),
  });
});
