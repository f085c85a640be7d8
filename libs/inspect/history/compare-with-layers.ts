import type { TransactionKind, TxnId } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import type { AuditReport, Finding } from '../audit-report.ts';
import {
  type AskedKey,
  firstAccepted,
  gatherKeys,
  mayHaveClaimed,
  pairRequests,
} from './asked-keys.ts';
import { checkHistory } from './check-history.ts';
import type { History, RunOver } from './history.ts';
import { type Shown, type Webhook, gatherShown, isFinal } from './shown-transactions.ts';

/**
 * The audit with a history as one more layer: what contradicts the contract in the history itself
 * is drift as `history-` and the name of its check, what differs from the layers is by
 * {@link layerChecks}.
 */
export async function auditWithHistory(
  report: AuditReport,
  { history, database }: { history: History; database: Queryable },
): Promise<AuditReport> {
  const judged = checkHistory(history);
  const own = [...Map.groupBy(judged.findings, ({ check }) => check)].map(([check, found]) => {
    const ids = found.flatMap(({ ids, about }) => (ids.length > 0 ? ids : [about]));
    return { check: `history-${check}`, ids: [...new Set(ids)] };
  });
  const drift = [...report.drift, ...own, ...(await compareWithLayers(database, history))];
  return { ...report, ok: drift.length === 0, drift, history: judged };
}

/** What a history and the layers are compared for, by name, and what each of them finds. */
export const layerChecks = {
  'asked-not-in-ledger': 'a request that got a 202, and that the ledger does not have',
  'asked-differs-from-ledger': 'a transaction of the ledger that is not as any request asked',
  'shown-differs-from-ledger': 'a transaction that ended otherwise than its partner was shown',
  'ledger-not-asked': 'a transaction of the ledger that nobody asked for',
  'arrived-not-delivered': 'a webhook that came, and is no delivery or one of other bytes',
  'delivered-not-arrived': 'a webhook that is called delivered, and never came',
} as const;

type LayerCheck = keyof typeof layerChecks;

/** A transaction as the ledger has it; amounts in minor units. */
type LedgerRow = {
  id: TxnId;
  partner: string;
  kind: TransactionKind;
  key: string;
  fingerprint: string;
  state: string;
  /** Of what follows a payment null when it was asked for all that there is. */
  asked: bigint | null;
  amount: bigint | null;
  currency: string | null;
};

/** A webhook as its delivery has it. */
type Delivery = { id: string; partner: string; body: string; state: string };

/** What the layers have of a history's transactions and webhooks. */
type Layers = {
  ledger: ReadonlyMap<string, LedgerRow>;
  deliveries: ReadonlyMap<string, Delivery>;
  /** Deliveries of the history's transactions that may have left by age are not missed. */
  wereReaped: boolean;
  /** Transactions that were made while the run lasted. */
  made: readonly string[];
};

/**
 * Compares a history with the ledger and with the deliveries, which the audit compares with all
 * that is between them: so what clients asked and what partners received are the first layer and
 * the last. To be called after an audit, when the ledger's copy is up to now and nothing is in
 * flight. Reads only, and locks nothing.
 */
export async function compareWithLayers(database: Queryable, history: History): Promise<Finding[]> {
  const { requests } = pairRequests(history.lines);
  const { keys } = gatherKeys(requests);
  const { webhooks, transactions } = gatherShown(history.lines, requests);
  const over = history.lines.findLast((each) => each.what === 'over');
  const layers = await readLayers(database, { history, keys, webhooks, over });
  const findings = new Map<LayerCheck, Set<string>>();
  const find = (check: LayerCheck, id: string) =>
    findings.set(check, (findings.get(check) ?? new Set()).add(id));

  for (const key of keys.values()) {
    const row = layers.ledger.get(key.id);
    if (row !== undefined && !isAsAsked(row, key)) find('asked-differs-from-ledger', key.id);
    if (row === undefined && firstAccepted(key) !== undefined) find('asked-not-in-ledger', key.id);
    const finals = (transactions.get(key.id) ?? []).filter(isFinal);
    const own = finals.filter(({ partner }) => partner === key.partner);
    if (own.some((each) => !endedSo(each, row))) find('shown-differs-from-ledger', key.id);
  }
  for (const id of layers.made) if (!keys.has(id as TxnId)) find('ledger-not-asked', id);
  const arrived = new Set<string>();
  for (const webhook of webhooks.filter(({ verified }) => verified)) {
    const { id, partner, body } = webhook;
    arrived.add(id);
    const sent = layers.deliveries.get(id);
    if (sent === undefined && layers.wereReaped) continue;
    const isSent = sent?.partner === partner && sent.body === body;
    if (!isSent) find('arrived-not-delivered', id);
  }
  if (over?.delivered === true) {
    for (const { id, state } of layers.deliveries.values()) {
      if (state === 'delivered' && !arrived.has(id)) find('delivered-not-arrived', id);
    }
  }
  return [...findings].map(([check, ids]) => ({ check, ids: [...ids] }));
}

