import { flushCompileCache } from 'node:module';
import { openBooks } from './books.ts';
import { readConfig } from './config.ts';
import { serveBank } from './server.ts';

// A process that is a bank on 127.0.0.1; README.md tells the rest.
const config = readConfig();
const books = await openBooks(config.GIRO_SIMULATOR_JOURNAL, {
  settleAfterMs: config.GIRO_SIMULATOR_SETTLE_AFTER_MS,
});
const bank = await serveBank(books, {
  host: config.GIRO_SIMULATOR_HOST,
  port: config.GIRO_SIMULATOR_PORT,
  controlToken: config.CONTROL_TOKEN,
});
process.stdout.write(`the bank answers at ${bank.url}\n`);
// Node keeps compiled code as a process ends, and one that is killed would keep none for the next.
flushCompileCache();

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => void bank.close().then(() => books.close()));
}
