import { deriveEventId } from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import { add, alter, change, paid, refund, refundOfPaid, remove } from '@triplock/testing/test';
import {
  aCardScene,
  bookAtProvider,
  captured,
  card,
  disputed,
  type CardPart,
  type Harm,
  type Rows,
} from './harm.ts';
import type { System } from './whole-system.ts';

/** Harms the rows of both a payment and a refund, one at a time. */
const both = (harmOf: (rows: Rows) => Harm) => [harmOf(paid), harmOf(refund)];
const ledger = (column: string, value: string, rows: Rows, along?: string) =>
  change(`ledger.transactions.${column}`, value, rows, along);
const journal = (column: string, value: string, of: CardPart, named?: CardPart) =>
  change(`auditor.provider_journal.${column}`, value, card(of, named));

/** A card payment that the provider has, and that is not for us to finish. */
async function aCardThatWaits(system: System, waitsFor: 'customer' | 'bank' | 'partner') {
  const card = aPayment({ paymentMethod: 'pm_card_visa' });
  await system.begin(card);
  await system.askOutside(card, waitsFor);
  return card;
}
/** One of which the ledger has noted that, and until when, and `named` as an audit names it. */
export const askedCard = (named: 'transaction' | 'event' = 'transaction'): Rows => ({
  by: 'txn_id',
  find: async ({ system }) => {
    const { txnId } = await aCardThatWaits(system, 'customer');
    const event = await system.awaitCustomer(txnId);
    return { key: txnId, id: named === 'event' ? event.event_id : txnId };
  },
});
const waitingCard: Rows = {
  by: 'txn_id',
  find: async ({ system }) => {
    const { txnId } = await aCardThatWaits(system, 'customer');
    return { key: txnId, id: txnId };
  },
};

