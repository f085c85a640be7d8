import { describeAmount, type TransactionKind, type TxnId } from '@triplock/payments';
import { count, renderTable, style } from '@triplock/command';
import { type AskedKey, gatherKeys, isReplay, pairRequests } from './asked-keys.ts';
import { checkAnswers } from './check-answers.ts';
import { checkEffects } from './check-effects.ts';
import { checkKeys } from './check-keys.ts';
import { checkRefunds } from './check-refunds.ts';
import { checkWebhooks, gatherLostKeys } from './check-webhooks.ts';
import { type History, type HistoryFinding, type RunOver, historyChecks } from './history.ts';
import { type ShownInHistory, gatherShown, isFinal } from './shown-transactions.ts';

/** How much a history says, so that one that says little is not taken for a proof. */
export type Judged = {
  requests: number;
  /** Idempotency keys, by partner and kind. */
  keys: number;
  /** Keys with a 202. */
  accepted: number;
  /** Answers. */
  replayed: number;
  inUse: number;
  reused: number;
  unanswered: number;
  reads: number;
  /** Transactions that were shown as final. */
  final: number;
  webhooks: number;
  faults: number;
};

/** What partners asked for, and what webhooks then informed them of; amounts in minor units. */
export type HistorySum = {
  partner: string;
  currency: string;
  kind: TransactionKind;
  asked: { count: number; amount: number };
  informed: { count: number; amount: number };
};

/** What came of checking a history. */
export type HistoryReport = {
  /** Nothing contradicts the contract, and something was accepted. */
  ok: boolean;
  /** What the run said of itself at its end. */
  over: Pick<RunOver, 'delivered' | 'complete'>;
  judged: Judged;
  sums: readonly HistorySum[];
  findings: readonly HistoryFinding[];
  /** The last line, when it was cut off. */
  torn?: number;
};

/**
 * Judges a history by itself, without a look into any system: whether some order of the requests
 * fits the contract, whether all that was accepted became final once, as it was asked for, for its
 * own partner alone, with every webhook once; and whether the sums are equal. n log n of its lines.
 *
 * A history that its writer did not end is judged by what it has: what is not there may yet come.
 */
export function checkHistory(history: History): HistoryReport {
  const { lines, head, torn } = history;
  const { requests, findings } = pairRequests(lines);
  const { keys, keyless } = gatherKeys(requests);
  const shown = gatherShown(lines, requests);
  const { delivered = false, complete = false } = lines.findLast(isOver) ?? {};
  const firstFault = lines.find(({ what }) => what === 'fault')?.line ?? Number.POSITIVE_INFINITY;
  const lostKeys = gatherLostKeys(shown.webhooks);
  const aloneSince = complete ? Date.parse(head.began) : Number.POSITIVE_INFINITY;
  const judged = countJudged(history, { requests, keys, shown });
  const sums = sumUp(keys, shown, lostKeys);
  findings.push(
    ...checkAnswers(keys, keyless),
    ...checkKeys({ keys, firstFault, delivered, lostKeys }),
    ...checkEffects({ keys, shown, lostKeys, delivered, aloneSince }),
    ...checkRefunds({ keys, shown, complete }),
    ...checkWebhooks({ keys, shown, delivered }),
    ...(delivered ? checkSums(sums) : []),
    ...(judged.accepted > 0 ? [] : [nothingAccepted]),
  );
  return {
    ok: findings.length === 0,
    over: { delivered, complete },
    judged,
    sums,
    findings,
    ...(torn !== undefined && { torn }),
  };
}

function isOver(event: History['lines'][number]): event is RunOver & { line: number } {
  return event.what === 'over';
}

const nothingAccepted: HistoryFinding = {
  check: 'proves-nothing',
  about: 'the history',
  ids: [],
  lines: [],
  why: 'no request was accepted',
};

function countJudged(
  { lines }: History,
  {
    requests,
    keys,
    shown,
  }: {
    requests: ReturnType<typeof pairRequests>['requests'];
    keys: ReadonlyMap<TxnId, AskedKey>;
    shown: ShownInHistory;
  },
): Judged {
  const all = [...keys.values()];
  const count = (outcome: string) =>
    all.reduce(
      (sum, key) => sum + key.requests.filter((each) => each.outcome === outcome).length,
      0,
    );
  return {
    requests: requests.length,
    keys: keys.size,
    accepted: all.filter(({ requests: own }) => own.some((each) => each.outcome === 'accepted'))
      .length,
    replayed: requests.filter(isReplay).length,
    inUse: count('in-use'),
    reused: count('reused'),
    unanswered: requests.filter(({ end }) => end?.what !== 'answered').length,
    reads: requests.filter(({ kind }) => kind === 'read').length,
    final: [...shown.transactions.values()].filter((each) => each.some(isFinal)).length,
    webhooks: shown.webhooks.length,
    faults: lines.filter(({ what }) => what === 'fault').length,
  };
}

