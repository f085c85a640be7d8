import {
  controlSettings,
  port,
  readSettings,
  SettingsError,
  text,
  withDefault,
} from '@triplock/runtime';
import { serveCatcher } from './serve.ts';
import { createArrivals, createBehaviour, createCaughtWebhooks, readPartners } from './webhooks.ts';

/** The settings of the catcher. */
const settings = {
  CATCHER_HOST: withDefault(text, '127.0.0.1'),
  CATCHER_PORT: port,
  /** A JSON file: `[{ id, webhookSecret }]`. */
  CATCHER_PARTNERS_FILE: text,
  ...controlSettings,
};

// Enough to look at; older ones are forgotten, so that a day of load does not fill the memory.
const webhooksMax = 10_000;
// Who follows them asks several times a second.
const arrivalsMax = 20_000;

try {
  const {
    CATCHER_HOST: host,
    CATCHER_PORT: port,
    CATCHER_PARTNERS_FILE,
    CONTROL_TOKEN: controlToken,
  } = readSettings(process.env, settings);
  const catcher = await serveCatcher(
    {
      secrets: readPartners(CATCHER_PARTNERS_FILE),
      caught: createCaughtWebhooks(webhooksMax),
      arrivals: createArrivals(arrivalsMax),
      behaviour: createBehaviour(),
      controlToken,
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
