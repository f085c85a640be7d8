import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { bringUpServices, startAgain } from '../bring-up.ts';
import { killProcess, stopProcess } from '../faults.ts';
import { homeAt } from '../home.ts';
import { withLock } from '../lock.ts';
import { isSameProcess } from '../processes/identity.ts';
import { signalProcess } from '../processes/stop.ts';
import type { Service } from '../service-table.ts';
import { readState, writeState } from '../session.ts';
import { systemStatus } from '../status.ts';
import { takeDown } from '../take-down.ts';
import { givenBrokers, processesOf, testHome } from '../test/home.ts';
import { eventually } from '@triplock/testing';
import { pauseAfter, watchServices, type Watch } from './watch.ts';

before(async () => Object.assign(process.env, await givenBrokers()));

/** What a test broke in it, or took down, the next one starts again. */
const home = testHome({ after });
const [gateway, catcher] = ['ingest-gateway-1', 'catcher'];

beforeEach(async () => {
  await bringUpServices({ home }, standIns());
  // Of the tests before.
  const { restarts: _, ...state } = readState(homeAt(home));
  writeState(homeAt(home), state);
});

test('a service that somebody kills from outside comes back after a second, and is counted', async () => {
  const watched = aWatch();
  await watched.look();
  const before = recordOf(gateway)!;
  await killFromOutside(gateway);
  await watched.look();
  watched.clock.ms += 999;
  await watched.look();
  assert.equal(await stateOf(gateway), 'gone', 'its pause is not over');
  watched.clock.ms += 1;
  await watched.look();
  assert.equal(await stateOf(gateway), 'ready');
  assert.deepEqual(recordOf(gateway)!.ports, before.ports);
  assert.equal((await statusOf(gateway)).restarts, 1);
  assert.equal((await statusOf(catcher)).restarts, 0);
  assert.deepEqual(watched.said, [
    `${gateway} ended by itself (its log does not say why): it is started again in 1 s`,
    `${gateway} runs again`,
  ]);
});

test('what ended by order or at a crash point stays dead until up, however long that takes', async () => {
  const watched = aWatch();
  await killProcess({ home, name: gateway });
  await stopProcess({ home, name: catcher });
  await watched.later();
  assert.deepEqual([await stateOf(gateway), await stateOf(catcher)], ['gone', 'gone']);

  await bringUpServices({ home }, standIns());
  const { admin } = recordOf(gateway)!.ports;
  await assert.rejects(fetch(`http://127.0.0.1:${admin}/crash-point`));
  await eventually(async () => !isSameProcess(recordOf(gateway)!));
  await watched.later();
  assert.equal(await stateOf(gateway), 'gone');
  assert.deepEqual(watched.said, []);

  await bringUpServices({ home }, standIns());
  await killFromOutside(gateway);
  await watched.later();
  assert.equal(await stateOf(gateway), 'ready', 'another run than that which was ended by order');
});

test('a service that ends at once is tried again after growing pauses, and status says why', async () => {
  const watched = aWatch({ STAND_IN: 'refuses to start' });
  await killFromOutside(gateway);
  await watched.look();
  for (const [tries, pauseMs] of [1_000, 2_000, 4_000].entries()) {
    const { pid } = recordOf(gateway)!;
    watched.clock.ms += pauseMs - 1;
    await watched.look();
    assert.equal(recordOf(gateway)!.pid, pid, `a pause of ${pauseMs} ms is not over`);
    watched.clock.ms += 1;
    await watched.look();
    const { state, restarts, lastEnd } = await statusOf(gateway);
    assert.deepEqual([state, restarts], ['gone', tries + 1]);
    assert.equal(lastEnd, 'the stand-in refuses to start');
    // Sees how it ended this time.
    await watched.look();
  }
  assert.equal(watched.said.length, 1 + 3 * 2, 'two lines for each try');
  assert.match(watched.said.at(-1)!, /as 3 times before \(the stand-in .*\): .* in 8 s$/);
  assert.match(watched.said.at(-2)!, /could not be started again: .*exited with code 3/);
});

