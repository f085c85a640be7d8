import { port, readSettings, text, withDefault } from '@triplock/runtime';

/** Reads the settings, or throws a SettingsError that names all problems. */
export function readConfig() {
  return readSettings(process.env, {
    DYNAMODB_SERVER_HOST: withDefault(text, '127.0.0.1'),
    DYNAMODB_SERVER_PORT: port,
    DYNAMODB_SERVER_FOLDER: text,
  });
}
