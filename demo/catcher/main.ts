import { SettingsError } from '@triplock/runtime';
import { createBehaviour } from './behaviour.ts';
import { createCaughtWebhooks } from './caught-webhooks.ts';
import { readConfig } from './config.ts';
import { readPartners } from './read-partners.ts';
import { serveCatcher } from './serve-catcher.ts';

// Enough to look at; older ones are forgotten, so that a day of load does not fill the memory.
const webhooksMax = 10_000;

try {
  const { CATCHER_HOST: host, CATCHER_PORT: port, CATCHER_PARTNERS_FILE } = readConfig();
  const catcher = await serveCatcher(
    {
      secrets: readPartners(CATCHER_PARTNERS_FILE),
      caught: createCaughtWebhooks(webhooksMax),
      behaviour: createBehaviour(),
    },
    { host, port },
  );
  console.log(`catcher listens on ${catcher.url}`);
  const stop = () => {
    void catcher.close().then(() => process.exit(0));
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
} catch (error) {
  console.error(`catcher: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(error instanceof SettingsError ? 2 : 1);
}
