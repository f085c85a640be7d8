import { UsageError } from '../launcher-error.ts';
import { replicasMax } from '../start-services.ts';

/** The number after `--replicas`. */
export function parseReplicas(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const number = /^\d{1,3}$/.test(text) ? Number(text) : NaN;
  if (number >= 1 && number <= replicasMax) return number;
  throw new UsageError(`--replicas takes a whole number from 1 to ${replicasMax}, not '${text}'`);
}

/** The word after `--parts`. */
export function parseParts(text: string | undefined): 'native' | 'docker' | undefined {
  if (text === undefined || text === 'native' || text === 'docker') return text;
  throw new UsageError(`--parts ${text} is not known: it takes native or docker`);
}
