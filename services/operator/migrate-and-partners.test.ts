import assert from 'node:assert/strict';
import { userInfo } from 'node:os';
import { after, test } from 'node:test';
import { ledgersApart } from '@triplock/ledgers';
import { parseWebhookKeys, seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import { connectionLimits, openForCommand } from '@triplock/postgres';
import {
  createPostgresTlsWay,
  createTestDatabase,
  freePort,
  testPart,
  testWebhookKeys,
} from '@triplock/testing';
import { openOperator } from './test/run-operator.ts';

const runOperator = openOperator({ after });

const run = (url: string) => runOperator(['migrate', '--json'], { DATABASE_URL: url });

test('a database elsewhere is brought up to date once', async (t) => {
  const store = await createTestDatabase(t);
  await store.open().query(`DELETE FROM migrations.applied WHERE owner = 'auditor';
    DROP SCHEMA auditor CASCADE; CREATE SCHEMA auditor AUTHORIZATION CURRENT_USER;
    GRANT USAGE ON SCHEMA auditor TO triplock_auditor`);
  const { pathname } = new URL(store.url());
  await store.open().query(`GRANT CONNECT ON DATABASE "${pathname.slice(1)}" TO PUBLIC`);
  const first = await run(store.url());
  assert.equal(first.code, 0, first.stderr);
  const { postgres, ...rest } = JSON.parse(first.stdout) as Record<string, { owner: string }[]>;
  assert.deepEqual([...new Set(postgres!.map(({ owner }) => owner))], ['auditor']);
  for (const name of ledgersApart) assert.deepEqual(rest[name], []);
  // As a dump that was restored is, it was open to every role.
  const open = `SELECT FROM pg_database, aclexplode(datacl) AS granted
    WHERE datname = current_database() AND granted.grantee = 0`;
  assert.deepEqual(await store.open().query(open), []);
  const { unlimited: _, ...again } = JSON.parse((await run(store.url())).stdout) as object & {
    unlimited: string[];
  };
  const none = ['postgres', ...ledgersApart].map((name) => [name, []]);
  assert.deepEqual(again, Object.fromEntries(none));
});

test('each role is limited to the connections of as many replicas as are named', async (t) => {
  const store = await createTestDatabase(t);
  // Roles are the server's, which other tests use: so many that nobody comes to the end of them.
  const words = ['migrate', '--json', '--replicas', '999'];
  const { code, stdout, stderr } = await runOperator(words, { DATABASE_URL: store.url() });
  assert.equal(code, 0, stderr);
  assert.deepEqual((JSON.parse(stdout) as { unlimited: string[] }).unlimited, []);
  const limits = await store
    .open()
    .query<{ role: string; most: number }>(
      `SELECT rolname AS role, rolconnlimit AS most FROM pg_roles WHERE rolname LIKE 'triplock\\_%'`,
    );
  const known = connectionLimits(999);
  const limited = limits.filter(({ role }) => role in known);
  assert.deepEqual(Object.fromEntries(limited.map(({ role, most }) => [role, most])), known);
  for (const replicas of ['0', 'many']) {
    const refused = await runOperator(['migrate', '--replicas', replicas], {
      DATABASE_URL: store.url(),
    });
    assert.equal(refused.code, 2, refused.stderr);
  }
});

test('what is in the way is reported in one line, without the password, and nothing is touched', async (t) => {
  const store = await createTestDatabase(t);
  await store
    .open()
    .query(`INSERT INTO migrations.applied VALUES ('ledger', '9999-newer.sql', 'hash', now())`);
  const newer = await run(store.url());
  assert.equal(newer.code, 1);
  assert.match(
    newer.stderr,
    /^triplock migrate: .*9999-newer\.sql, which this version does not know/,
  );

  const away = await run(`postgres://owner:hunter2@127.0.0.1:${await freePort()}/triplock`);
  assert.equal(away.code, 1);
  assert.match(
    away.stderr,
    /^triplock migrate: postgres:\/\/127\.0\.0\.1:\d+\/triplock: .*ECONNREFUSED/,
  );
  for (const { stderr } of [newer, away]) assert.equal(stderr.trim().split('\n').length, 1, stderr);

  const { code, stderr } = await run('');
  assert.deepEqual(
    [code, stderr.trim()],
    [2, "triplock migrate: DATABASE_URL is not set: give the database's URL, as its owner"],
  );
});

test('partners of a system elsewhere are managed by its database', async (t) => {
  const store = await createTestDatabase(t);
  const run = (...words: string[]) =>
    runOperator(['partners', ...words, '--json'], {
      PARTNERS_DATABASE_URL: store.url('triplock_partners'),
    });
  const added = await run('add', 'acme');
  assert.equal(added.code, 0, added.stderr);
  const { id, apiKey } = JSON.parse(added.stdout) as Record<string, string>;
  assert.equal(id, 'acme');
  const listed = JSON.parse((await run('list')).stdout) as {
    id: string;
    keys: { prefix: string }[];
  }[];
  assert.deepEqual(
    listed.map((partner) => partner.id),
    ['acme'],
  );
  assert.ok(apiKey!.startsWith(listed[0]!.keys[0]!.prefix));
  const again = await run('add', 'acme');
  assert.deepEqual(
    [again.code, again.stderr.trim()],
    [
      1,
      'triplock partners: there is a partner acme already: npm run partners -- rotate-key acme gives it one more key',
    ],
  );
  const [act, ...more] = JSON.parse((await run('log')).stdout) as { act: string; by: string }[];
  assert.partialDeepStrictEqual(act, { act: 'add', partner: 'acme', by: userInfo().username });
  assert.deepEqual(more, []);
});

test('a key is made for less than everything where that is said', async (t) => {
  const store = await createTestDatabase(t);
  const run = (...words: string[]) =>
    runOperator(['partners', ...words], { PARTNERS_DATABASE_URL: store.url('triplock_partners') });
  await run('add', 'acme');
  assert.equal((await run('rotate-key', 'acme', '--scope', 'read')).code, 0);
  assert.match(
    (await run('list')).stdout,
    /^acme\n {2}\S+ +full .*good, .*\n {2}\S+ +read .*good, .*\n$/,
  );
  const expires = new Date(Date.now() + 86_400_000).toISOString();
  const until = ['rotate-key', 'acme', '--scope', 'pay', '--expires'];
  assert.equal((await run(...until, expires)).code, 0);
  assert.match(
    (await run('list')).stdout,
    new RegExp(` pay .* good until ${expires}, never used\n$`),
  );
  assert.equal((await run(...until, '2020-01-01')).code, 1);
  for (const words of [
    ['rotate-key', 'acme', '--scope', 'write'],
    ['add', 'globex', '--scope', 'read'],
    ['rotate-key', 'acme', '--expires', 'tomorrow'],
  ]) {
    const { code, stderr } = await run(...words);
    assert.equal(code, 2, stderr);
  }
});

test('what looks like card numbers is allowed to one partner as an act, with who and why', async (t) => {
  const store = await createTestDatabase(t);
  const run = (...words: string[]) =>
    runOperator(['partners', ...words], { PARTNERS_DATABASE_URL: store.url('triplock_partners') });
  await run('add', 'acme');
  const set = (...words: string[]) =>
    run('card-numbers', ...words, '--by', 'ada', '--reason', 'bare numbers');
  assert.equal((await set('acme', 'allowed')).code, 0);
  assert.match((await run('list')).stdout, /^acme {2}\(card numbers allowed\)\n/);
  assert.match((await run('log')).stdout, /allow-card-numbers +acme +by ada: bare numbers\n$/);
  const again = await set('acme', 'allowed');
  assert.deepEqual([again.code, /allowed already/.test(again.stderr)], [1, true]);
  assert.equal((await set('acme', 'reference,metadata.kid')).code, 0);
  const listed = (await run('list')).stdout;
  assert.match(listed, /^acme {2}\(card numbers allowed in metadata\.kid, reference\)\n/);
  assert.match(
    (await run('log')).stdout,
    /allow-card-numbers +acme +metadata\.kid,reference +by ada/,
  );
  const wrong = await set('acme', 'reference,iban');
  assert.deepEqual([wrong.code, /metadata\.NAME.* not 'iban'/.test(wrong.stderr)], [2, true]);
  assert.equal((await set('acme', 'refused')).code, 0);
  assert.match((await run('list')).stdout, /^acme\n/);
  assert.equal((await set('globex', 'allowed')).code, 1);
  assert.equal((await set('acme', 'maybe')).code, 2);
});

test('a webhook secret is rotated by the command, which shows it once and asks before it ends another', async (t) => {
  const store = await createTestDatabase(t);
  const webhookUrl = 'https://acme.example';
  const webhookSecret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
  const seed = { id: 'acme' as PartnerId, apiKey: 'a key', webhookUrl, webhookSecret };
  await seedPartner(store.open(), seed, parseWebhookKeys(testWebhookKeys));
  const [row] = await store
    .open()
    .query<{ id: string }>('SELECT endpoint_id AS id FROM partners.webhook_endpoints');
  const run = (...words: string[]) =>
    runOperator(['partners', ...words, '--by', 'ada', '--reason', 'it leaked'], {
      PARTNERS_DATABASE_URL: store.url('triplock_partners'),
      WEBHOOK_KEYS: testWebhookKeys,
    });
  const first = await run('rotate-secret', 'acme', row!.id);
  assert.match(
    first.stdout,
    /^whsec_\S+\nIt is shown this once\. The one before it signs too until/,
  );
  const early = await run('rotate-secret', 'acme', row!.id);
  assert.deepEqual([early.code, /two secrets sign until/.test(early.stderr)], [1, true]);
  assert.equal((await run('rotate-secret', 'acme', row!.id, '--again')).code, 0);
  assert.equal((await run('rotate-secret', 'globex', row!.id)).code, 1);
  assert.equal((await run('rotate-secret', 'acme', 'first')).code, 2);
  assert.match((await run('log', 'acme')).stdout, /rotate-secret +acme .* by ada: it leaked\n$/);
});

test('in production nobody manages a partner without a name and a reason', async (t) => {
  const store = await createTestDatabase(t);
  const settings = {
    TRIPLOCK_MODE: 'production',
    ALLOW_INSECURE_DATABASE: 'true',
    PARTNERS_DATABASE_URL: store.url('triplock_partners'),
  };
  const run = (...words: string[]) => runOperator(['partners', ...words], settings);
  for (const given of [
    [],
    ['--by', 'ada'],
    ['--reason', 'new'],
    ['--by', 'ada', '--reason', ' '],
  ]) {
    const { code, stderr } = await run('add', 'acme', ...given);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /--(by|reason) is missing: who you are and why, as --by NAME/);
  }
  assert.equal((await run('list')).stdout, '');
  assert.equal((await run('add', 'acme', '--by', 'ada', '--reason', 'a new partner')).code, 0);
  assert.match(
    (await run('log', 'acme')).stdout,
    /Z {2}add +acme {2}tl_acme_\S* {2}by ada: a new partner\n$/,
  );
});

