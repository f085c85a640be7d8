import type { Home } from '../home.ts';
import { homeMark } from './find-processes.ts';

// Enough for a process to run and to trust the machine's certificates. Nothing else is passed on: a
// proxy setting would send loopback traffic away, and npm's own variables change between calls.
const passedOn = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'NODE_EXTRA_CA_CERTS'];

/**
 * The environment of a process of this home: the mark, what the machine needs, and its own
 * settings.
 */
export function processEnvironment(
  home: Home,
  settings: Readonly<Record<string, string>>,
): Record<string, string> {
  const machine = passedOn.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...Object.fromEntries(machine), ...settings, [homeMark]: home.folder };
}
