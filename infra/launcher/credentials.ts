import { randomBytes } from 'node:crypto';
import { readJson, writeJson } from './json-file.ts';

/** A demo partner as a client of the system sees it. */
export type PartnerCredentials = { id: string; apiKey: string; webhookSecret: string };

/** Made once per home and kept in a file that only its owner can read. */
export type Credentials = {
  /** Of PostgreSQL's superuser in this home. */
  postgresPassword: string;
  partners: readonly PartnerCredentials[];
};

/** What a partner's own endpoint has to know: no API key. */
export function webhookSecretsOf(partners: readonly PartnerCredentials[]) {
  return partners.map(({ id, webhookSecret }) => ({ id, webhookSecret }));
}

/** Reads the credentials in a file, and makes them the first time. */
export function credentialsIn(file: string): Credentials {
  const stored = readJson(file) as Credentials | undefined;
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
  writeJson(file, made);
  return made;
}