/** For every check of transactions some things that it exists to see. */
const harmsToTransactions: Record<string, readonly Harm[]> = {
  'ledger-not-accepted': [
    add('ledger.transactions', async ({ system }) => {
      const invented = aPayment();
      await system.post(invented);
      return invented.txnId;
    }),
    add('ledger.transactions', async ({ system, paid }) => {
      const invented = aRefund(paid);
      await system.postRefund(invented, 3);
      return invented.txnId;
    }),
    ...both((rows) => change('auditor.accepted.txn_id', 'gen_random_uuid()', rows)),
    ...both((rows) => change('auditor.accepted.fingerprint', `sha256('')`, rows)),
  ],
  'ledger-unfinished': [
    {
      async harm({ system }) {
        const pending = aPayment();
        await system.begin(pending);
        return pending.txnId;
      },
    },
    {
      async harm({ system }) {
        const early = aRefund(aPayment());
        await system.beginRefund(early);
        return early.txnId;
      },
    },
    // The customer has acted, and the workers have not seen it.
    {
      async harm({ system }) {
        const { txnId } = await aCardThatWaits(system, 'customer');
        const acted = `UPDATE auditor.provider_journal SET status = 'succeeded', waits_for = NULL`;
        await system.break(`${acted} WHERE txn_id = $1`, [txnId]);
        return txnId;
      },
    },
    ...both((rows) => ledger('state', `'pending'`, rows, 'settled_at = NULL, due_at = now()')),
    change('auditor.provider_journal.waits_for', 'NULL', waitingCard),
  ],
  'told-otherwise': [
    {
      of: 'ledger.told.adopted_at',
      async harm({ system, refund }) {
        const event = deriveEventId(refund.txnId, 'refund.failed');
        const told = `
          INSERT INTO ledger.told
            (event_id, event_type, txn_id, payment_id, sequence, happened_at, state)
          VALUES ($1, 'refund.failed', $2, $3, 9, now(), 'failed')`;
        await system.break(told, [event, refund.txnId, refund.paymentId]);
        return event;
      },
    },
  ],
  'card-unfinished': [
    { harm: async ({ system }) => (await aCardThatWaits(system, 'customer')).txnId },
    {
      async harm({ system }) {
        const behind = aRefund(await aCardThatWaits(system, 'customer'));
        await system.beginRefund(behind);
        return behind.txnId;
      },
    },
  ],
  'partner-unfinished': [
    { harm: async ({ system }) => (await aCardThatWaits(system, 'partner')).txnId },
  ],
  'bank-unfinished': [{ harm: async ({ system }) => (await aCardThatWaits(system, 'bank')).txnId }],
  'ledger-history-changed': [
    add('ledger.copy_differences', async ({ system, paid }) => {
      const differs = `INSERT INTO ledger.copy_differences (kind, id) VALUES ('transaction', $1)`;
      await system.break(differs, [paid.txnId]);
      return `transaction ${paid.txnId}`;
    }),
  ],
  'ledger-differs-from-accepted': [
    ledger('kind', `'order'`, paid),
    ledger('partner_id', `'globex'`, paid),
    ledger('amount', 'amount + 1', paid),
    ledger('currency', `'USD'`, paid),
    ledger('payment_id', 'gen_random_uuid()', refund),
    ledger('requested_amount', 'NULL', refund),
    ledger('amount', 'amount + 1', refund),
    ledger('payment_method', `'pm_card_visa'`, paid),
    ledger('reference', `'another'`, paid),
    ...both((rows) => ledger('details', `'{}'`, rows)),
    ...both((rows) => ledger('response_version', 'response_version + 1', rows)),
    ...both((rows) => ledger('created_at', `created_at + interval '1 ms'`, rows)),
    change('auditor.accepted.kind', `'order'`, paid),
    change('auditor.accepted.partner_id', `'globex'`, refund),
    change('auditor.accepted.payment_id', 'gen_random_uuid()', refund),
    change('auditor.accepted.currency', `'USD'`, paid),
    ...both((rows) => change('auditor.accepted.amount', 'amount + 1', rows)),
    ...both((rows) => change('auditor.accepted.rest', `sha256('')`, rows)),
  ],
  'ledger-id-underived': [
    ...both((rows) => ledger('idempotency_key', 'gen_random_uuid()', rows)),
    change('ledger.disputes.id', 'gen_random_uuid()', disputed('ledger', 'dispute')),
    change('ledger.disputes.partner_id', `'globex'`, disputed('ledger', 'dispute')),
  ],
  'entry-differs-from-ledger': [
    ...both((rows) => remove('ledger.entries', rows)),
    ...both((rows) => change('ledger.entries.txn_id', 'gen_random_uuid()', rows)),
    ...both((rows) => change('ledger.entries.amount', 'amount + 1', rows)),
    ...both((rows) => change('ledger.entries.currency', `'USD'`, rows)),
    ...both((rows) => change('ledger.entries.debit_account', `'globex:payable'`, rows)),
    ...both((rows) => change('ledger.entries.credit_account', `'globex:payable'`, rows)),
    // The money goes the wrong way.
    ...both((rows) =>
      alter(
        'UPDATE ledger.entries SET debit_account = credit_account, credit_account = debit_account',
        rows,
      ),
    ),
    add('ledger.entries', async ({ system }) => {
      const declined = aPayment();
      await system.decline(declined);
      await system.break(
        `INSERT INTO ledger.entries (txn_id, debit_account, credit_account, amount, currency)
         VALUES ($1, 'acme:clearing', 'acme:payable', 1250, 'EUR')`,
        [declined.txnId],
      );
      return declined.txnId;
    }),
    ledger('provider', `'another'`, card('paid')),
  ],
  'refunded-differs-from-refunds': [
    ledger('amount_refunded', 'amount_refunded - 1', paid),
    ledger('refund_reserved', 'refund_reserved + 1', paid),
    ledger('amount', 'amount + 1', refundOfPaid),
  ],
  'captured-differs-from-captures': [
    ledger('amount_captured', 'amount_captured - 1', captured()),
    ledger('closed_by', 'NULL', captured()),
    ledger('closed_by', 'gen_random_uuid()', captured()),
    ledger('authorized_at', 'NULL', captured(), 'closed_by = NULL'),
    ledger('amount', 'amount - 1', captured('capture')),
    ledger('kind', `'cancellation'`, captured('capture')),
    ledger('state', `'canceled'`, captured(), `failure_code = 'x', amount_captured = NULL`),
  ],
  'refund-unfounded': [
    ledger('payment_id', 'gen_random_uuid()', refund),
    ledger('currency', `'USD'`, refund),
    ledger('partner_id', `'globex'`, refund),
  ],
  'events-differ-from-settled': [
    ledger('events', 'events + 1', paid),
    ledger('events', 'events - 1', paid),
    ledger('action_expires_at', 'now()', paid),
    ledger('action_expires_at', 'NULL', askedCard()),
    add('ledger.disputes', async ({ system, paid }) => {
      const invented = `INSERT INTO ledger.disputes
          (txn_id, dispute_id, id, partner_id, sequence, amount, reason)
        VALUES ($1, 'du-1', gen_random_uuid(), 'acme', 9, 1, 'general')`;
      await system.break(invented, [paid.txnId]);
      return paid.txnId;
    }),
    remove('ledger.disputes', disputed('ledger', 'payment')),
    change('ledger.disputes.txn_id', 'gen_random_uuid()', disputed('ledger', 'payment')),
    ledger('authorized_at', 'now()', paid),
    ledger('payment_id', 'gen_random_uuid()', refundOfPaid),
    ledger('payment_id', 'gen_random_uuid()', captured('capture')),
  ],
};

