import assert from 'node:assert/strict';
import { test } from 'node:test';
import { quickLimits } from '@triplock/runtime';
import { heapOfServices, holdsUpNobody, residentMiBOf } from '@triplock/testing';
import { aConsole } from '../test/a-console.ts';

test('whoever does not wait for answers of the console, or does not read them, holds up no operator', async (t) => {
  const console = await aConsole(t, { ...heapOfServices });
  const { ask, origin, service } = console;
  const { cookie } = await console.logIn(await console.anOperator('ada', 'viewer'));
  const { host, port } = new URL(origin);
  const headOf = (line: string) => `${line} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  await holdsUpNobody(t, {
    port: Number(port),
    unansweredMax: quickLimits.unansweredMax,
    hasty: ['GET /openapi.json', 'GET /login', 'GET /nothing', 'GET /payments'].map(headOf),
    unread: ['GET /assets/htmx.min.js', 'GET /openapi.json'].map(headOf),
    ask: async () => {
      const { status, text } = await ask('/payments', { headers: { cookie } });
      assert.equal(status, 200, text);
    },
    residentMiB: () => residentMiBOf(service),
  });
});
