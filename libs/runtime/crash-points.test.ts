import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import {
  crashPlan,
  createCrashPoints,
  CrashPointError,
  noCrashPoints,
  type CrashOrder,
} from './crash-points.ts';

const name = 'worker.committed';
const throwing: CrashOrder = { name, action: { do: 'throw' } };

test('a point that is not armed does nothing and counts nothing', async () => {
  const points = createCrashPoints();
  await points.reached(name);
  assert.deepEqual(points.hits(), {});
});

test('an armed point acts once, and says so', async () => {
  const points = createCrashPoints([throwing]);
  await points.reached('worker.polled');
  await assert.rejects(points.reached(name), CrashPointError);
  await points.reached(name);
  assert.deepEqual(points.hits(), { [name]: 1 });
});

test('a point armed for several hits acts as often', async () => {
  const points = createCrashPoints();
  points.arm({ ...throwing, times: 2 });
  await assert.rejects(points.reached(name), CrashPointError);
  await assert.rejects(points.reached(name), CrashPointError);
  await points.reached(name);
  assert.deepEqual(points.hits(), { [name]: 2 });
});

test('a point that the service does not declare is a bug where it is reached', async () => {
  const points = createCrashPoints([], [name]);
  await points.reached(name);
  assert.deepEqual([points.has(name), points.has('worker.polled')], [true, false]);
  await assert.rejects(points.reached('worker.polled'), CrashPointError);
});

test('a disarmed point acts no more', async () => {
  const points = createCrashPoints([throwing]);
  points.disarm(name);
  await points.reached(name);
  assert.deepEqual(points.hits(), {});
});

test('a pause holds whoever reaches the point, and then releases it', async () => {
  const points = createCrashPoints([{ name, action: { do: 'pause', pauseMs: 50 } }]);
  const started = performance.now();
  await points.reached(name);
  assert.ok(performance.now() - started >= 45);
});

test('a kill ends the process on the spot: no handler runs and nothing is flushed', () => {
  const module = new URL('crash-points.ts', import.meta.url).href;
  const program = `
    import { createCrashPoints } from '${module}';
    for (const event of ['exit', 'SIGTERM', 'beforeExit']) process.on(event, () => console.log(event));
    console.log('before');
    await createCrashPoints([{ name: '${name}', action: { do: 'kill' } }]).reached('${name}');
    console.log('after');
  `;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  });
  assert.equal(child.signal, 'SIGKILL', child.stderr);
  assert.equal(child.stdout, 'before\n');
  assert.equal(child.stderr, `crash point ${name}: the process ends here\n`);
});

test('in production nothing can be armed', async () => {
  assert.throws(() => noCrashPoints.arm(throwing), CrashPointError);
  await noCrashPoints.reached(name);
  assert.deepEqual(noCrashPoints.hits(), {});
});

test('a plan is a list of points and what they do', () => {
  assert.deepEqual(
    crashPlan.parse('worker.polled=kill, gateway.claimed=throw,webhook.leased=pause:250'),
    [
      { name: 'worker.polled', action: { do: 'kill' } },
      { name: 'gateway.claimed', action: { do: 'throw' } },
      { name: 'webhook.leased', action: { do: 'pause', pauseMs: 250 } },
    ],
  );
});

test('a plan with one mistake is refused whole', () => {
  const mistakes = [
    'Worker=kill',
    'worker.polled=melt',
    'worker.polled=pause',
    'worker.polled=pause:soon',
    'worker.polled',
    'worker.polled=kill,',
    'worker.polled=kill;gateway.claimed=kill',
  ];
  for (const plan of mistakes) assert.equal(crashPlan.parse(plan), undefined, plan);
});
