import { port, readSettings, text, withDefault } from '@triplock/runtime';

/** The settings of the catcher. */
export const settings = {
  CATCHER_HOST: withDefault(text, '127.0.0.1'),
  CATCHER_PORT: port,
  /** A JSON file: `[{ id, webhookSecret }]`. */
  CATCHER_PARTNERS_FILE: text,
};

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, settings);
}
