import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { openPostgresLedger } from '@triplock/ledger';
import type { AcceptedPayment } from '@triplock/payments';
import { aPayment, createTestDatabase, freePort } from '@triplock/testing';
import {
  CommandError,
  UsageError,
  wholeNumber,
  count,
  formatSpan,
  pad,
  renderList,
  renderTable,
  style,
  widthOf,
} from '@triplock/command';
import { askPart, withParts, type Unasked } from '@triplock/inspect';
import { openOperator, runAsProcess } from './test/run-operator.ts';

const runOperator = openOperator({ after });

const { signal } = new AbortController();

test('work without a part that it needs is not begun, or blames the part that stopped working', async () => {
  let broken: string[] = [];
  const operator = { signal, diagnose: () => Promise.resolve(broken) };
  assert.equal(await withParts(operator, ['redis'], async () => 'done'), 'done');

  const cause = new Error('Command timed out');
  const lostMidway = withParts(operator, ['redis'], () => {
    broken = ['redis stands still'];
    return Promise.reject(cause);
  });
  await assert.rejects(lostMidway, (error: Error) => {
    assert.ok(error instanceof UsageError);
    assert.equal(error.message, 'redis stands still');
    return error.cause === cause;
  });
  let begun = false;
  const begin = async () => (begun = true);
  await assert.rejects(withParts(operator, ['redis'], begin), /redis stands still/);
  assert.equal(begun, false);
  broken = [];
  await assert.rejects(
    withParts(operator, ['redis'], () => Promise.reject(cause)),
    cause,
  );
});

test('an address that nobody answers at is reported in a sentence', async () => {
  const operator = { signal, diagnose: () => Promise.resolve([]) };
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), {
    code: 'ECONNREFUSED',
  });
  await assert.rejects(
    withParts(operator, ['postgres'], () => Promise.reject(refused)),
    (error) => error instanceof CommandError && /ECONNREFUSED/.test(error.message),
  );
  const unasked: Unasked[] = [];
  const asked = { part: 'kafka', otherwise: 0, unasked } as const;
  assert.equal(await askPart(operator, asked, () => Promise.reject(refused)), 0);
  assert.deepEqual(unasked, [{ part: 'kafka', why: 'kafka: connect ECONNREFUSED 127.0.0.1:1' }]);
});

const anId = '37585521-60c9-8d90-a37f-2e1b8a7081e6';

test('every command says what to set of what it lacks, and takes --help', async () => {
  const lacking: readonly [string, ...string[]][] = [
    ['AUDITOR_URL', 'audit'],
    ['DATABASE_URL', 'trace', anId],
    ['DATABASE_URL', 'dead-letters', 'list'],
    ['DATABASE_URL', 'republish', '--since', '2026-01-01', '--by', 'ada'],
    ['DATABASE_URL', 'rewind', '--since', '2026-01-01', '--by', 'ada'],
    ['DATABASE_URL', 'give-back', anId, '--why', 'x', '--by', 'ada'],
    ['PARTNERS_DATABASE_URL', 'partners', 'list'],
    ['DATABASE_URL', 'migrate'],
  ];
  for (const [setting, ...words] of lacking) {
    const { code, stderr } = await runAsProcess(words);
    assert.equal(code, 2, stderr);
    assert.ok(stderr.startsWith(`triplock ${words[0]}: ${setting} is not set: give `), stderr);
    const help = await runOperator([words[0]!, '--help']);
    assert.equal(help.code, 0);
    assert.match(help.stdout, new RegExp(`^npm run ${words[0]}[^]*\n${setting} `));
  }
  const unknown = await runAsProcess(['audti']);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /give a command[^]*dead-letters/);
});

const wanted = { option: 'wait', min: 0, max: 60 };

test('an option takes a whole number in its range, or is absent', () => {
  assert.equal(wholeNumber('0', wanted), 0);
  assert.equal(wholeNumber('60', wanted), 60);
  assert.equal(wholeNumber(undefined, wanted), undefined);
});

test('anything else is refused by the name of the option', () => {
  for (const text of ['61', '-1', '1.5', '1e1', '', 'ten', ' 1']) {
    assert.throws(
      () => wholeNumber(text, wanted),
      (error) => {
        return error instanceof UsageError && error.message.startsWith('--wait takes');
      },
    );
  }
});