const failed = `failure_code = 'declined'`;

/** For every check of what the provider has some things that it exists to see. */
const harmsAtProvider: Record<string, readonly Harm[]> = {
  'charged-twice': [
    {
      async harm({ system }) {
        const { paid, intentId } = await aCardScene(system);
        await bookAtProvider(system, { kind: 'charge', of: paid, intentId });
        return paid.txnId;
      },
    },
  ],
  'charge-unfounded': [
    add('auditor.provider_journal', ({ system }) =>
      bookAtProvider(system, { kind: 'charge', of: aPayment(), intentId: 'pi-1' }),
    ),
    journal('intent_id', `'pi-2'`, 'chargeId'),
    journal('provider', `'elsewhere'`, 'chargeId'),
    alter(
      `UPDATE auditor.provider_journal SET intent_id = 'pi-2', status = 'failed'`,
      card('chargeId'),
    ),
    remove('ledger.transactions', card('paid', 'chargeId')),
    ledger('provider_intent_id', `'pi-5'`, card('paid', 'chargeId')),
  ],
  'charge-differs-from-ledger': [
    journal('amount', 'amount + 1', 'chargeId'),
    journal('currency', `'USD'`, 'chargeId'),
    journal('partner_id', `'globex'`, 'chargeId'),
    change('auditor.provider_journal.id', `'ch-elsewhere'`, {
      ...card('chargeId'),
      find: async (scene) => ({ ...(await card('chargeId').find(scene)), id: 'ch-elsewhere' }),
    }),
    ledger('provider_charge_id', `'ch-1'`, card('paid', 'chargeId')),
  ],
  'payment-contradicts-provider': [
    add('auditor.provider_journal', ({ system }) =>
      bookAtProvider(system, { kind: 'intent', of: aPayment(), intentId: 'pi-3' }),
    ),
    ledger('state', `'failed'`, card('paid'), failed),
    ledger('state', `'canceled'`, card('paid'), failed),
  ],
  'payment-differs-from-provider': [
    remove('auditor.provider_journal', card('chargeId', 'paid')),
    journal('status', `'failed'`, 'chargeId', 'paid'),
    journal('kind', `'refund'`, 'chargeId', 'paid'),
    journal('txn_id', 'gen_random_uuid()', 'chargeId', 'paid'),
  ],
  'given-back-twice': [
    {
      async harm({ system }) {
        const { refund, intentId } = await aCardScene(system);
        await bookAtProvider(system, { kind: 'refund', of: refund, intentId, amount: 250 });
        return refund.txnId;
      },
    },
  ],
  'given-back-unfounded': [
    alter('UPDATE auditor.provider_journal SET txn_id = NULL, partner_id = NULL', card('refundId')),
    journal('intent_id', `'pi-4'`, 'refundId'),
    remove('ledger.transactions', card('refund', 'refundId')),
  ],
  'given-back-differs-from-ledger': [
    journal('amount', 'amount + 1', 'refundId'),
    journal('currency', `'USD'`, 'refundId'),
    ledger('provider_refund_id', `'re-1'`, card('refund', 'refundId')),
    ledger('provider_refund_id', 'NULL', card('refund', 'refundId')),
  ],
  'given-back-otherwise': [
    remove('auditor.provider_journal', card('refundId', 'refund')),
    journal('status', `'failed'`, 'refundId', 'refund'),
    journal('status', `'pending'`, 'refundId', 'refund'),
    ledger('state', `'failed'`, card('refund'), failed),
  ],
  'dispute-untold': [
    add('auditor.provider_journal', async ({ system }) => {
      const { paid, intentId } = await aCardScene(system);
      return bookAtProvider(system, { kind: 'dispute', of: paid, intentId });
    }),
    journal('kind', `'dispute'`, 'refundId'),
    remove('ledger.disputes', disputed('ledger', 'dispute')),
    change('ledger.disputes.txn_id', 'gen_random_uuid()', disputed('ledger', 'dispute')),
    change('ledger.disputes.dispute_id', `'du-1'`, disputed('ledger', 'dispute')),
    change('auditor.provider_journal.intent_id', `'pi-6'`, disputed('provider', 'dispute')),
  ],
  'dispute-unfounded': [
    change('ledger.disputes.txn_id', 'gen_random_uuid()', disputed('ledger', 'dispute')),
    remove('auditor.provider_journal', disputed('provider', 'dispute')),
    change('auditor.provider_journal.intent_id', `'pi-7'`, disputed('provider', 'dispute')),
  ],
  'dispute-differs-from-ledger': [
    change('ledger.disputes.amount', 'amount + 1', disputed('ledger', 'dispute')),
    change('auditor.provider_journal.amount', 'amount + 1', disputed('provider', 'dispute')),
    change('auditor.provider_journal.currency', `'USD'`, disputed('provider', 'dispute')),
  ],
  'dispute-ended-otherwise': [
    remove('ledger.dispute_ends', disputed('ledger', 'dispute')),
    change('ledger.dispute_ends.ended', `'won'`, disputed('ledger', 'dispute')),
    change('ledger.dispute_ends.txn_id', 'gen_random_uuid()', disputed('ledger', 'dispute')),
    change('ledger.dispute_ends.dispute_id', `'du-4'`, disputed('ledger', 'dispute')),
    change('auditor.provider_journal.status', `'failed'`, disputed('provider', 'dispute')),
    add('ledger.dispute_ends', async (scene) => {
      const { system } = scene;
      const { key } = await disputed('ledger', 'dispute').find(scene);
      // It is open, at the provider too, until somebody says that it is won.
      await system.break('DELETE FROM ledger.dispute_ends WHERE dispute_id = $1', [key]);
      const open = `UPDATE auditor.provider_journal SET status = 'pending' WHERE id = $1`;
      await system.break(open, [key]);
      await system.break(
        `INSERT INTO ledger.dispute_ends (txn_id, dispute_id, ended)
         SELECT txn_id, dispute_id, 'won' FROM ledger.disputes WHERE dispute_id = $1`,
        [key],
      );
      return key;
    }),
  ],
};

export const harmsToLedger = { ...harmsToTransactions, ...harmsAtProvider };
