import { consumerSettings } from '@triplock/consumer';
import { integer, readSettings, serviceSettings, withDefault } from '@triplock/runtime';

/** The settings of settlement-feed. */
export const settings = {
  ...serviceSettings,
  ...consumerSettings('settlement-feed'),
  /**
   * For how long a day is kept open after its end, for what clocks that differ put into it: what
   * comes later is added to the next one.
   */
  SETTLEMENT_DAY_CLOSES_AFTER_MS: withDefault(integer({ min: 60_000, max: 86_400_000 }), 900_000),
};

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, settings);
}
