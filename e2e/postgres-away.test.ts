import assert from 'node:assert/strict';
import { test } from 'node:test';
import { killProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { recordRun } from './test/history.ts';
import { home, onTheSystem, upSystem } from './test/system.ts';
import { type Answer, insist, newKey, type Partner, sendTo } from './test/partner.ts';

const setup = onTheSystem();
const body = { amount: 450, currency: 'EUR' };

const replicas = (of: string) => setup.system.services.filter(({ service }) => service === of);

async function readiness(url: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  return { status: answer.status, text: await answer.text() };
}

/**
 * Makes the claims' warm markers a day older, as a day without a loss would: whatever was broken
 * before, the gateways are warm then and need not ask the ledger for a new key.
 */
async function letADayPass(): Promise<void> {
  assert.equal(await setup.claims.ageMarkers(25 * 3_600_000), 64);
}

/** Pays, under one key until it is accepted: a busy store of claims may not answer in time. */
async function payOnce(acme: Partner): Promise<Answer> {
  const key = newKey('away');
  return insist(() => acme.pay(key, body));
}

/** Pays as often and gives the ids of what was accepted, which must be all of it. */
async function payTimes(acme: Partner, count: number): Promise<string[]> {
  const answers = await Promise.all(Array.from({ length: count }, () => payOnce(acme)));
  return answers.map((answer) => {
    assert.equal(answer.status, 202, answer.body);
    return (JSON.parse(answer.body) as { id: string }).id;
  });
}

test('without PostgreSQL warm gateways go on accepting and say so, and all becomes final afterwards', async (t) => {
  if (['postgres', 'hybrid'].includes(setup.system.claims)) {
    return t.skip('claims are in PostgreSQL, and without it nothing is accepted');
  }
  await letADayPass();
  const { acme, history, finish } = await recordRun(setup, 'postgres-away');
  // Every gateway knows the partner after this.
  await payTimes(acme, 4 * replicas('ingest-gateway').length);
  // A webhook that is sent and not recorded comes again when its lease is over, 45 s later:
  // allowed, and not what this test is about.
  await eventually(async () => {
    const waiting = `SELECT FROM webhooks.deliveries WHERE state = 'pending' LIMIT 1`;
    return (await setup.look.database.query(waiting)).length === 0;
  });
  let ids: string[];
  history.fault('kill', 'postgres');
  await killProcess({ home, name: 'postgres' });
  try {
    ids = await payTimes(acme, 40);
    for (const { ready, name } of replicas('ingest-gateway')) {
      const shown = await eventually(async () => {
        const { status, text } = await readiness(ready);
        return text.includes('degraded') && { status, text };
      });
      assert.equal(shown.status, 200, `${name}: ${shown.text}`);
      assert.match(shown.text, /postgres/);
    }
    const [worker] = replicas('ledger-worker');
    // Where the ledger is elsewhere its worker needs nothing of what is away.
    const workersAnswer = setup.system.ledger === 'postgres' ? 503 : 200;
    await eventually(async () => (await readiness(worker!.ready)).status === workersAnswer);
    // What only the ledger knows is not made up: an unknown partner is asked to come again.
    const stranger = await sendTo(setup.system.gateway, {
      method: 'POST',
      path: '/v1/payments',
      key: newKey('away'),
      body,
      headers: { authorization: `Bearer ${newKey('unknown')}` },
    });
    assert.equal(stranger.status, 503, stranger.body);
    assert.ok(stranger.tookMs < 3_500);
  } finally {
    await upSystem();
  }

  await eventually(
    async () => {
      const finals = await Promise.all(ids.map((id) => acme.payment(id, 10)));
      return finals.every(
        ({ status, body: text }) => status === 200 && text.includes('"status":"succeeded"'),
      );
    },
    { withinMs: 60_000, what: 'every payment accepted meanwhile to be final' },
  );
  for (const { ready } of replicas('ingest-gateway')) {
    await eventually(async () => !(await readiness(ready)).text.includes('degraded'));
  }
  await finish({ complete: true });
});
