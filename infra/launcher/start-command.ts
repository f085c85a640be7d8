import { defaultHome, homeAt } from './home.ts';

/** What a person types to start an instance, or what is missing of it; to be copied as it is. */
export function startCommand(home?: string): string {
  if (home === undefined || homeAt(home).folder === defaultHome) return 'npm run up';
  return `npm run up -- --home ${quoted(home)}`;
}

function quoted(word: string): string {
  return /^[\w./~@%+=:,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
