import { randomUUID } from 'node:crypto';
import { keyScopes, type KeyScope } from '@triplock/contracts';
import {
  type KeyWishes,
  type PartnerActor,
  type PartnerRegistry,
  rotateSecretAs,
} from '@triplock/partners';
import {
  type CardNumbersIn,
  type EndpointId,
  type IdempotencyKey,
  isExemptEverywhere,
  type PartnerId,
} from '@triplock/payments';
import { type Database } from '@triplock/postgres';
import { CommandError, UsageError } from '@triplock/command';
import { required, type Config } from './config.ts';

export type PartnerActDone = { lines: readonly string[]; result: unknown; secret?: string };

/** Where an action works, and looks up who acts, should it be one that is recorded. */
export type PartnerWork = { config: Config; database: Database; actor: () => PartnerActor };

/** @throws UsageError when the word can be no partner's ID. */
export function partnerIdOf(word: string | undefined): PartnerId {
  if (word !== undefined && /^[a-z0-9][a-z0-9-]{0,62}$/.test(word)) return word as PartnerId;
  throw new UsageError(
    `a partner's ID is 1 to 63 of a-z, 0-9 and "-", not '${word ?? ''}' (npm run partners -- --help)`,
  );
}

/** @throws UsageError when the word can be no endpoint's ID. */
export function endpointIdOf(word: string | undefined): EndpointId {
  if (word !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word)) {
    return word as EndpointId;
  }
  throw new UsageError(`an endpoint's ID is a UUID, as its partner and the console see it`);
}

/** In words. */
export function allowedIn(fields: CardNumbersIn): string {
  return isExemptEverywhere(fields) ? 'allowed' : `allowed in ${fields.join(', ')}`;
}

/** Makes a partner with its first key, once the registry is there. */
export function addPartner(id: PartnerId) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<PartnerActDone> => {
    const added = await registry.add(id, actor());
    if (added.outcome === 'exists') {
      const next = `npm run partners -- rotate-key ${id} gives it one more key`;
      throw new CommandError(`there is a partner ${id} already: ${next}`);
    }
    return newKey(id, added.apiKey);
  };
}

/** @throws UsageError when the word is no scope of a key. */
export function keyScopeOf(word: string): KeyScope {
  const scope = keyScopes.find((each) => each === word);
  if (scope !== undefined) return scope;
  throw new UsageError(`a key's scope is one of ${keyScopes.join(', ')}, not '${word}'`);
}

/** Makes one more key. */
export function rotateKey(id: PartnerId, wishes: KeyWishes = {}) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<PartnerActDone> => {
    const added = await registry.addKey(id, actor(), wishes);
    if (added.outcome === 'no-partner') {
      throw new CommandError(`there is no partner ${id}: npm run partners -- list shows all`);
    }
    if (added.outcome === 'wrong-expiry') {
      throw new CommandError('a key expires in the future, and within five years');
    }
    const next = 'The keys before it are good until you revoke them: npm run partners -- list';
    const { lines, ...rest } = newKey(id, added.apiKey);
    return { ...rest, lines: [...lines, next] };
  };
}

/** Ends the key that begins with `prefix`. */
export function revokeKey(id: PartnerId, prefix: string) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<PartnerActDone> => {
    const { outcome } = await registry.revokeKey(id, prefix, actor());
    switch (outcome) {
      case 'revoked':
        return { lines: ['revoked; refused within 5 s'], result: { id, revoked: true } };
      case 'no-such-key':
        throw new CommandError(
          `no good key of ${id} begins so: npm run partners -- list shows them`,
        );
      case 'several-keys':
        throw new CommandError(`several keys of ${id} begin so: give more of the one you mean`);
    }
  };
}

/** Says where what a partner sends may look like the numbers of payment cards. */
export function setCardNumbers(id: PartnerId, fields: CardNumbersIn) {
  return async (registry: PartnerRegistry, { actor }: PartnerWork): Promise<PartnerActDone> => {
    const { outcome } = await registry.setCardNumbers(id, fields, actor());
    const now = fields.length === 0 ? 'refused' : allowedIn(fields);
    switch (outcome) {
      case 'set':
        return {
          lines: [`what looks like card numbers is ${now} within 5 s`],
          result: { id, cardNumbersIn: fields },
        };
      case 'unchanged':
        throw new CommandError(`what looks like card numbers of ${id} is ${now} already`);
      case 'no-partner':
        throw new CommandError(`there is no partner ${id}`);
    }
  };
}

/**
 * Gives an endpoint a new secret. One whose answer is lost is lost: the next rotation, a day later
 * or `even-early`, makes another.
 */
export function rotateSecret(id: PartnerId, endpoint: EndpointId, when: 'rested' | 'even-early') {
  return async (_: PartnerRegistry, work: PartnerWork): Promise<PartnerActDone> => {
    const { WEBHOOK_KEYS: keys } = required(work.config, 'WEBHOOK_KEYS');
    const key = randomUUID() as string as IdempotencyKey;
    const order = { partnerId: id, id: endpoint, key, actor: work.actor(), when };
    const rotated = await rotateSecretAs(work.database, keys, order);
    switch (rotated.outcome) {
      case 'rotated':
      case 'replayed': {
        const { secret, previousSecretUntil } = rotated;
        const until = previousSecretUntil.toISOString();
        const next = `It is shown this once. The one before it signs too until ${until}.`;
        return {
          lines: [secret, next],
          result: { id, endpoint, secret, previousSecretUntil },
          secret,
        };
      }
      case 'two-sign':
        throw new CommandError(
          `two secrets sign until ${rotated.until.toISOString()}: rotating before then ends the older one, which may be all that the partner's server knows; --again does it`,
        );
      case 'no-endpoint':
        throw new CommandError(`${id} has no such endpoint`);
      default:
        return rotated satisfies never;
    }
  };
}

function newKey(id: PartnerId, apiKey: string): PartnerActDone {
  const lines = [apiKey, 'It is shown this once and cannot be had again.'];
  return { lines, result: { id, apiKey }, secret: apiKey };
}