test('whatever a command lacks is named with what it takes, before anything is opened', async () => {
  const roles = 'one of viewer, operator, admin';
  const lacking: [string[], string][] = [
    [['operators'], 'an act is missing: one of list, add, role, rotate, revoke'],
    [['operators', 'add'], 'a NAME is missing: npm run operators -- add NAME'],
    [['operators', 'add', 'ada'], `--role is missing: ${roles}`],
    [['operators', 'role', 'ada'], `--role is missing: ${roles}`],
    [['operators', 'add', 'ada', '--role', 'boss'], `--role takes ${roles}, not 'boss'`],
    [['operators', 'give', 'ada'], 'an act takes one of list, add, role, rotate, revoke, not'],
    [['partners'], 'an act is missing: one of list, log, add, rotate-key, '],
    [['partners', 'add'], 'ID is missing: npm run partners -- add ID'],
    [['partners', 'card-numbers', 'acme'], 'allowed|refused|FIELD[,FIELD] is missing: '],
    [['partners', 'card-numbers', 'acme', 'some'], 'card-numbers takes one of allowed, refused'],
    [['partners', 'rotate-secret', 'acme'], 'ENDPOINT is missing: '],
    [['dead-letters'], 'an act is missing: one of list, show, redrive, dismiss'],
    [['dead-letters', 'show'], 'an ID is missing: '],
    [['dead-letters', 'redrive'], 'an ID, or --partner is missing: '],
    [['dead-letters', 'dismiss', 'kafka:0:1'], '--why is missing: '],
    [['republish'], '--since is missing: a time such as '],
    [['rewind'], '--since is missing: a time such as '],
    [['give-back'], 'an ID is missing: '],
    [['give-back', anId], '--why is missing: '],
    [['audit', 'acknowledge'], 'an ID is missing: '],
    [['audit', 'acknowledge', '1'], '--reason is missing: '],
    [['trace'], 'an id is missing: '],
  ];
  const ran = await Promise.all(lacking.map(([words]) => runOperator(words)));
  for (const [n, { code, stderr }] of ran.entries()) {
    const [words, begins] = lacking[n]!;
    assert.equal(code, 2, stderr);
    assert.ok(stderr.startsWith(`triplock ${words[0]}: ${begins}`), stderr);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  }
});

test('columns are as wide as their widest cell, and figures end on one line', () => {
  const columns = [{ head: 'name' }, { head: 'n', align: 'right' as const }];
  const lines = renderTable(columns, [
    ['a', '1'],
    ['longer', '1000'],
  ]);
  assert.deepEqual(lines, ['name       n', 'a          1', 'longer  1000']);
});

test('a list fits 100 columns: its widest cells go on below, and no word is broken', () => {
  const columns = [{ head: 'name' }, { head: 'what fails' }, { head: 'absorbed by' }];
  const words = (count: number) => Array.from({ length: count }, (_, n) => `word${n}`).join(' ');
  const rows = [
    ['first', words(3), words(30)],
    ['second', words(20), words(2)],
  ];
  const lines = renderList(columns, rows);
  for (const line of lines) assert.ok(widthOf(line) <= 100, line);
  const [, first, below] = lines;
  assert.match(first!, /^first {3}word0 word1 word2 /);
  assert.match(below!, /^ +word\d+/);
  const said = (text: string) => text.match(/word\d+/g)!.sort();
  assert.deepEqual(said(lines.join(' ')), said(rows.flat().join(' ')));
  const id = 'x'.repeat(120);
  assert.ok(renderList([{ head: 'id' }], [[id]]).includes(id));
  assert.deepEqual(renderList(columns, [['a', 'b', 'c']]), renderTable(columns, [['a', 'b', 'c']]));
});

test('a colour takes no column', () => {
  assert.equal(widthOf('\u001b[32mok\u001b[39m'), 2);
  assert.equal(pad('\u001b[32mok\u001b[39m', 4).slice(-2), '  ');
});

test('there is no colour where nobody sees it', () => {
  // Tests write to a pipe, as a log or another program does.
  assert.equal(style.bad('text'), 'text');
});

