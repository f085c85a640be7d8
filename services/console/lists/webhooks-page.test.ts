import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aConsole, assertDescribed } from '../test/a-console.ts';

test('an operator sees which endpoint takes nothing, and which was disabled, since when and why', async (t) => {
  const console = await aConsole(t);
  await console.store.open().query(
    `WITH partner AS (INSERT INTO partners.partners (id) VALUES ('acme'))
     INSERT INTO partners.webhook_endpoints
       (partner_id, url, host, verified_url, verified_at, secrets, failing_since, disabled_at, made_at)
     SELECT 'acme', url, 'acme.example', url, now(), '[{"id": "1", "key": "one", "box": ""}]',
            failing::timestamptz, disabled::timestamptz, nth::timestamptz
     FROM (VALUES
       ('https://acme.example/well', NULL, NULL, '2026-11-01'),
       ('https://acme.example/fails', '2026-11-20T10:00:00Z', NULL, '2026-11-02'),
       ('https://acme.example/failed', '2026-11-20T10:00:00Z', '2026-11-25T11:00:00Z', '2026-11-03'),
       ('https://acme.example/gone', NULL, '2026-11-25T12:00:00Z', '2026-11-04')
     ) AS t (url, failing, disabled, nth)`,
  );
  const token = await console.anOperator('ada', 'admin');
  const path = '/api/v1/webhooks';
  const headers = { authorization: `Bearer ${token}` };
  const answer = await console.ask(`${path}?partner=acme`, { headers });
  assertDescribed({ method: 'GET', path }, answer);
  const { endpoints } = JSON.parse(answer.text) as { endpoints: Record<string, unknown>[] };
  assert.deepEqual(
    endpoints.map((each) => [each['failingSince'], each['disabledAt'], each['disabledBecause']]),
    [
      [null, null, null],
      ['2026-11-20T10:00:00.000Z', null, null],
      ['2026-11-20T10:00:00.000Z', '2026-11-25T11:00:00.000Z', 'failing'],
      [null, '2026-11-25T12:00:00.000Z', 'gone'],
    ],
  );
  const { cookie } = await console.logIn(token);
  const page = await console.ask('/webhooks?partner=acme', { headers: { cookie } });
  const said = page.text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  for (const words of [
    /\/well open all/,
    /\/fails failing has taken nothing since 2026-11-20/,
    /\/failed disabled since 2026-11-25 11:00:00 UTC : has taken nothing since 2026-11-20/,
    /\/gone disabled since 2026-11-25 12:00:00 UTC : its server answered 410 Gone/,
  ]) {
    assert.match(said, words);
  }
});