test('the pause grows to a minute, and is forgotten of a service that was up for some minutes', async () => {
  const pauses = [0, 1, 2, 3, 4, 5, 6, 60].map(pauseAfter);
  assert.deepEqual(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
  const watched = aWatch();
  for (const pause of ['1 s', '2 s', '4 s']) {
    await killFromOutside(gateway);
    await watched.look();
    assert.match(watched.said.at(-1)!, new RegExp(` in ${pause}$`));
    watched.clock.ms += 4_000;
    await watched.look();
  }
  watched.clock.ms += 5 * 60_000;
  await killFromOutside(gateway);
  await watched.look();
  assert.match(watched.said.at(-1)!, / in 1 s$/);
});

test('while a launcher is at work nothing is taken for ended by itself, and afterwards what still is', async () => {
  const watched = aWatch();
  const { signal } = new AbortController();
  await withLock(homeAt(home).lock, { report: () => undefined, signal }, async () => {
    await killFromOutside(gateway);
    await watched.later();
    assert.deepEqual(watched.said, []);
  });
  await watched.later();
  assert.equal(await stateOf(gateway), 'ready');
});

test('a part that was killed stays dead, and its services are waited with until up has started it', async () => {
  const watched = aWatch();
  await killProcess({ home, name: 'redis' });
  await killFromOutside(gateway);
  await watched.later();
  assert.match(watched.said.at(-1)!, /could not be started again: redis does not run/);
  assert.equal((await statusOf(gateway)).restarts, 0);
  await bringUpServices({ home, only: [catcher] }, standIns());
  assert.equal((await statusOf(gateway)).state, 'gone', 'nobody has started it yet');
  await watched.later();
  assert.equal(await stateOf(gateway), 'ready');
});

test('after down nothing comes back, nor what was about to, and counts are forgotten', async () => {
  const watched = aWatch();
  await killFromOutside(gateway);
  await watched.look();
  const { pid, startedAt } = recordOf(gateway)!;
  await takeDown({ home });
  await watched.later();
  const ended = { name: gateway, run: { pid, startedAt }, inARow: 0 };
  assert.equal(await startAgain(ended, { home, table: standIns() }), 'not wanted');
  assert.deepEqual(processesOf(home), []);
  await bringUpServices({ home }, standIns());
  assert.equal((await statusOf(gateway)).restarts, 0);
  assert.equal(await startAgain(ended, { home, table: standIns() }), 'not wanted', 'it runs');
});

/** A watch with a clock of its own, which starts stand-ins. */
function aWatch(settings: Readonly<Record<string, string>> = {}) {
  const clock = { ms: Date.now() };
  const said: string[] = [];
  const watch: Watch = watchServices({
    home,
    now: () => clock.ms,
    startAgain: (ended) => startAgain(ended, { home, table: standIns(settings) }),
    report: (line) => said.push(line),
    signal: new AbortController().signal,
  });
  /** Sees what ended, and looks again when every pause is over. */
  const later = async () => {
    await watch.look();
    clock.ms += 3_600_000;
    await watch.look();
  };
  return { ...watch, later, clock, said };
}

const recordOf = (name: string) => readState(homeAt(home)).processes[name];

async function killFromOutside(name: string): Promise<void> {
  const record = recordOf(name)!;
  signalProcess(record.pid, 'SIGKILL');
  await eventually(async () => !isSameProcess(record));
}

async function statusOf(name: string) {
  const { processes } = await systemStatus({ home, only: [name] });
  return processes[0]!;
}

const stateOf = async (name: string) => (await statusOf(name)).state;

/** A gateway and a catcher that only answer health checks. */
function standIns(settings: Readonly<Record<string, string>> = {}): Service[] {
  const standIn = (name: string, copies: Service['copies'], setting: string): Service => ({
    name,
    main: 'infra/launcher/test/stand-in.ts',
    copies,
    isTraced: false,
    yields: false,
    memoryMiB: 256,
    ports: [
      {
        use: copies === 'one' ? 'http' : 'admin',
        setting,
        ready: '/readyz',
        usual: 18_000,
        variable: 'TRIPLOCK_STAND_IN_PORT',
      },
    ],
    settings: () => settings,
  });
  return [
    standIn('ingest-gateway', 'replicas', 'ADMIN_PORT'),
    standIn('catcher', 'one', 'CATCHER_PORT'),
  ];
}
