import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { generateWebhookKey } from '@triplock/partners';
import type { PartEndpoints } from './endpoints.ts';
import { homeAt, homeWithout, separateHomes, webhookKeysIn } from './home.ts';
import { postgres } from './parts/postgres.ts';
import { redis } from './parts/redis.ts';
import { lastLines } from './processes/logs.ts';
import { withDatabase } from './provision/database.ts';
import { readState } from './session.ts';
import { takeDown } from './take-down.ts';
import { type Checkout, givenBrokers, processesOf, testCheckout, testHome } from './test/home.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** Takes the ports that a first clone would have; one that is taken already serves as well. */
async function takeUsualPorts(t: TestContext): Promise<number[]> {
  const usual = [...redis.ports, ...postgres.ports].map((port) => port.usual);
  for (const port of usual) {
    const squatter = createServer();
    await new Promise<void>((resolve) => {
      squatter.once('error', () => resolve());
      squatter.listen(port, '127.0.0.1', resolve);
    });
    t.after(() => squatter.close());
  }
  return usual;
}

async function up(checkout: Checkout): Promise<{ printed: string; endpoints: PartEndpoints }> {
  const { code, stdout, stderr } = await checkout.run('up', '--parts-only', '--json');
  assert.equal(code, 0, stderr);
  return { printed: stderr, endpoints: JSON.parse(stdout) as PartEndpoints };
}

const portsOf = ({ home }: Checkout) => Object.values(readState(homeAt(home)).ports);

test('two clones whose usual ports are taken each find others, say so, and leave each other alone', async (t) => {
  const usual = await takeUsualPorts(t);
  const [one, other] = [testCheckout(t), testCheckout(t)];
  const first = await up(one);
  const second = await up(other);
  for (const { printed } of [first, second]) {
    for (const port of usual)
      assert.match(printed, new RegExp(`port ${port} is taken, using \\d+`));
  }
  assert.equal(new Set([...usual, ...portsOf(one), ...portsOf(other)]).size, 3 * usual.length);

  await withDatabase(first.endpoints.postgres, (database) =>
    database.query('CREATE TABLE of_the_first (id int)'),
  );
  const seen = await withDatabase(second.endpoints.postgres, (database) =>
    database.query(`SELECT FROM pg_tables WHERE tablename = 'of_the_first'`),
  );
  assert.deepEqual(seen, []);

  const running = processesOf(one.home);
  assert.equal((await other.run('down', '--volumes')).code, 0);
  assert.deepEqual(processesOf(other.home), []);
  assert.deepEqual(processesOf(one.home), running);
  await withDatabase(first.endpoints.postgres, (database) =>
    database.query('SELECT FROM of_the_first'),
  );
});

test('down ends what lived beside a home too, and leaves other homes below it alone', async (t) => {
  const home = testHome(t);
  const separate = homeWithout(home, 'claims');
  const other = join(home, 'e2e');
  for (const folder of [separate, other]) mkdirSync(folder, { recursive: true });
  const env = { ...process.env, TRIPLOCK_HOME: realpathSync(separate) };
  const stray = spawn('sleep', ['300'], { env, stdio: 'ignore' });
  const ended = once(stray, 'exit');
  t.after(() => stray.kill());
  assert.deepEqual(separateHomes(home), [separate]);

  await takeDown({ home });
  await ended;
  assert.deepEqual(processesOf(separate), []);
  assert.deepEqual([existsSync(separate), existsSync(other)], [false, true]);
});

test('the keys of webhook secrets are made once for a home, for its owner alone, and change by people only', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-keys-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'webhook-keys');
  const made = webhookKeysIn(file);
  assert.match(made, /^[\w-]+:[A-Za-z0-9+/]{43}=\n$/);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(webhookKeysIn(file), made);
  writeFileSync(file, `${generateWebhookKey()}\n${made}`);
  assert.ok(webhookKeysIn(file).endsWith(made));
});

test('as many last lines as are wanted, all of them whole, however long they are', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-log-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'a.log');
  const written = Array.from({ length: 3_000 }, (_, n) => `${n} ${'é'.repeat(100)}`);
  writeFileSync(file, `${written.join('\n')}\n`);
  for (const lines of [1, 20, 2_999, 3_000, 9_999]) {
    assert.deepEqual(lastLines(file, { lines }), written.slice(-lines));
  }
  const from = Buffer.byteLength(`${written.slice(0, 2_990).join('\n')}\n`);
  assert.deepEqual(lastLines(file, { lines: 20, from }), written.slice(2_990));
  assert.deepEqual(lastLines(join(folder, 'none.log'), { lines: 1 }), []);
});
