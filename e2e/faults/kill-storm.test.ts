import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { command } from '../test/command.ts';
import { killInTurn, sendSteadily, stormLoadOf } from '../storms.ts';
import { onTheSystem } from '../test/system.ts';

// STORM_SECONDS=15, as `npm run prove -- faults --short` has it, is still a kill of most services.
const stormMs = Number(process.env['STORM_SECONDS'] ?? 60) * 1_000;

const on = onTheSystem();

test(
  'under a storm of kills every 202 becomes final once, and duplicates get the same bytes',
  { timeout: stormMs + 240_000 },
  async () => {
    const calm = new AbortController();
    const { perSecond, acceptedPerSecondMin } = stormLoadOf(on.system).killing;
    const storm = sendSteadily(on.acme, { perSecond, stop: calm.signal });
    const services = on.system.services.map(({ name }) => name);
    try {
      const began = performance.now();
      const goesOn = () => performance.now() - began < stormMs;
      await killInTurn(services, { everyMs: 3_000, killsMin: 4, goesOn });
    } finally {
      calm.abort();
    }
    const sent = await storm;

    const accepted = sent.filter(({ answer }) => answer.status === 202);
    const acceptedMin = (stormMs / 1_000) * acceptedPerSecondMin;
    assert.ok(accepted.length > acceptedMin, `only ${accepted.length} were accepted`);
    const odd = sent.filter(({ answer }) => ![202, 409, 503].includes(answer.status));
    assert.deepEqual(odd, []);

    const bodies = Map.groupBy(accepted, ({ key }) => key);
    for (const [key, copies] of bodies) {
      assert.equal(new Set(copies.map(({ answer }) => answer.body)).size, 1, key);
    }
    const ids = accepted.map(({ answer }) => (JSON.parse(answer.body) as { id: string }).id);
    await eventually(async () => (await on.look.inLedger(ids)).size === bodies.size, {
      withinMs: 120_000,
      what: `all ${bodies.size} accepted payments in the ledger`,
    });
    const twice = await on.look.ledger.query(
      `SELECT reference FROM ledger.transactions
       WHERE reference LIKE 'storm-%' GROUP BY reference HAVING count(*) > 1`,
    );
    assert.deepEqual(twice, []);
    const audit = await command('audit', '--wait', '120');
    assert.equal(audit.code, 0, audit.stdout + audit.stderr);
  },
);
