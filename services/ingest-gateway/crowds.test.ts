import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heapOfServices, holdsUpNobody, residentMiBOf } from '@triplock/testing';
import { httpLimits } from './http/server.ts';
import { gatewaySettings, startGateway } from './test/gateway-process.ts';

const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: gateway\r\n\r\n`;

test('whoever does not wait for answers, or does not read them, holds up no partner', async (t) => {
  const given = await gatewaySettings(t);
  const settings = { ...given.settings, ...heapOfServices };
  const gateway = startGateway(t, { ...given, settings });
  await gateway.ready();
  let key = 0;
  await holdsUpNobody(t, {
    port: Number(settings.HTTP_PORT),
    unansweredMax: httpLimits.unansweredMax,
    hasty: ['GET /openapi.json', 'GET /healthz', 'GET /nothing', 'POST /v1/payments'].map(headOf),
    unread: ['GET /docs/static/swagger-ui-bundle.js', 'GET /openapi.json'].map(headOf),
    ask: async () => {
      const headers = { 'idempotency-key': `beside-${(key += 1)}` };
      const answer = await gateway.post({ amount: 1, currency: 'EUR' }, headers);
      assert.equal(answer.status, 202, await answer.text());
    },
    residentMiB: () => residentMiBOf(gateway),
  });
});
