import { randomBytes } from 'node:crypto';
import type { Home } from './home.ts';
import { readJson, writeJson } from './json-file.ts';

/** A demo partner as a client of the system sees it. */
export type PartnerCredentials = { id: string; apiKey: string; webhookSecret: string };

/** Made once per home and kept in a file that only its owner can read. */
export type Credentials = {
  /** Of PostgreSQL's superuser in this home. */
  postgresPassword: string;
  partners: readonly PartnerCredentials[];
};

/** Reads the home's credentials, and makes them the first time. */
export function credentialsOf(home: Home): Credentials {
  const stored = readJson(home.credentials) as Credentials | undefined;
  if (stored !== undefined) return stored;
  const made: Credentials = {
    postgresPassword: randomBytes(24).toString('base64url'),
    partners: ['acme', 'globex'].map((id) => ({
      id,
      apiKey: `tl_demo_${id}_${randomBytes(24).toString('base64url')}`,
      // The form of Standard Webhooks: "whsec_" and 24 to 64 random bytes in base64.
      webhookSecret: `whsec_${randomBytes(32).toString('base64')}`,
    })),
  };
  writeJson(home.credentials, made);
  return made;
}