type Sums = Map<string, HistorySum>;

/**
 * What took effect by what was asked for and by what webhooks said, each transaction once. Where no
 * answer says which request it was, or a refund leaves its amount open, what is shown is believed.
 */
function sumUp(
  keys: ReadonlyMap<TxnId, AskedKey>,
  shown: ShownInHistory,
  lostKeys: ReadonlyMap<string, ReadonlySet<string>>,
): HistorySum[] {
  const sums: Sums = new Map();
  for (const key of keys.values()) {
    const all = shown.transactions.get(key.id) ?? [];
    const lost = lostKeys.get(key.id);
    const accepted = key.requests.find(
      ({ outcome, wanted }) => outcome === 'accepted' && wanted && !lost?.has(wanted.fingerprint),
    );
    const informed = all.find((each) => each.by === 'webhook' && isFinal(each));
    const final = informed ?? all.find(isFinal);
    if (accepted === undefined && final === undefined) continue;
    const fields = { ...final?.fields, ...accepted?.wanted?.fields };
    const currency = typeof fields['currency'] === 'string' ? fields['currency'] : '';
    const sum = sumOf(sums, key, currency);
    add(sum.asked, Number(fields['amount'] ?? 0));
    if (informed !== undefined) add(sum.informed, Number(informed.fields['amount'] ?? 0));
  }
  return [...sums.values()];
}

function sumOf(sums: Sums, { partner, kind }: AskedKey, currency: string): HistorySum {
  const name = JSON.stringify([partner, kind, currency]);
  const nothing = () => ({ count: 0, amount: 0 });
  const sum = sums.get(name) ?? {
    partner,
    currency,
    kind,
    asked: nothing(),
    informed: nothing(),
  };
  sums.set(name, sum);
  return sum;
}

function add(sum: { count: number; amount: number }, amount: number): void {
  sum.count += 1;
  sum.amount += amount;
}

function describeSum({ count, amount }: HistorySum['asked'], currency: string): string {
  return `${count}, ${describeAmount(amount, currency)}`;
}

function checkSums(sums: readonly HistorySum[]): HistoryFinding[] {
  return sums.flatMap(({ partner, currency, kind, asked, informed }) => {
    if (asked.count === informed.count && asked.amount === informed.amount) return [];
    const [wanted, told] = [asked, informed].map((sum) => describeSum(sum, currency));
    const why = `${wanted} were asked for, webhooks say ${told}`;
    const about = `${partner} ${kind}s in ${currency}`;
    return [{ check: 'sums-differ', about, ids: [], lines: [], why }];
  });
}

/** The report for people: how much was judged, the sums, and what is wrong at which lines. */
export function renderHistory(report: HistoryReport): string[] {
  const { ok, over, judged, sums, findings, torn } = report;
  const counts = Object.entries(judged).map(([what, n]) => `${n} ${labels[what as keyof Judged]}`);
  const rows = sums.map(({ partner, kind, currency, asked, informed }) => [
    ...[partner, `${kind}s`],
    ...[asked, informed].map((sum) => describeSum(sum, currency)),
  ]);
  const columns = ['partner', '', 'asked for', 'by webhooks'].map((head) => ({ head }));
  const end = over.delivered
    ? 'its run waited until everything was delivered'
    : 'its run did not say that everything was delivered: what is missing is no finding';
  return [
    counts.join(', '),
    ...(torn === undefined
      ? []
      : [`line ${torn} was cut off while it was written, and is left out`]),
    end,
    '',
    ...renderTable(columns, rows),
    '',
    ...findings.slice(0, findingsShown).flatMap(renderFinding),
    ...(findings.length > findingsShown ? [`  and ${findings.length - findingsShown} more`] : []),
    ok
      ? style.good('✔ nothing in it contradicts the contract')
      : style.bad(`✘ ${count(findings.length, 'contradiction')}`),
  ];
}

const findingsShown = 50;

const labels: Readonly<Record<keyof Judged, string>> = {
  requests: 'requests',
  keys: 'keys',
  accepted: 'accepted',
  replayed: 'replays',
  inUse: 'in use',
  reused: 'reused',
  unanswered: 'unanswered',
  reads: 'reads',
  final: 'final',
  webhooks: 'webhooks',
  faults: 'faults',
};

function renderFinding({ check, about, lines, why }: HistoryFinding): string[] {
  const at = lines.length === 0 ? '' : `, lines ${lines.slice(0, findingsShown).join(' ')}`;
  return [`  ${check}: ${about}${at}`, `    ${historyChecks[check]}: ${why}`];
}
