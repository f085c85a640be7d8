/** The layers that a payment goes through. */
const layers = ['accepted', 'ledger', 'published', 'delivered'] as const;
type Layer = (typeof layers)[number];

/** A row of sum-everything.sql; sums come as text, because they may be larger than a bigint column. */
export type SumRow = { partner: string; currency: string } & Record<Layer, string> &
  Record<`${Layer}Count`, bigint>;

/**
 * Transactions in one layer: how many, and their amounts in minor units; a number where JSON's
 * readers take it whole, and decimal text above 2^53 − 1.
 */
export type LayerSum = { count: number; amount: number | string };

/** What the layers have of one partner and currency. */
export type PartnerSums = { partner: string; currency: string } & Record<Layer, LayerSum>;

/** The sums as the audit shows them. */
export function renderSums(row: SumRow): PartnerSums {
  const layer = (name: Layer) => ({
    count: Number(row[`${name}Count`]),
    amount: jsonInteger(row[name]),
  });
  return {
    partner: row.partner,
    currency: row.currency,
    accepted: layer('accepted'),
    ledger: layer('ledger'),
    published: layer('published'),
    delivered: layer('delivered'),
  };
}

/** The partners and currencies, as `partner/currency`, of which the layers do not have the same. */
export function differingSums(rows: readonly SumRow[]): string[] {
  const isOff = (row: SumRow) =>
    layers.some(
      (layer) => row[layer] !== row.accepted || row[`${layer}Count`] !== row.acceptedCount,
    );
  return rows.filter(isOff).map(({ partner, currency }) => `${partner}/${currency}`);
}

function jsonInteger(decimal: string): number | string {
  const number = Number(decimal);
  return Number.isSafeInteger(number) ? number : decimal;
}
