import { type JsonValue, type TxnId, canonicalJson, followUpKinds } from '@triplock/payments';
import {
  type AskedKey,
  type KeyRequest,
  endLine,
  firstAccepted,
  foundIn,
  isAccepted,
  mayHaveClaimed,
  nameOf,
} from './asked-keys.ts';
import type { Fields, HistoryCheck, HistoryFinding } from './history.ts';
import { type Shown, type ShownInHistory, isFinal, knownFrom } from './shown-transactions.ts';

/** What the effects in a history are judged by. */
export type EffectsOfHistory = {
  keys: ReadonlyMap<TxnId, AskedKey>;
  shown: ShownInHistory;
  lostKeys: ReadonlyMap<string, ReadonlySet<string>>;
  delivered: boolean;
  /** Since when nobody else asked for anything, in ms since 1970; infinite when unknown. */
  aloneSince: number;
};

/**
 * Judges what partners were shown of each transaction: it is theirs, somebody asked for it and just
 * so, it becomes final once and stays so. What is accepted is found from its 202 on.
 */
export function checkEffects(history: EffectsOfHistory): HistoryFinding[] {
  const { keys, shown, delivered } = history;
  const finals = new Map([...shown.transactions].map(([id, all]) => [id, all.find(isFinal)]));
  const lost = [...keys.values()].flatMap((key) => {
    const request = firstAccepted(key);
    if (!delivered || request === undefined || finals.get(key.id) !== undefined) return [];
    const why = 'it was accepted, and nothing shows how it ended';
    return [foundIn(key, 'never-final', { requests: [request], why })];
  });
  return [
    ...[...shown.transactions].flatMap(([id, all]) => {
      const key = keys.get(id as TxnId);
      return key === undefined ? checkUnknown(history, all) : checkKnown(history, key, all);
    }),
    ...shown.reads.flatMap((read) => checkRead(history, read)),
    ...lost,
  ];
}

/** It is another client's, unless there was none. */
function checkUnknown({ aloneSince }: EffectsOfHistory, all: readonly Shown[]): HistoryFinding[] {
  const [first] = all;
  const createdAt = Date.parse(String(first!.fields['created_at']));
  if (!(createdAt >= aloneSince)) return [];
  const why = 'no request of this history has its key';
  return [{ ...aboutShown(first!), check: 'effect-unasked', why }];
}

function checkKnown(
  history: EffectsOfHistory,
  key: AskedKey,
  all: readonly Shown[],
): HistoryFinding[] {
  const own = all.filter(({ partner }) => partner === key.partner);
  const foreign = all.find(({ partner }) => partner !== key.partner);
  const claimers = key.requests.filter(mayHaveClaimed);
  const [first] = claimers;
  const early = own.find(({ line }) => first === undefined || line < first.line);
  const refused = key.requests.some(({ outcome }) => outcome !== 'unknown');
  const foundOf = finderOf(key);
  return [
    ...(foreign === undefined
      ? []
      : [
          foundOf(
            foreign.by === 'read' ? 'seen-by-another' : 'webhook-of-another',
            [foreign],
            `${foreign.partner} was shown it`,
          ),
        ]),
    ...(early === undefined
      ? []
      : [
          foundOf(
            first === undefined && refused ? 'refused-took-effect' : 'effect-unasked',
            [early],
            first === undefined
              ? 'every request was refused'
              : 'it is there before it was asked for',
          ),
        ]),
    ...(first === undefined ? [] : checkAsAsked(history, key, own)),
    ...checkStaysFinal(key, own),
  ];
}

/** It shows what was accepted, or may have been where nothing was. */
function checkAsAsked(
  { lostKeys }: EffectsOfHistory,
  key: AskedKey,
  own: readonly Shown[],
): HistoryFinding[] {
  const lost = lostKeys.get(key.id) ?? new Set<string>();
  // One of each body: a thousand copies are one question.
  const bodies = new Map<string, KeyRequest>();
  for (const each of key.requests) {
    if (each.wanted === undefined) continue;
    const known = bodies.get(each.wanted.fingerprint);
    if (known === undefined || rank(each) < rank(known)) bodies.set(each.wanted.fingerprint, each);
  }
  const all = [...bodies.values()];
  const claimers = all.filter(mayHaveClaimed);
  const winners = claimers.filter(
    (each) => isAccepted(each) && !lost.has(each.wanted!.fingerprint),
  );
  const foundOf = finderOf(key);
  for (const each of own) {
    const candidates = isFinal(each) && winners.length > 0 ? winners : claimers;
    const isLike = ({ wanted }: KeyRequest) => showsFields(each.fields, wanted!.fields);
    if (each.fields['object'] === key.kind && candidates.some(isLike)) continue;
    const refused = all.find((other) => !mayHaveClaimed(other) && isLike(other));
    const other = claimers.find(isLike);
    const [check, why] =
      refused !== undefined
        ? ([
            'refused-took-effect',
            `it is as request ${refused.n} asked, which was refused`,
          ] as const)
        : other !== undefined
          ? (['effect-altered', 'it is as another request asked than the one accepted'] as const)
          : (['effect-altered', 'it is not as any request of its key asked'] as const);
    return [foundOf(check, [each], why)];
  }
  return [];
}

