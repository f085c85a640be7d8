import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { openSetBack } from './test/set-back.ts';
import { command, onTheSystem, upSystem } from './test/system.ts';
import { type Answer, newKey } from './test/partner.ts';

const on = onTheSystem();

const body = { amount: 1_100, currency: 'EUR' };
const idOf = ({ body: text }: Answer) => (JSON.parse(text) as { id: string }).id;

/** The numbers of a payment's events, in the order in which its webhooks came. */
async function sequencesOf(id: string): Promise<(number | undefined)[]> {
  const response = await fetch(`${on.system.catcher}/received`);
  const all = (await response.json()) as { body: { sequence?: number; data: object } }[];
  const ofPayment = all.filter(({ body: { data } }) =>
    Object.entries(data).some(([name, value]) => ['id', 'payment'].includes(name) && value === id),
  );
  return ofPayment.map(({ body: { sequence } }) => sequence);
}

// An event that is on its way during the failover is kept in its old form, with another time: what
// is left of it is in docs/failures.md.
const notConsumed = `
  SELECT FROM ledger.outbox
  WHERE txn_id = ANY($1::uuid[]) AND NOT (
    EXISTS (SELECT FROM auditor.published WHERE published.event_id = outbox.event_id)
    AND (SELECT count(*) FROM consumers.inbox WHERE inbox.event_id = outbox.event_id) =
      (SELECT known.consumers FROM consumers.known)
  )`;

/** Waits until those who read events in larger batches than the notifier have them, too. */
function untilAllConsumed(ids: readonly string[]): Promise<unknown> {
  return eventually(async () => {
    return (await on.look.database.query(notConsumed, [ids])).length === 0;
  });
}

test('after a failover to a standby that lacks the newest commits, or a restore, a rewind brings everything accepted into the ledger, once', async (context) => {
  const { acme, look, system } = on;
  const database = openSetBack(system);
  context.after(() => database.close());
  const pay = async (more: object = {}) => {
    const key = newKey('set-back');
    const answer = await acme.pay(key, { ...body, ...more });
    assert.equal(answer.status, 202, answer.body);
    return idOf(answer);
  };
  const untilDelivered = (ids: readonly string[]) =>
    eventually(
      async () => {
        const seen = await Promise.all(ids.map((id) => look.webhooks(id)));
        return seen.every((webhooks) => webhooks.length > 0);
      },
      { withinMs: 60_000, what: 'the webhooks' },
    );

  const before = await Promise.all([pay(), pay({ payment_method: 'pm_card_visa' })]);
  await untilDelivered(before);
  await database.copy();
  const { apart } = look.ledger;
  // After PostgreSQL, which must not know more than a ledger elsewhere.
  const restoreApart = await apart?.remember();
  const since = new Date();
  await upSystem();
  const transfers = await Promise.all([pay(), pay(), pay()]);
  const card = await pay({ payment_method: 'pm_card_visa' });
  await untilDelivered([...transfers, card]);
  const refund = idOf(await acme.refund(before[1], newKey('set-back'), { amount: 100 }));
  await untilDelivered([refund]);
  const lost = [...transfers, card];
  await untilAllConsumed([...lost, refund]);

  // Services are there when PostgreSQL fails over, and are stopped when a ledger elsewhere is
  // restored.
  if (restoreApart === undefined) await database.failOver();
  const words = ['--since', since.toISOString(), '--by', 'ada', '--why', 'failover', '--yes'];
  const early = await command('rewind', ...words);
  assert.equal(early.code, 1, early.stdout + early.stderr);
  assert.match(early.stderr, /still at work: .*ledger-worker/);
  const down = await command('down', '--services');
  assert.equal(down.code, 0, down.stdout + down.stderr);
  if (restoreApart !== undefined) await Promise.all([database.failOver(), restoreApart()]);
  // Of that ledger itself: whoever looks at its copy brings that up to date first.
  const left = (await apart?.has(lost)) ?? [...(await look.inLedger(lost))];
  assert.deepEqual(left, []);
  const rewound = await command('rewind', ...words);
  assert.equal(rewound.code, 0, rewound.stdout + rewound.stderr);
  await upSystem();

  for (const id of [...before, ...lost]) {
    const final = await acme.payment(id, 30);
    assert.match(final.body, /"status":"succeeded"/);
    const { ledger, entries } = await look.counts(id);
    assert.deepEqual([ledger, entries], [1, 1]);
  }
  assert.match((await acme.refunded(refund, 30)).body, /"status":"succeeded"/);
  const { code, stdout, stderr } = await command('audit', '--json', '--wait', '60');
  assert.equal(code, 0, stdout + stderr);
  for (const id of lost) assert.deepEqual([...new Set(await sequencesOf(id))], [1]);
  assert.deepEqual([...new Set(await sequencesOf(before[1]))], [1, 2]);
  const acts = await look.database.query(
    `SELECT done_by, why FROM auditor.operator_acts WHERE act = 'rewind'
     ORDER BY act_id DESC LIMIT 1`,
  );
  assert.deepEqual(acts, [{ done_by: 'ada', why: 'failover' }]);
});