test('verify-full takes a server that proves its name, and no other, nor one without TLS', async (context) => {
  const to = await testPart('postgres');
  const [own, other] = await Promise.all(
    ['localhost', 'other.example'].map((name) => createPostgresTlsWay(context, { to, name })),
  );
  /** What a client is told by the server there, or why it does not talk to it. */
  const ask = async (host: string, port: string | number, trusted: string) => {
    const url = new URL(to);
    Object.assign(url, { host: `${host}:${port}` });
    url.search = `?sslmode=verify-full&sslrootcert=${encodeURIComponent(trusted)}`;
    const database = openForCommand({ url: url.href, applicationName: 'test' });
    return database.ping().finally(() => database.close());
  };
  await ask('localhost', own!.port, own!.certificateFile);
  const wrongName = { code: 'ERR_TLS_CERT_ALTNAME_INVALID' };
  await assert.rejects(ask('localhost', other!.port, other!.certificateFile), wrongName);
  await assert.rejects(ask('127.0.0.1', own!.port, own!.certificateFile), wrongName);
  const unknown = { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' };
  await assert.rejects(ask('localhost', own!.port, other!.certificateFile), unknown);
  const { port } = new URL(to);
  await assert.rejects(ask('localhost', port, own!.certificateFile), /does not support SSL/);
});
