import type { Stripe } from 'stripe';
import { renderRecord, renderRefund, type Renderable, type Rendered } from '../render/records.ts';
import type { Account } from '../store/account.ts';
import { invalidRequest } from '../wire/errors.ts';
import { refuse, took, type Read } from '../wire/params.ts';

type Kind = Renderable['kind'];

/** What can be expanded in each kind of object: https://docs.stripe.com/expand */
const expandable: Readonly<Record<Kind, Readonly<Record<string, Kind>>>> = {
  payment_intent: { latest_charge: 'charge', payment_method: 'payment_method' },
  charge: { payment_intent: 'payment_intent', refunds: 'refund' },
  refund: { charge: 'charge', payment_intent: 'payment_intent' },
  payment_method: {},
  event: {},
};

/** "Expansions have a maximum depth of four levels." */
const depthMax = 4;

/** Refuses paths that lead nowhere; for a list they begin with `data.`, and that is taken off. */
export function readExpand(
  kind: Kind,
  paths: readonly string[] | undefined,
  prefix: '' | 'data.' = '',
): Read<readonly string[][]> {
  const steps: string[][] = [];
  for (const path of paths ?? []) {
    const parts = path.startsWith(prefix) ? path.slice(prefix.length).split('.') : [];
    let at: Kind | undefined = parts.length === 0 || parts.length > depthMax ? undefined : kind;
    for (const part of parts) at = at && expandable[at][part];
    if (at === undefined) {
      const message = `This property cannot be expanded (${path}).`;
      return refuse(invalidRequest(message, { param: 'expand' }));
    }
    steps.push(parts);
  }
  return took(steps);
}

/** The record as the API shows it, with what was asked for in place of its id. */
export function renderExpanded(
  account: Account,
  record: Renderable,
  paths: readonly string[][],
): Rendered {
  const shown = renderRecord(record);
  for (const [first, ...rest] of paths) {
    if (first === undefined) continue;
    const fields = shown as unknown as Record<string, unknown>;
    const deeper = paths.filter(([each]) => each === first).map((path) => path.slice(1));
    if (first === 'refunds') fields[first] = refundsOf(account, record);
    const id = fields[first];
    const inner = typeof id === 'string' ? findById(account, id) : undefined;
    if (inner !== undefined) {
      fields[first] = renderExpanded(account, inner, rest.length > 0 ? deeper : []);
    }
  }
  return shown;
}

function refundsOf(account: Account, record: Renderable): Stripe.ApiList<Stripe.Refund> {
  const intent = record.kind === 'charge' ? record.paymentIntent : '';
  const refunds = account.refundsOf(intent).filter(({ charge }) => charge === record.id);
  const data = refunds.map(renderRefund).reverse();
  return { object: 'list', data, has_more: false, url: `/v1/charges/${record.id}/refunds` };
}

function findById(account: Account, id: string): Renderable | undefined {
  return (
    account.paymentIntents.get(id) ??
    account.charges.get(id) ??
    account.refunds.get(id) ??
    account.paymentMethods.get(id)
  );
}
