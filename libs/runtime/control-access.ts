import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { text, withDefault } from './settings.ts';

/**
 * What proves that whoever asks for a fault may have it: a secret of the home, in its
 * endpoints.json. Without one nobody may, so that nothing can be broken that was not started to
 * be broken.
 */
export const controlSettings = { CONTROL_TOKEN: withDefault(text, undefined) };

/** What these rules look at. */
export type Visit = Pick<IncomingMessage, 'headers' | 'socket'>;

/**
 * Why a request that breaks something on purpose is refused; `undefined` when it is not. A
 * partner's webhook URL can point here in a demo, and a web page can have its visitor's browser
 * post here: the one knows no token, and the other cannot send one (a preflight that nobody
 * answers).
 */
export function refusedControl(visit: Visit, token: string | undefined): string | undefined {
  const foreign = refusedVisit(visit);
  if (foreign !== undefined) return foreign;
  const [, given] = /^Bearer +(\S+)$/i.exec(visit.headers.authorization ?? '') ?? [];
  if (token !== undefined && given !== undefined && isSame(given, token)) return undefined;
  return 'give Authorization: Bearer and the token that endpoints.json has for it';
}

/**
 * Why a request cannot be from this machine's own programs or pages; `undefined` when it may be.
 * A page elsewhere has another Origin; one whose name was made to point here (DNS rebinding) has
 * a Host that nothing of ours is called by: names of ours are `localhost` and those of
 * containers, which have no dot.
 */
export function refusedVisit({ headers, socket }: Visit): string | undefined {
  const { host = '', origin } = headers;
  const name = URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : '.';
  if (!isOwnName(name.replace(/^\[(.*)\]$/, '$1'), socket.localAddress)) {
    return 'the Host is not of this system';
  }
  if (origin !== undefined && origin !== `http://${host}`) return 'pages elsewhere may not ask';
  return undefined;
}

/**
 * Why a request cannot be from a program; `undefined` when it may be. Browsers say of a page's
 * requests where the page is from (`Origin`; `Sec-Fetch-Site`, which is `none` for an address that
 * a person has typed), also of those that pages make unasked, such as for an image. Over plain HTTP
 * they say neither of a page whose name was made to point here (DNS rebinding): so where callers
 * are of this machine and its containers, the Host has to be one of theirs as well. By which names
 * a server is called on a network of others is not known.
 */
export function refusedPage(
  visit: Visit,
  { callers }: { callers: 'of this machine' | 'of a network' },
): string | undefined {
  const { origin, 'sec-fetch-site': site = 'none' } = visit.headers;
  if (origin !== undefined || site !== 'none') return 'pages may not ask';
  return callers === 'of this machine' ? refusedVisit(visit) : undefined;
}

/** Whether nobody but this machine reaches what listens there. */
export const isLoopback = (host: string) => host === 'localhost' || /^127\.|^::1$/.test(host);

function isOwnName(name: string, localAddress: string | undefined): boolean {
  if (isIP(name) === 0) return !name.includes('.');
  return /^127\.|^::1$/.test(name) || name === localAddress?.replace(/^::ffff:/, '');
}

/** Takes as long whatever of it is right. */
function isSame(given: string, token: string): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', token, 'buffer'));
}
