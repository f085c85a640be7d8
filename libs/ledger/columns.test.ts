import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  transactionContracts,
  encodePaymentAccepted,
  encodeFollowUpAccepted,
  paymentRequestSchema,
} from '@triplock/contracts';
import type { Database } from '@triplock/postgres';
import { aPayment, aRefund, everyField } from '@triplock/testing';
import { columnGroups, detailFields, transactionColumns } from './columns.ts';
import { openPostgresLedger } from './postgres/payments.ts';
import { bookTransferOf, traceparent } from './test/under-test.ts';

const { asked, amount, ended, kept } = columnGroups;
const baseline = 'libs/ledger/postgres/migrations/0001-baseline.sql';
const twin = 'libs/stores/ledger-spanner';

const textOf = (path: string) =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8').replaceAll(/--.*$/gm, '');

/** What a file has between the first `begin` and the `end` after it. */
function cut(path: string, begin: RegExp, end: RegExp): string {
  const [, rest] = textOf(path).split(begin, 2);
  assert.ok(rest !== undefined, `${path} has nothing like ${begin}: mend columns.test.ts`);
  return rest.split(end, 1)[0]!;
}

/** The columns that a list names: `refund.amount`, `encode(…) AS fingerprint`, `details::text`. */
function namesIn(list: string): string[] {
  return list
    .replaceAll(/encode\((?:\w+\.)?(\w+), 'hex'\)(?: AS \w+)?/g, '$1')
    .replaceAll(/decode\((\w+), 'hex'\)/g, '$1')
    .replaceAll(/\b[A-Z]+\b(?!')|::\w+/g, '')
    .split(',')
    .map((each) => each.trim().split(/\s+/)[0]!.split('.').at(-1)!)
    .filter((name) => name !== '');
}

const without = (columns: readonly string[], others: readonly string[]) =>
  columns.filter((column) => !others.includes(column));

function areThose(file: string, found: readonly string[], expected: readonly string[]): void {
  const missing = without(expected, found);
  const unknown = without(found, expected);
  const mend = [
    ...missing.map((column) => `${column} is missing`),
    ...unknown.map((column) => `${column} is not expected by libs/ledger/columns.ts`),
  ];
  assert.deepEqual(mend, [], `mend ${file}: ${mend.join(', ')}`);
}

/** Columns of a CREATE TABLE: lines that begin with a name; constraints begin with a word. */
function columnsOfTable(path: string, table: string): string[] {
  const body = cut(path, new RegExp(`CREATE TABLE (?:IF NOT EXISTS )?${table} \\(`), /\n\)/);
  return [...body.matchAll(/^ {2}([a-z_]+) (?!.* AS \()/gm)].map(([, name]) => name!);
}

test('the tables have the columns of the list', () => {
  areThose(baseline, columnsOfTable(baseline, 'ledger.transactions'), transactionColumns);
});

test('history and rights name every column', () => {
  const guard = (what: string) => cut(baseline, new RegExp(`IF ${what}ROW\\(`), /\)/);
  areThose(`${baseline}, what was asked for`, namesIn(guard('')), asked);
  const final = guard("OLD.state <> 'pending'\\s+AND ");
  areThose(`${baseline}, what is final`, namesIn(final), [...amount, ...ended]);
  const granted = cut(baseline, /GRANT UPDATE \((?=amount)/, /\) ON/);
  const changing = without([...amount, ...ended, ...kept], ['traceparent']);
  areThose(`${baseline}, the rights`, namesIn(granted), changing);
});

test('what posts names every column', () => {
  const post = 'libs/ledger/postgres/post.sql';
  const insert = /INSERT INTO ledger\.transactions \(/;
  const byOthers = [
    'version',
    'refund_reserved',
    'amount_refunded',
    'action_expires_at',
    'next_action',
    'authorized_at',
    'hold_expires_at',
  ];
  const notPosted = ['payment_id', 'requested_amount', ...byOthers];
  const withPosting = ['state', 'failure_code', 'failure_message', 'settled_at', 'provider'];
  const ofCharges = without(ended, withPosting);
  const posted = without(transactionColumns, [...notPosted, ...ofCharges]);
  areThose(post, namesIn(cut(post, insert, /\)/)), posted);
  const refund = 'libs/ledger/postgres/follow-ups.sql';
  const notYet = [...amount, ...without(ended, ['state']), ...byOthers];
  const refundPosted = without(transactionColumns, [...notYet, 'payment_method', 'reference']);
  areThose(refund, namesIn(cut(refund, insert, /\)/)), refundPosted);
});

