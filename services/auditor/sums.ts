/** The layers that a payment goes through. */
const layers = ['accepted', 'ledger', 'published', 'delivered'] as const;
type Layer = (typeof layers)[number];

/** A row of sum-everything.sql; sums come as text, because they may be larger than a bigint column. */
export type SumRow = { partner: string; currency: string } & Record<Layer, string> &
  Record<`${Layer}Count`, bigint>;

/** Sums of one partner and currency by layer, in minor units, and how many transactions they are. */
export type PartnerSums = { partner: string; currency: string } & Record<Layer, JsonInteger> & {
    counts: Record<Layer, number>;
  };

/** A number where JSON's readers take it whole, and decimal text above 2^53 − 1. */
type JsonInteger = number | string;

/** The sums as the audit shows them. */
export function renderSums(row: SumRow): PartnerSums {
  const { partner, currency, accepted, ledger, published, delivered } = row;
  return {
    partner,
    currency,
    accepted: jsonInteger(accepted),
    ledger: jsonInteger(ledger),
    published: jsonInteger(published),
    delivered: jsonInteger(delivered),
    counts: {
      accepted: Number(row.acceptedCount),
      ledger: Number(row.ledgerCount),
      published: Number(row.publishedCount),
      delivered: Number(row.deliveredCount),
    },
  };
}

/** The partners and currencies, as `partner/currency`, of which the layers do not have the same. */
export function differingSums(rows: readonly SumRow[]): string[] {
  return rows
    .filter((row) =>
      layers.some(
        (layer) => row[layer] !== row.accepted || row[`${layer}Count`] !== row.acceptedCount,
      ),
    )
    .map(({ partner, currency }) => `${partner}/${currency}`);
}

function jsonInteger(decimal: string): JsonInteger {
  const number = Number(decimal);
  return Number.isSafeInteger(number) ? number : decimal;
}