test('counts and spans are read out as people say them', () => {
  assert.equal(count(1, 'row'), '1 row');
  assert.equal(count(2, 'row'), '2 rows');
  assert.equal(count(0, 'entry', 'entries'), '0 entries');
  const spans = [3.4, 1_440, 125_000, 86_399_000].map(formatSpan);
  assert.deepEqual(spans, ['3 ms', '1.4 s', '2 min 5 s', '23 h 59 min']);
});

/** A database, and `audit acknowledge` on it: what came of each id, by itself or with others. */
async function acknowledging(context: TestContext) {
  const store = await createTestDatabase(context);
  const owner = store.open();
  const run = (...words: string[]) =>
    runOperator(['audit', 'acknowledge', ...words, '--by', 'ada'], { DATABASE_URL: store.url() });
  const acknowledge = async (...ids: string[]) => {
    const { stdout, stderr, code } = await run(...ids, '--reason', 'served', '--json');
    assert.notEqual(stdout, '', stderr);
    const { outcomes } = JSON.parse(stdout) as { outcomes: { id: string; outcome: string }[] };
    assert.equal(code, outcomes.some(({ outcome }) => outcome === 'not-found') ? 1 : 0, stderr);
    return outcomes.map(({ outcome }) => outcome).join();
  };
  const lose = async (offsets: readonly [from: number, to: number]) => {
    const sql = `INSERT INTO auditor.accepted_lost
        (topic, kafka_partition, from_offset, to_offset, why, whole_at)
      VALUES ('payments.accepted.v1', 3, $1, $2, 'dropped', now()) RETURNING lost_id::text AS id`;
    return (await owner.query<{ id: string }>(sql, [...offsets]))[0]!.id;
  };
  const acts = async () => {
    const sql = 'SELECT subject FROM auditor.operator_acts ORDER BY act_id';
    return (await owner.query<{ subject: string }>(sql)).map(({ subject }) => subject);
  };
  let seconds = 0;
  const read = (partition: number, { txnId, fingerprint, partnerId }: AcceptedPayment) =>
    owner.query(
      `INSERT INTO auditor.accepted (
         txn_id, fingerprint, kind, partner_id, currency, amount, rest, kafka_partition,
         kafka_offset, first_seen
       )
       VALUES ($1, decode($2, 'hex'), 'payment', $3, 'EUR', 1, sha256(''), $4, $5,
         now() + $5::bigint * interval '1 second')`,
      [txnId, fingerprint, partnerId, partition, (seconds += 1) - 100],
    );
  const ledger = openPostgresLedger(store.open('triplock_ledger'));
  const post = (payment: AcceptedPayment) => ledger.post([{ payment, traceparent: '' }]);
  return { owner, run, acknowledge, lose, acts, read, post };
}

test('a loss is acknowledged once, with who and why, by its id or by what the audit names', async (context) => {
  const { owner, run, acknowledge, lose } = await acknowledging(context);
  const id = await lose([120, 123]);
  const first = await run(`${id}/payments.accepted.v1/3/120-122`, '--reason', 'sent again');
  assert.deepEqual([first.code, first.stdout], [0, `${id}: acknowledged\n`], first.stderr);
  assert.equal(await acknowledge(id), 'acknowledged-before');
  assert.equal(await acknowledge('4712'), 'not-found');
  assert.deepEqual(
    await owner.query('SELECT act, subject, done_by, why FROM auditor.operator_acts'),
    [{ act: 'acknowledge', subject: `lost:${id}`, done_by: 'ada', why: 'sent again' }],
  );
});

test('several losses are acknowledged at once, also beside one that is none', async (context) => {
  const { acknowledge, lose, acts } = await acknowledging(context);
  const [one, other] = [await lose([120, 123]), await lose([200, 201])];
  assert.equal(await acknowledge(one, '4712', other), 'acknowledged,not-found,acknowledged');
  assert.equal(await acknowledge(one, other), 'acknowledged-before,acknowledged-before');
  assert.deepEqual(await acts(), [`lost:${one}`, `lost:${other}`]);
});

