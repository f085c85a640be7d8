/** How long a read may wait for a payment to become final, in seconds. */
const waitSecondsMax = 30;

/**
 * The seconds of `Prefer: wait=N` (RFC 7240, section 4.3), 0 to 30; `undefined` when there is none.
 * The first `wait` counts; one that is malformed or larger is ignored, as section 2 asks.
 */
export function preferredWaitSeconds(
  header: string | readonly string[] | undefined,
): number | undefined {
  if (header === undefined) return undefined;
  const wait = splitList([header].flat().join(','))
    .map((preference) => preference.split(';', 1)[0]!.trim())
    .find((preference) => /^wait(?![!#$%&'*+.^`|~\w-])/i.test(preference));
  const [, quoted, bare] = /^wait[ \t]*=[ \t]*(?:"(\d{1,9})"|(\d{1,9}))$/i.exec(wait ?? '') ?? [];
  const seconds = Number(quoted ?? bare);
  return seconds <= waitSecondsMax ? seconds : undefined;
}

/** The members of a comma-separated list; a comma inside a quoted string does not separate. */
function splitList(list: string): string[] {
  const members: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < list.length; at += 1) {
    const character = list[at];
    if (isQuoted && character === '\\') at += 1;
    else if (character === '"') isQuoted = !isQuoted;
    else if (character === ',' && !isQuoted) {
      members.push(list.slice(start, at));
      start = at + 1;
    }
  }
  return [...members, list.slice(start)];
}