/** Which of two requests with one body says most. */
function rank(request: KeyRequest): number {
  return isAccepted(request) ? 0 : mayHaveClaimed(request) ? 1 : 2;
}

/** What a partner may ask for; a refund's amount may be left open. */
const askable = [
  ...['amount', 'currency', 'payment_method', 'reference', 'description', 'metadata'],
  ...['payment', 'reason'],
];

function showsFields(shown: Fields, wanted: Fields): boolean {
  const follows = followUpKinds.some((kind) => kind === shown['object']);
  return askable.every((name) => {
    const [is, was] = [shown[name], wanted[name]] as [JsonValue?, JsonValue?];
    // The ledger knows them once what follows a payment is posted.
    if (follows && was === undefined && (name === 'amount' || name === 'currency')) return true;
    if (is === undefined || was === undefined) return is === was;
    return canonicalJson(is) === canonicalJson(was);
  });
}

/** Pending, then final once, and then the same for ever. */
function checkStaysFinal(key: AskedKey, own: readonly Shown[]): HistoryFinding[] {
  const finals = own.filter(isFinal);
  const [first] = finals;
  if (first === undefined) return [];
  const foundOf = finderOf(key);
  const other = finals.find(({ status }) => status !== first.status);
  if (other !== undefined) {
    const why = `it is ${first.status} and ${other.status}`;
    return [foundOf('final-changed', [first, other], why)];
  }
  const altered = finals.find((each) => detailsOf(each) !== detailsOf(first));
  const firsts = [
    finals.find(({ by }) => by === 'read'),
    finals.find(({ by }) => by === 'webhook'),
  ];
  const undone = own.find(
    (each) => !isFinal(each) && firsts.some((final) => final && knownFrom(final) < each.at),
  );
  return [
    ...(altered === undefined
      ? []
      : [foundOf('final-altered', [first, altered], 'its details differ')]),
    ...(undone === undefined
      ? []
      : [foundOf('final-undone', [first, undone], `it is ${undone.status} after it was final`)]),
  ];
}

/** What of a final transaction never changes: all but what its refunds add up to. */
function detailsOf({ fields }: Shown): string {
  return canonicalJson({ ...fields, amount_refunded: undefined });
}

function checkRead(
  { keys, shown }: EffectsOfHistory,
  { request, id, shown: seen }: ShownInHistory['reads'][number],
): HistoryFinding[] {
  const key = keys.get(id as TxnId);
  if (seen !== undefined) {
    if (seen.id === id) return [];
    return [{ ...aboutShown(seen), check: 'read-mismatch', why: `${id} was asked for` }];
  }
  const status = request.end?.what === 'answered' ? request.end.status : undefined;
  if (key === undefined || key.partner !== request.partner || status !== 404) return [];
  const isOther = !request.path.startsWith(`/v1/${key.kind}s/`);
  if (isOther) return [];
  const accepted = firstAccepted(key);
  const before = accepted !== undefined && endLine(accepted) < request.line;
  const found = shown.transactions.get(id)?.find(isFinal);
  if (!before && !(found !== undefined && found.line < request.line)) return [];
  const why = 'it had been accepted before it was read';
  return [foundIn(key, 'read-not-found', { requests: [request], why })];
}

function aboutShown({ partner, id, line }: Shown) {
  return { about: `${partner} ${id}`, ids: [id], lines: [line] };
}

function finderOf(key: AskedKey) {
  return (check: HistoryCheck, shown: readonly Shown[], why: string): HistoryFinding => ({
    check,
    about: nameOf(key),
    ids: [key.id],
    why,
    lines: shown.map(({ line }) => line),
  });
}
