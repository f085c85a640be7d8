// A process that speaks Stripe's wire on 127.0.0.1: settings in config.ts, the rest in README.md.
import { readConfig } from './config.ts';
import { startSimulator } from './simulator.ts';

const simulator = await startSimulator({
  ...readConfig(process.env),
  onBroken(error) {
    console.error(error);
    process.exit(1);
  },
});
console.log(`the Stripe simulator answers at ${simulator.url}`);

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => void simulator.close());
}
