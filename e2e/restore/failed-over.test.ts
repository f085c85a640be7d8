import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { continueProcess, pauseProcess } from '@triplock/launcher';
import { isCopied } from '@triplock/ledgers';
import { eventually, stripeControl } from '@triplock/testing';
import { followArrivals } from '../storm/evidence.ts';
import { allCustomersAct } from '../storm/stories.ts';
import { newKey, type Answer } from '../test/partner.ts';
import { attachStandby } from '../test/standby.ts';
import { allPosted, command, home, makeDue, onTheSystem, upSystem } from '../test/system.ts';

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

/** One that follows; skips the test and gives nothing where the ledger has none. */
async function aStandby(context: TestContext) {
  if (isCopied(on.system.ledger)) return void context.skip('its ledger does not fail over');
  const standby = await attachStandby(context, on.system);
  return standby === 'out of reach' ? void context.skip('PostgreSQL is in a container') : standby;
}

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

/** Waits until every worker has seen that work goes on, which one of them may have done so far. */
const allReady = () =>
  eventually(
    async () => (await readinessOfWorkers()).every((said) => said === 'ok'),
    within2min('workers that are ready'),
  );

/** How many batches of all workers came to nothing. */
async function failedBatches(): Promise<number> {
  const metric = /^triplock_worker_batch_seconds_count\{[^}]*"failed"[^}]*\} (\d+)/gm;
  const texts = await Promise.all(
    workers().map(async ({ metrics }) => (await fetch(metrics)).text()),
  );
  const values = texts.flatMap((text) => [...text.matchAll(metric)].map(([, value]) => value));
  return values.reduce((sum, value) => sum + Number(value), 0);
}

/** Has every replica of some services stand still while `work` goes on. */
async function whileStill(services: readonly string[], work: () => Promise<void>): Promise<void> {
  const names = on.system.services.flatMap(({ name, service }) =>
    services.includes(service) ? [name] : [],
  );
  await Promise.all(names.map((name) => pauseProcess({ home, name })));
  try {
    await work();
  } finally {
    await Promise.all(names.map((name) => continueProcess({ home, name })));
  }
}

/** The bank of a card takes part of a payment back. */
async function dispute(id: string): Promise<void> {
  const [row] = await on.look.database.query<{ intent: string }>(
    'SELECT provider_intent_id AS intent FROM ledger.transactions WHERE txn_id = $1',
    [id],
  );
  const provider = stripeControl(on.system.providers.stripe.url, on.system.controlToken);
  await provider('POST', `/payment_intents/${row!.intent}/dispute`, { amount: 300 });
}

/** The one dispute of a payment, once it is noted. */
async function disputeOf(id: string): Promise<{ amount: bigint; sequence: number; at: Date }> {
  const sql = 'SELECT amount, sequence, created_at AS at FROM ledger.disputes WHERE txn_id = $1';
  type Dispute = Awaited<ReturnType<typeof disputeOf>>;
  const noted = () => on.look.database.query<Dispute>(sql, [id]);
  await eventually(async () => (await noted()).length > 0, within2min('the dispute'));
  const [only, ...others] = await noted();
  assert.deepEqual(others, []);
  return only!;
}

test('when PostgreSQL fails over to a standby that lacks nothing but what the provider reports only once, services go on by themselves, and ask for that', async (context) => {
  const standby = await aStandby(context);
  if (standby === undefined) return;
  const before = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  const [, card] = before;
  await untilTold('payment.succeeded', before);
  await standby.caughtUp();
  await standby.fallBehind();
  let lost: Date | undefined;
  await whileStill(['outbox-dispatcher'], async () => {
    await dispute(card);
    lost = (await disputeOf(card)).at;
    await standby.failOver();
  });
  const after = [await pay()];
  await succeeds([...before, ...after]);
  await untilTold('payment.disputed', [card]);
  const { amount, sequence, at } = await disputeOf(card);
  assert.deepEqual([amount, sequence], [300n, 2]);
  assert.ok(at > lost!, 'it is another row');
  await allReady();
  await auditIsGreen();
});

test('when PostgreSQL fails over to a standby that lacks what was posted and not told yet, services post it again by themselves', async (context) => {
  const standby = await aStandby(context);
  if (standby === undefined) return;
  const setBacks = async () => {
    const rows = await on.look.database.query('SELECT FROM ledger.rewinds WHERE NOT disputes_only');
    return rows.length;
  };
  const found = await setBacks();
  const card = await pay({ payment_method: 'pm_card_visa' });
  await untilTold('payment.succeeded', [card]);
  await standby.caughtUp();
  await standby.fallBehind();
  const ids: string[] = [];
  const refunds: string[] = [];
  await whileStill(['outbox-dispatcher'], async () => {
    ids.push(...(await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })])));
    for (const body of [{ amount: 100 }, {}]) {
      const refund = idOf(await on.acme.refund(card, newKey('failover'), body));
      assert.match((await on.acme.refunded(refund, 30)).body, /"status":"succeeded"/);
      refunds.push(refund);
    }
    await succeeds(ids);
    await allPosted(on.system);
    await standby.failOver();
  });
  await succeeds([card, ...ids]);
  for (const refund of refunds) {
    assert.match((await on.acme.refunded(refund, 30)).body, /"status":"succeeded"/);
  }
  await allReady();
  assert.equal((await setBacks()) > found, true);
  await untilTold('payment.succeeded', ids);
  await untilTold('refund.succeeded', refunds);
  await auditIsGreen();
});

test('when PostgreSQL fails over to a standby that lacks what consumers had applied, they are told again', async (context) => {
  const standby = await aStandby(context);
  if (standby === undefined) return;
  const consumers = ['partner-notifier', 'settlement-feed', 'auditor'];
  const ids: string[] = [];
  await whileStill(consumers, async () => {
    ids.push(...(await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })])));
    await succeeds(ids);
    const waiting = `SELECT FROM ledger.outbox WHERE state <> 'published'`;
    await eventually(async () => (await on.look.database.query(waiting)).length === 0);
    await standby.caughtUp();
    await standby.fallBehind();
  });
  await untilTold('payment.succeeded', ids);
  await standby.failOver();
  await succeeds([await pay(), ...ids]);
  await auditIsGreen();
});

test('when PostgreSQL fails over to a standby that lacks what was told, services that stay up decide nothing before a rewind, and contradict nothing', async (context) => {
  const standby = await aStandby(context);
  if (standby === undefined) return;
  const webhooks = followArrivals(context, on.system.catcher);
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
  for (const [id, copies] of Map.groupBy(webhooks.seen, (webhook) => webhook.id)) {
    const [body, ...others] = new Set(copies.map((copy) => copy.body));
    assert.deepEqual(others, [], id);
    const { data, sequence } = JSON.parse(body!) as { data: object; sequence: number };
    if (Object.values(data).includes(card)) numbers.push(sequence);
  }
  assert.deepEqual(numbers.sort(), [1, 2]);
});
