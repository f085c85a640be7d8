import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { aPayment, eventually, freePort } from '@triplock/testing';
import { aPlace } from './dispatcher.testing.ts';

/** The service as a process of its own, killed after the test if it still lives. */
function start(context: TestContext, env: Readonly<Record<string, string>>) {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  context.after(() => void child.kill('SIGKILL'));
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
  const admin = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${env['ADMIN_PORT']}${path}`);
    return { status: response.status, body: await response.text() };
  };
  return { child, ended, said, admin };
}

async function aService(context: TestContext) {
  const place = await aPlace(context);
  const env = {
    TRIPLOCK_MODE: 'test',
    ADMIN_PORT: String(await freePort()),
    DATABASE_URL: place.store.url('triplock_ledger'),
    PUBSUB_PROJECT_ID: place.events.projectId,
    PUBSUB_EMULATOR_HOST: place.events.emulatorHost,
    EVENTS_TOPIC: place.events.topic,
    LEASE_MS: '6000',
  };
  return { ...place, env };
}

const within30s = (what: string) => ({ withinMs: 30_000, what });

test('a dispatcher publishes what comes, shows its figures, and gives its buckets back at the end', async (context) => {
  const { env, post, rows, received, store } = await aService(context);
  const { child, ended, admin } = start(context, env);
  await eventually(async () => (await admin('/readyz')).status === 200, within30s('readiness'));
  await post(aPayment(), aPayment());
  await eventually(async () => received.length === 2, within30s('the events'));
  await eventually(async () => (await rows()).every(({ state }) => state === 'published'));
  const { body } = await admin('/metrics');
  assert.match(body, /triplock_dispatcher_events_total\{outcome="published",[^}]*\} 2/);
  assert.match(body, /triplock_dispatcher_leases\{[^}]*\} 64/);
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
  const held = await store.open().query('SELECT FROM ledger.outbox_leases WHERE owner IS NOT NULL');
  assert.equal(held.length, 0);
});

test('a dispatcher killed between the publish and the mark is followed by one that publishes the same event id', async (context) => {
  const { env, post, rows, received } = await aService(context);
  const killed = start(context, { ...env, CRASH_POINTS: 'dispatcher.published=kill' });
  await post(aPayment());
  assert.deepEqual(await killed.ended, [null, 'SIGKILL']);
  assert.deepEqual(
    (await rows()).map(({ state }) => state),
    ['pending'],
  );
  const start2 = performance.now();
  const next = start(context, { ...env, INSTANCE_NAME: 'next' });
  await eventually(async () => received.length === 2, within30s('the copy'));
  assert.ok(performance.now() - start2 < 12_000, 'the takeover took too long');
  const [row] = await rows();
  const ids = received.map(({ attributes }) => attributes['event_id']);
  assert.deepEqual(ids, [row!.eventId, row!.eventId]);
  await eventually(async () => (await rows())[0]?.state === 'published');
  next.child.kill('SIGTERM');
  assert.deepEqual(await next.ended, [0, null]);
});

test('missing and malformed settings are all named at once', async (context) => {
  const { ended, said } = start(context, { ADMIN_PORT: '70000', LEASE_MS: '10' });
  assert.deepEqual(await ended, [2, null]);
  const [, errors] = await said;
  for (const name of ['ADMIN_PORT', 'LEASE_MS', 'DATABASE_URL', 'PUBSUB_PROJECT_ID']) {
    assert.match(errors, new RegExp(`${name} is (missing|malformed)`));
  }
});