test('post.sql takes what a posting sends', async () => {
  const sent: string[] = [];
  const database = {
    query: async (_: string, [input]: readonly unknown[]) => {
      const [row] = JSON.parse(input as string) as object[];
      sent.push(...Object.keys(row!));
      return [{ txn_id: payment.txnId }];
    },
  };
  const payment = aPayment(everyField);
  await openPostgresLedger(database as unknown as Database).post([bookTransferOf(payment)]);
  const taken = namesIn(cut('libs/ledger/postgres/post.sql', /AS posting \(/, /\n {2}\)/));
  // A transfer that succeeds has no failure, and no provider.
  const optional = ['failure_code', 'failure_message', 'provider'];
  areThose('requestRow in libs/ledger/postgres/payments.ts', sent, without(taken, optional));
});

test('every field that a partner may send has a column, or is one of the details', () => {
  const onTheWire = (name: string) =>
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const paymentFields = [...asked, ...amount, ...detailFields.payment.map(onTheWire)];
  const refundFields = ['amount', ...detailFields.followUp.map(onTheWire)];
  const unsaved = (fields: object, columns: readonly string[]) =>
    without(Object.keys(fields), columns);
  const mend = 'libs/ledger/columns.ts and the tables, or detailFields there';
  assert.deepEqual(unsaved(paymentRequestSchema.properties, paymentFields), [], mend);
  assert.deepEqual(unsaved(transactionContracts.refund.fields, refundFields), [], mend);
  // `schema` is the record's own, `accepted_at` is the column `created_at`.
  const own = ['schema', 'accepted_at'];
  const payment = aPayment(everyField);
  const refund = aRefund(payment, { amount: 1n, reason: 'broken' });
  const record = JSON.parse(String(encodePaymentAccepted(payment, traceparent).value)) as object;
  assert.deepEqual(unsaved(record, [...paymentFields, ...own]), [], mend);
  const other = JSON.parse(String(encodeFollowUpAccepted(refund, traceparent).value)) as object;
  assert.deepEqual(unsaved(other, [...asked, ...refundFields, ...own]), [], mend);
  const sendable = Object.keys({
    ...paymentRequestSchema.properties,
    ...transactionContracts.refund.fields,
  });
  const unsent = without(Object.values(detailFields).flat().map(onTheWire), sendable);
  assert.deepEqual(unsent, [], 'libs/ledger/columns.ts: nobody can send these details');
});

test('the ledger in Spanner and its copy name every column', (context) => {
  if (!existsSync(new URL(`../../${twin}`, import.meta.url))) return context.skip('removed');
  const schema = `${twin}/migrations/0001-baseline.sql`;
  const columns = without(columnsOfTable(schema, 'transactions'), ['changed_at']);
  areThose(schema, columns, transactionColumns);

  const copy = `${twin}/copy/copy.sql`;
  // What a customer has to do leaves the ledger for the gateway alone.
  const copied = without(transactionColumns, ['next_action']);
  const inserted = namesIn(cut(copy, /INSERT INTO ledger\.transactions AS known \(/, /\n\)/));
  areThose(`${copy}, INSERT`, inserted, copied);
  areThose(`${copy}, SELECT`, namesIn(cut(copy, /SELECT/, /FROM/)), copied);
  areThose(`${copy}, input`, namesIn(cut(copy, /AS row \(/, /\n\)/)), copied);
  const updated = cut(copy, /DO UPDATE SET/, /WHERE/)
    .split(',')
    .map((set) => set.trim().split(' ')[0]!);
  const changing = without([...amount, ...ended, ...kept], ['traceparent', 'next_action']);
  areThose(`${copy}, UPDATE`, updated, changing);

  const history = without(copied, ['due_at', 'traceparent']);
  areThose(`${copy}, findDifferent`, namesIn(cut(copy, /AS incoming \(/, /\n\)/)), history);
  const compared = without(history, ['txn_id']);
  const known = cut(copy, /WHERE \((?=\s+known\.kind)/, /\n\)/);
  areThose(`${copy}, known`, namesIn(known), compared);
  const incoming = cut(copy, /DISTINCT FROM \((?=\s+incoming\.kind)/, /\n\)/);
  areThose(`${copy}, incoming`, namesIn(incoming), compared);
});