/** Whether a request that was accepted, or may have been, asked for just this. */
function isAsAsked(row: LedgerRow, key: AskedKey): boolean {
  if (row.partner !== key.partner || row.kind !== key.kind || row.key !== key.key) return false;
  return key.requests.some((each) => {
    if (!mayHaveClaimed(each) || each.wanted!.fingerprint !== row.fingerprint) return false;
    const { amount, currency } = each.wanted!.fields;
    const asked = amount === undefined ? null : Number(amount);
    if (asked !== (row.asked === null ? null : Number(row.asked))) return false;
    return currency === undefined || currency === row.currency;
  });
}

function endedSo({ status, fields }: Shown, row: LedgerRow | undefined): boolean {
  if (row === undefined || status !== row.state) return false;
  // A refund that did not fit is shown with the amount that was asked for.
  return Number(fields['amount'] ?? 0) === Number(row.amount ?? row.asked ?? 0);
}

type Looking = {
  history: History;
  keys: ReadonlyMap<TxnId, AskedKey>;
  webhooks: readonly Webhook[];
  over: RunOver | undefined;
};

/** As many ids as one statement is given. */
const idsAtOnce = 5_000;

async function readLayers(
  database: Queryable,
  { history, keys, webhooks, over }: Looking,
): Promise<Layers> {
  const began = new Date(history.head.began);
  const ledger = new Map<string, LedgerRow>();
  const deliveries = new Map<string, Delivery>();
  const keep = (some: readonly Delivery[]) => some.forEach((each) => deliveries.set(each.id, each));
  for (const ids of inParts([...keys.keys()])) {
    const rows = await database.query<LedgerRow>(ledgerSql, [ids]);
    for (const row of rows) ledger.set(row.id, row);
    keep(await database.query<Delivery>(deliveriesSql, [ids, began]));
  }
  for (const ids of inParts([...new Set(webhooks.filter(isWhole).map(({ id }) => id))])) {
    keep(await database.query<Delivery>(arrivedSql, [ids]));
  }
  const [horizon] = await database.query<{ wereReaped: boolean }>(horizonSql, [began]);
  const made =
    over?.complete === true
      ? await database.query<{ id: string }>(madeSql, [began, new Date(+began + over.at)])
      : [];
  return {
    ledger,
    deliveries,
    wereReaped: horizon!.wereReaped,
    made: made.map(({ id }) => id),
  };
}

/** Anything may come to a partner's endpoint: only what can be an id is asked for. */
function isWhole({ verified, id }: Webhook): boolean {
  return verified && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id);
}

function inParts(ids: readonly string[]): string[][] {
  const parts: string[][] = [];
  for (let at = 0; at < ids.length; at += idsAtOnce) parts.push(ids.slice(at, at + idsAtOnce));
  return parts;
}

const ledgerSql = `
  SELECT txn_id AS id, partner_id AS partner, kind, idempotency_key AS key,
         encode(fingerprint, 'hex') AS fingerprint, state,
         CASE WHEN payment_id IS NULL THEN amount ELSE requested_amount END AS asked, amount, currency
  FROM ledger.transactions WHERE txn_id = ANY ($1::uuid[])`;

/** Of transactions that are older than the history, webhooks may have come before it. */
const deliveriesSql = `
  SELECT event_id AS id, partner_id AS partner, body, state
  FROM webhooks.deliveries
  WHERE txn_id = ANY ($1::uuid[]) AND created_at >= $2`;

const arrivedSql = `
  SELECT event_id AS id, partner_id AS partner, body, state
  FROM webhooks.deliveries WHERE event_id = ANY ($1::uuid[])`;

const horizonSql = `
  SELECT reaped_before > $1 AS "wereReaped" FROM webhooks.deliveries_horizon`;

/** Settled while the run lasted, or pending: by indexes that the ledger has. */
const madeSql = `
  SELECT txn_id AS id FROM ledger.transactions
  WHERE created_at BETWEEN $1 AND $2
    AND (settled_at >= $1 - interval '1 minute' OR state = 'pending')`;
