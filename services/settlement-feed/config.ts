import { consumerSettings } from '@triplock/consumer';
import { readSettings, serviceSettings } from '@triplock/runtime';

/** The settings of settlement-feed. */
export const settings = { ...serviceSettings, ...consumerSettings('settlement-feed') };

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, settings);
}
