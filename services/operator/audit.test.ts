import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestDatabase } from '@triplock/testing';
import { runOperator } from './test/run-operator.ts';

test('a loss is acknowledged once, with who and why, by its id or by what the audit names', async (context) => {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const settings = { DATABASE_URL: store.url() };
  const [lost] = await owner.query<{ lost_id: bigint }>(
    `INSERT INTO auditor.accepted_lost
       (topic, kafka_partition, from_offset, to_offset, why, whole_at)
     VALUES ('payments.accepted.v1', 3, 120, 123, 'dropped', now()) RETURNING lost_id`,
  );
  const id = String(lost!.lost_id);
  const acknowledge = (subject: string, ...more: string[]) =>
    runOperator(['audit', 'acknowledge', subject, '--by', 'ada', ...more], settings);
  const first = await acknowledge(`${id}/payments.accepted.v1/3/120-122`, '--reason', 'sent again');
  assert.deepEqual([first.code, first.stdout], [0, `${id}: acknowledged\n`], first.stderr);
  const again = await acknowledge(id, '--reason', 'once more', '--json');
  assert.deepEqual(JSON.parse(again.stdout), { outcome: 'acknowledged-before' });
  assert.equal((await acknowledge('4712', '--reason', 'a slip')).code, 1);
  assert.deepEqual(
    await owner.query('SELECT act, subject, done_by, why FROM auditor.operator_acts'),
    [{ act: 'acknowledge', subject: `lost:${id}`, done_by: 'ada', why: 'sent again' }],
  );
});

test('an acknowledgement without an id or a reason is refused before anything is opened', async () => {
  for (const words of [
    ['acknowledge', '7'],
    ['acknowledge'],
    ['acknowledge', 'x', '--reason', 'y'],
  ]) {
    const { code, stderr } = await runOperator(['audit', ...words]);
    assert.equal(code, 2, stderr);
  }
  assert.match((await runOperator(['audit', 'acknowledge', '7'])).stderr, /--reason TEXT/);
});