test('a claim that nothing accounts for is acknowledged by its id, and a loss once more when claims are laid to it', async (context) => {
  const { owner, acknowledge, lose, acts } = await acknowledging(context);
  const lost = await lose([1, 3]);
  assert.equal(await acknowledge(lost), 'acknowledged');
  const one = '37585521-60c9-8d90-a37f-2e1b8a7081e6';
  const other = '66b9d384-d57e-8dad-9491-3751cc7aa855';
  for (const [id, laidTo] of [
    [one, lost],
    [other, null],
  ]) {
    await owner.query(
      `INSERT INTO auditor.claims_unaccounted (
         txn_id, fingerprint, partner_id, accepted_at, topic, kafka_partition, before_offset,
         confirmed_at, lost_id
       )
       VALUES ($1, decode(repeat('07', 32), 'hex'), 'acme', now(), 'payments.accepted.v1', 3, 3,
         now(), $2)`,
      [id, laidTo],
    );
  }
  assert.equal(await acknowledge(lost), 'acknowledged');
  assert.equal(await acknowledge(lost), 'acknowledged-before');
  assert.equal(await acknowledge(other), 'acknowledged');
  assert.equal(await acknowledge('328391a9-46c9-8809-a8b6-3591db80e499'), 'not-found');
  assert.deepEqual(await acts(), [`lost:${lost}`, `lost:${lost}`, `claim:${other}`]);
});

test('what one side alone had read is acknowledged by its id, once no worker may come to it and Kafka lost something', async (context) => {
  const { acknowledge, lose, acts, read, post } = await acknowledging(context);
  const [lost, elsewhere, later, unread] = [aPayment(), aPayment(), aPayment(), aPayment()];
  await read(3, lost);
  await read(4, elsewhere);
  await post(elsewhere);
  assert.equal(await acknowledge(lost.txnId), 'not-found');
  await read(3, later);
  await post(later);
  assert.equal(await acknowledge(lost.txnId), 'acknowledged');
  assert.equal(await acknowledge(lost.txnId), 'acknowledged-before');
  assert.equal(await acknowledge(later.txnId), 'not-found');
  await post(unread);
  assert.equal(await acknowledge(unread.txnId), 'not-found');
  await lose([1, 3]);
  assert.equal(await acknowledge(unread.txnId), 'acknowledged');
  assert.deepEqual(await acts(), [`accepted:${lost.txnId}`, `ledger:${unread.txnId}`]);
});

test('a dead letter that was lost is acknowledged by its record, once no worker may come to it', async (context) => {
  const { owner, acknowledge, acts, read, post } = await acknowledging(context);
  const topic = 'payments.accepted.v1';
  const refused = async (offset: number) => {
    await owner.query(
      `INSERT INTO auditor.accepted_refused
         (topic, kafka_partition, kafka_offset, reason, detail, first_seen)
       VALUES ($1, 3, $2, 'null_value', '', now() - interval '2 minutes')`,
      [topic, offset],
    );
    return `${topic}/3/${offset}`;
  };
  const [lost, dead] = [await refused(7), await refused(8)];
  const letter = `INSERT INTO auditor.dead_letters (topic, kafka_partition, kafka_offset, reason)
    VALUES ($1, 3, 8, 'null_value')`;
  await owner.query(letter, [topic]);
  assert.equal(await acknowledge(lost), 'not-found');
  const later = aPayment();
  await read(3, later);
  await post(later);
  const outcome = await acknowledge(lost, dead, `${topic}/3/9`);
  assert.equal(outcome, 'acknowledged,not-found,not-found');
  assert.equal(await acknowledge(lost), 'acknowledged-before');
  assert.deepEqual(await acts(), [`record:${lost}`]);
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
  assert.match((await runOperator(['audit', 'acknowledge', '7'])).stderr, /--reason is missing/);
});

test('a database that does not answer is reported in one line, without its password', async () => {
  const port = await freePort();
  // The second has two addresses on many a machine.
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `postgres://triplock_partners:hunter2@${host}:${port}/triplock`;
    const { code, stderr } = await runOperator(['partners', 'list'], {
      PARTNERS_DATABASE_URL: url,
    });
    assert.equal(code, 1);
    const beginning = `triplock partners: postgres://${host}:${port}/triplock: connect ECONNREFUSED`;
    assert.ok(stderr.startsWith(beginning), stderr);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  }
});
