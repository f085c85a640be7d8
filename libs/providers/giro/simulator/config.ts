import { controlSettings, integer, port, readSettings, text, withDefault } from '@triplock/runtime';

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, {
    ...controlSettings,
    GIRO_SIMULATOR_HOST: withDefault(text, '127.0.0.1'),
    GIRO_SIMULATOR_PORT: port,
    /** The file of all that it was told, which outlives it. */
    GIRO_SIMULATOR_JOURNAL: text,
    /** From a transfer's release until it is settled or returned. */
    GIRO_SIMULATOR_SETTLE_AFTER_MS: withDefault(integer({ min: 0, max: 86_400_000 }), 1_000),
  });
}
