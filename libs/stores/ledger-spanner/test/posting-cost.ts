import { cpus } from 'node:os';
import { type Ledger, openPostgresLedger } from '@triplock/ledger';
import { bookTransferOf } from '@triplock/ledger/test';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { openSpannerLedger } from '../payments.ts';
import { createTestSpanner } from './test-spanner.ts';

// What posting costs in both ledgers, for docs/stores.md:
// npx node libs/stores/ledger-spanner/test/posting-cost.ts

const batches = [1, 25, 100, 200];
const rounds = 8;

const closing: (() => Promise<void>)[] = [];
const cleanup = { after: (close: () => Promise<void>) => void closing.unshift(close) };
// Emptied afterwards it would keep the emulator busy for longer than all of this: it is dropped.
const spanner = await (await createTestSpanner(cleanup, 'changed')).open();
const ledgers = {
  postgres: openPostgresLedger((await createTestDatabase(cleanup)).open('triplock_ledger')),
  'spanner emulator': openSpannerLedger(spanner),
};
process.stdout.write(`${cpus().length} × ${cpus()[0]!.model}; milliseconds, middle of ${rounds}\n`);
for (const [name, ledger] of Object.entries(ledgers)) {
  process.stdout.write(`\n${name}: payments in a batch, time, CPU of this process\n`);
  for (const size of batches) process.stdout.write(`${await measure(ledger, size)}\n`);
}
for (const close of closing) await close();

async function measure(ledger: Ledger, size: number): Promise<string> {
  const took: number[] = [];
  let cpuMicros = 0;
  for (let round = 0; round <= rounds; round += 1) {
    const batch = Array.from({ length: size }, () => bookTransferOf(aPayment()));
    const [startedMs, cpu] = [performance.now(), process.cpuUsage()];
    await ledger.post(batch);
    const { user, system } = process.cpuUsage(cpu);
    // The first one warms up.
    if (round === 0) continue;
    took.push(performance.now() - startedMs);
    cpuMicros += user + system;
  }
  const middle = took.sort((one, other) => one - other)[rounds / 2]!;
  const perPayment = cpuMicros / (rounds * size);
  return `${String(size).padStart(5)}  ${middle.toFixed(1).padStart(8)} ms  ${perPayment.toFixed(0).padStart(6)} µs of CPU a payment`;
}
