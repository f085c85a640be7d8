import { readFileSync } from 'node:fs';

/** The webhook secret of each partner that the catcher plays. */
export type PartnerSecrets = ReadonlyMap<string, string>;

/** Reads `[{ id, webhookSecret }]`; throws when the file is missing or of another form. */
export function readPartners(file: string): PartnerSecrets {
  const list: unknown = JSON.parse(readFileSync(file, 'utf8'));
  if (!Array.isArray(list)) throw new Error(`${file} is not a JSON array`);
  return new Map(
    list.map((each: { id?: unknown; webhookSecret?: unknown }) => {
      const { id, webhookSecret } = each;
      if (typeof id === 'string' && typeof webhookSecret === 'string') return [id, webhookSecret];
      throw new Error(`${file} has an entry without id or webhookSecret`);
    }),
  );
}
