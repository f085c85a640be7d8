import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { gatewaySettings, startGateway } from '../test/gateway-process.ts';
import { connectRaw } from '../test/raw-connection.ts';

const floodMs = 3_000;
const connectionsInFlood = 16;

/** Sends one made-up key after the other, forty at a time, until the time is up. */
async function flood(port: number, end: number): Promise<number[]> {
  const connection = connectRaw(port);
  const statuses: number[] = [];
  while (performance.now() < end) {
    const requests = Array.from({ length: 40 }, () => {
      const key = randomBytes(18).toString('base64url');
      return `GET /v1/payments/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    });
    connection.send(requests.join(''));
    for (const _ of requests) statuses.push((await connection.answer()).status);
  }
  connection.destroy();
  return statuses;
}

test('a flood of made-up keys starves no good partner, not even one that is new to the gateway', async (t) => {
  const given = await gatewaySettings(t);
  const gateway = startGateway(t, given);
  await gateway.ready();
  const port = Number(given.settings.HTTP_PORT);
  const end = performance.now() + floodMs;
  const floods = Array.from({ length: connectionsInFlood }, () => flood(port, end));

  // The first of these is the first that the gateway hears of this key, and the answers of memory
  // run out in between: all of them have to come through beside the flood.
  const good: number[] = [];
  for (let payment = 0; payment < 5 || performance.now() < end; payment += 1) {
    const headers = { 'idempotency-key': `key-${payment}` };
    good.push((await gateway.post({ amount: 1, currency: 'EUR' }, headers)).status);
  }
  const bad = (await Promise.all(floods)).flat();
  t.diagnostic(`${bad.length} made-up keys, ${good.length} payments in ${floodMs} ms`);
  assert.deepEqual(new Set(good), new Set([202]));
  assert.deepEqual(new Set(bad), new Set([401, 429]));
  assert.ok(bad.filter((status) => status === 401).length < 100 + 20 * 60);
  assert.equal(
    (await gateway.post({ amount: 1, currency: 'EUR' }, { 'idempotency-key': 'z' })).status,
    202,
  );
});
