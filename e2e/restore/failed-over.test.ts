import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { followArrivals } from '../storm/evidence.ts';
import { allCustomersAct } from '../storm/stories.ts';
import { newKey, type Answer } from '../test/partner.ts';
import { attachStandby } from '../test/standby.ts';
import { command, makeDue, onTheSystem, upSystem } from '../test/system.ts';

const on = onTheSystem();

const within2min = (what: string) => ({ withinMs: 120_000, what });
const idOf = ({ body }: Answer) => (JSON.parse(body) as { id: string }).id;

async function pay(more: object = {}): Promise<string> {
  const answer = await on.acme.pay(newKey('failover'), { amount: 1_100, currency: 'EUR', ...more });
  assert.equal(answer.status, 202, answer.body);
  return idOf(answer);
}

/** Waits until partners have a webhook of that type of each. */
async function untilTold(type: string, ids: readonly string[]): Promise<void> {
  await eventually(async () => {
    const seen = await Promise.all(ids.map((id) => on.look.webhooks(id)));
    return seen.every((webhooks) => webhooks.some(({ body }) => body.type === type));
  }, within2min('the webhooks'));
}

async function succeeds(ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await eventually(async () => {
      const { body } = await on.acme.payment(id, 5);
      return body.includes('"status":"succeeded"');
    }, within2min('the end'));
    const { ledger, entries } = await on.look.counts(id);
    assert.deepEqual([ledger, entries], [1, 1]);
  }
}

async function auditIsGreen(): Promise<void> {
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.equal(code, 0, stdout + stderr);
}

const workers = () => on.system.services.filter(({ service }) => service === 'ledger-worker');

/** What the workers say of their ledger when they are asked whether they are ready. */
function readinessOfWorkers(): Promise<string[]> {
  return Promise.all(
    workers().map(async ({ ready }) => {
      type Answered = { checks: Record<string, string> };
      const { checks } = (await (await fetch(ready)).json()) as Answered;
      return checks['postgres']!;
    }),
  );
}

/** How many batches of all workers came to nothing. */
async function failedBatches(): Promise<number> {
  const texts = await Promise.all(
    workers().map(async ({ metrics }) => (await fetch(metrics)).text()),
  );
  const count = /^triplock_worker_batch_seconds_count\{[^}]*"failed"[^}]*\} (\d+)/m;
  return texts.reduce((sum, text) => sum + Number(count.exec(text)?.[1] ?? 0), 0);
}

test('when PostgreSQL fails over to a standby that lacks nothing, services go on by themselves', async (context) => {
  if (on.system.ledger === 'spanner') return context.skip('its ledger does not fail over');
  const standby = await attachStandby(context, on.system);
  if (standby === 'out of reach') return context.skip('PostgreSQL is in a container');
  const before = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  await untilTold('payment.succeeded', before);
  await standby.caughtUp();
  await standby.failOver();
  const after = [await pay()];
  await succeeds([...before, ...after]);
  assert.deepEqual(new Set(await readinessOfWorkers()), new Set(['ok']));
  await auditIsGreen();
});

test('when PostgreSQL fails over to a standby that lacks what was told, services that stay up decide nothing before a rewind, and contradict nothing', async (context) => {
  if (on.system.ledger === 'spanner') return context.skip('its ledger does not fail over');
  const standby = await attachStandby(context, on.system);
  if (standby === 'out of reach') return context.skip('PostgreSQL is in a container');
  const webhooks = followArrivals(on.system.catcher);
  context.after(() => webhooks.stop());
  const [transfer, card] = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  const asked = await pay({ payment_method: 'pm_card_authenticationRequired' });
  await untilTold('payment.succeeded', [transfer, card]);
  await untilTold('payment.requires_action', [asked]);
  await standby.caughtUp();
  await standby.fallBehind();
  const since = new Date();
  const lost = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  await allCustomersAct(on);
  const refund = idOf(await on.acme.refund(card, newKey('failover'), { amount: 100 }));
  await untilTold('payment.succeeded', [...lost, asked]);
  await untilTold('refund.succeeded', [refund]);

  await standby.failOver();
  await eventually(async () => {
    const said = await readinessOfWorkers();
    return said.every((each) => /npm run rewind/.test(each));
  }, within2min('what the workers say'));
  // It is pending there, and whoever looked would settle it anew.
  await makeDue(on, asked);
  const failed = await failedBatches();
  const fresh = await pay();
  const refused = within2min('a batch that is refused');
  await eventually(async () => (await failedBatches()) > failed + 1, refused);
  const states = `SELECT state FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])`;
  const ids = [asked, fresh, ...lost];
  assert.deepEqual(await on.look.database.query(states, [ids]), [{ state: 'pending' }]);

  const down = await command('down', '--services');
  assert.equal(down.code, 0, down.stdout + down.stderr);
  const words = ['--since', since.toISOString(), '--by', 'ada', '--why', 'failover', '--yes'];
  const rewound = await command('rewind', ...words, '--json');
  assert.equal(rewound.code, 0, rewound.stdout + rewound.stderr);
  const { told } = JSON.parse(rewound.stdout) as { told: { restored: number; altered: string[] } };
  assert.deepEqual([told.restored, told.altered], [4, []]);
  await upSystem();
  await succeeds([transfer, card, ...ids]);
  assert.match((await on.acme.refunded(refund, 30)).body, /"status":"succeeded"/);
  await auditIsGreen();

  await untilTold('payment.succeeded', ids);
  await webhooks.stop();
  const numbers: number[] = [];
  for (const [id, copies] of Map.groupBy(webhooks.arrived, (webhook) => webhook.id)) {
    const [body, ...others] = new Set(copies.map((copy) => copy.body));
    assert.deepEqual(others, [], id);
    const { data, sequence } = JSON.parse(body!) as { data: object; sequence: number };
    if (Object.values(data).includes(card)) numbers.push(sequence);
  }
  assert.deepEqual(numbers.sort(), [1, 2]);
});
