import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readlinkSync, rmdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { readLogs } from '@triplock/launcher';
import type { Database } from '@triplock/postgres';
import { eventually } from '@triplock/testing';
import { recordRun } from '../test/history.ts';
import { type Answer, insist, newKey } from '../test/partner.ts';
import { home, onTheSystem } from '../test/system.ts';

const on = onTheSystem();

/** The user of PostgreSQL's process, where it is one of this machine and sees its disks. */
async function serverUser(database: Database): Promise<number | undefined> {
  const [row] = await database.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const mounts = (of: number | 'self') => readlinkSync(`/proc/${of}/ns/mnt`);
  try {
    const { pid } = row!;
    const isServer = readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith('postgres: ');
    return isServer && mounts(pid) === mounts('self') ? statSync(`/proc/${pid}`).uid : undefined;
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes((error as NodeJS.ErrnoException).code!)) return undefined;
    throw error;
  }
}

/** A folder on a disk of its own, until the process that asks for it unmounts it. */
function mountDisk({ bytes, uid }: { bytes: number; uid: number }): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'small-disk-'));
  const options = `size=${bytes},mode=0700,uid=${uid}`;
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]);
  if (status === 0) return folder;
  rmdirSync(folder);
  return undefined;
}

/** The disk of PostgreSQL, as small as one likes. */
type SmallDisk = { fill(): Promise<void>; free(): Promise<void> };

/**
 * Moves all tables and indexes of the running system to a disk with little room, and back again
 * after the test. What PostgreSQL keeps of itself stays where it is, its log too: where that one is
 * full the server ends, as when it is killed.
 *
 * @returns undefined where nobody may mount a disk, or the server does not see it.
 */
async function moveToSmallDisk(
  test: TestContext,
  database: Database,
): Promise<SmallDisk | undefined> {
  const uid = process.getuid?.() === 0 ? await serverUser(database) : undefined;
  if (uid === undefined) return undefined;
  const size = 'SELECT pg_database_size(current_database())::float8 AS bytes';
  const [row] = await database.query<{ bytes: number }>(size);
  const folder = mountDisk({ bytes: row!.bytes + 64 * 2 ** 20, uid });
  if (folder === undefined) return undefined;
  // Services have locks meanwhile: what ends in a deadlock is tried again.
  const move = (from: string, to: string) =>
    eventually(async () => {
      await database.query(`ALTER TABLE ALL IN TABLESPACE ${from} SET TABLESPACE ${to}`);
      await database.query(`ALTER INDEX ALL IN TABLESPACE ${from} SET TABLESPACE ${to}`);
      return true;
    });
  const free = async () => void (await database.query('DROP TABLE IF EXISTS filler'));
  test.after(async () => {
    await free();
    await move('small', 'pg_default');
    // Files that were left are removed by a checkpoint, which the statement waits for.
    await database.query('DROP TABLESPACE small');
    execFileSync('umount', [folder]);
    rmdirSync(folder);
  });
  await database.query(`CREATE TABLESPACE small LOCATION '${folder}'`);
  await move('pg_default', 'small');
  return {
    free,
    /** To the last page: no table and no index grows any more. */
    async fill() {
      const table = 'CREATE TABLE filler (page text) WITH (autovacuum_enabled = off)';
      await database.query(`${table} TABLESPACE small`);
      await database.query('ALTER TABLE filler ALTER page SET STORAGE PLAIN');
      const pages = `INSERT INTO filler SELECT repeat('x', 8000) FROM generate_series(1, 1000000)`;
      await assert.rejects(database.query(pages), { code: '53100' });
    },
  };
}

const idOf = ({ status, body }: Answer) => {
  assert.equal(status, 202, body);
  return (JSON.parse(body) as { id: string }).id;
};

test('while the disk of PostgreSQL is full warm gateways go on accepting, nothing is given up, and all takes effect once there is room', async (t) => {
  const { system, look, claims } = on;
  if (['postgres', 'hybrid'].includes(system.claims)) {
    return t.skip('claims are in PostgreSQL, and where it is full nothing is accepted');
  }
  const disk = await moveToSmallDisk(t, look.database);
  if (disk === undefined)
    return t.skip('a disk for PostgreSQL can only be mounted by root, beside it');
  await claims.ageMarkers(25 * 3_600_000);
  const run = await recordRun(on, 'disk-full');
  const pay = async (more: object = {}) => {
    const key = newKey('disk-full');
    return idOf(await insist(() => run.acme.pay(key, { amount: 450, currency: 'EUR', ...more })));
  };
  const payTimes = (count: number) => Promise.all(Array.from({ length: count }, () => pay()));
  // Every gateway knows the partner after this.
  const ids = await payTimes(4 * system.gateways.length);

  // Where the ledger is elsewhere, what follows it is on the disk.
  const first = system.ledger === 'postgres' ? 'ledger-worker' : 'partner-notifier';
  const names = system.services.filter(({ service }) => service === first).map(({ name }) => name);
  /** How often each of them has said that the disk is full. */
  const complaints = () =>
    Promise.all(
      names.map(async (name) => {
        const lines = (await readLogs({ home, name })).split('\n');
        return lines.filter((line) => line.includes('No space left on device')).length;
      }),
    );
  const before = await complaints();
  run.history.fault('disk full', 'PostgreSQL');
  await disk.fill();
  await eventually(async () => {
    ids.push(...(await payTimes(5)), await pay({ payment_method: 'pm_card_visa' }));
    return (await complaints()).every((count, n) => count >= before[n]! + 5);
  });
  if (system.ledger === 'postgres') {
    const { size } = await look.inLedger(ids);
    assert.ok(size < ids.length, 'the disk was not full: everything is in the ledger');
  }
  run.history.fault('room again', 'PostgreSQL');
  await disk.free();

  const once = { ledger: 1, entries: 1, outbox: 1, published: 1, inbox: 1, deliveries: 1 };
  for (const id of ids) {
    await eventually(async () => {
      assert.deepEqual(await look.counts(id), once);
      return true;
    });
    assert.match((await run.acme.payment(id)).body, /"status":"succeeded"/);
  }
  t.diagnostic(
    `${ids.length} payments; complaints of each ${first}: ${(await complaints()).join()}`,
  );
  await run.finish({ complete: true });
});
