import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  askAndReadNothing,
  heapOfServices,
  sendWithoutWaiting,
  serveBeside,
} from '@triplock/testing';
import { httpLimits } from './http/server.ts';
import { gatewaySettings, startGateway } from './test/gateway-process.ts';

const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: gateway\r\n\r\n`;

/** As long as anything takes here at most: what is judged is who waits, not how fast a machine is. */
const servedWithinMs = 3_000;

test('whoever does not wait for answers, or does not read them, holds up no partner', async (t) => {
  const given = await gatewaySettings(t);
  const settings = { ...given.settings, ...heapOfServices };
  const gateway = startGateway(t, { ...given, settings });
  await gateway.ready();
  const port = Number(settings.HTTP_PORT);
  let key = 0;
  const ask = async () => {
    const headers = { 'idempotency-key': `beside-${(key += 1)}` };
    const answer = await gateway.post({ amount: 1, currency: 'EUR' }, headers);
    assert.equal(answer.status, 202, await answer.text());
  };
  await ask();
  const metrics = async () => (await gateway.admin('/metrics')).text();
  const besides = async (subtest: TestContext, crowd: Promise<unknown>) => {
    const noticed = await serveBeside(crowd, { ask, metrics });
    subtest.diagnostic(JSON.stringify(noticed));
    assert.ok(noticed.slowestMs < servedWithinMs, `a payment took ${noticed.slowestMs} ms`);
    assert.ok(noticed.peakMiB < 250, `${noticed.peakMiB} MiB`);
  };

  for (const line of ['GET /openapi.json', 'GET /healthz', 'GET /nothing', 'POST /v1/payments']) {
    await t.test(`four who send ${line} fifty thousand times without waiting`, async (subtest) => {
      const request = headOf(line);
      const sends = Array.from({ length: 4 }, () =>
        sendWithoutWaiting(subtest, port, { request, times: 50_000 }),
      );
      const sent = Promise.all(sends);
      await besides(subtest, sent);
      for (const { answers, outcome } of await sent) {
        assert.equal(outcome, 'ended');
        assert.ok(answers > 0 && answers <= httpLimits.unansweredMax, `${answers} answers`);
      }
    });
  }
  for (const path of ['/docs/static/swagger-ui-bundle.js', '/openapi.json']) {
    await t.test(`four thousand who ask for ${path} and read nothing`, async (subtest) => {
      const crowd = { request: headOf(`GET ${path}`), count: 4_000 };
      await besides(subtest, askAndReadNothing(subtest, port, crowd));
    });
  }
});
