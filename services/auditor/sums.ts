/** The layers in which each figure must be the same. */
const layersOf = {
  payments: ['accepted', 'ledger', 'published', 'delivered'],
  gross: ['ledger', 'published', 'delivered'],
  refunds: ['ledger', 'published', 'delivered'],
  charged: ['ledger', 'provider'],
  givenBack: ['ledger', 'provider'],
} as const;
type Figures = typeof layersOf;
type Figure = keyof Figures;
const figures = Object.keys(layersOf) as Figure[];

/** A row of sum-everything.sql; counts and sums come as text, because they may be large. */
export type SumRow = {
  partner: string;
  currency: string;
  figure: string;
  layer: string;
  count: string;
  amount: string;
};

/**
 * Transactions in one layer: how many, and their amounts in minor units; a number where JSON's
 * readers take it whole, and decimal text above 2^53 − 1.
 */
export type LayerSum = { count: number; amount: number | string };

/**
 * What the layers have of one partner and currency: first of its payments, whatever became of them.
 * What a partner does not want any more counts as delivered here.
 */
export type PartnerSums = Record<Figures['payments'][number], LayerSum> & {
  partner: string;
  currency: string;
  /** Payments that succeeded. */
  gross: Record<Figures['gross'][number], LayerSum>;
  /** What of them was given back. */
  refunds: Record<Figures['refunds'][number], LayerSum>;
  /** The one without the other, as the ledger has it; minor units. */
  net: number | string;
  /** The part of the gross that was charged to cards, and of the refunds that went back to them. */
  cards: {
    charged: Record<Figures['charged'][number], LayerSum>;
    givenBack: Record<Figures['givenBack'][number], LayerSum>;
  };
};

/** The sums as the audit shows them. */
export function renderSums(rows: readonly SumRow[]): PartnerSums[] {
  return byPartner(rows).map(({ partner, currency, sumOf }) => {
    const show = <Of extends Figure>(figure: Of) =>
      Object.fromEntries(
        layersOf[figure].map((layer) => {
          const { count, amount } = sumOf(figure, layer);
          return [layer, { count: Number(count), amount: jsonInteger(amount) }];
        }),
      ) as Record<Figures[Of][number], LayerSum>;
    const net = sumOf('gross', 'ledger').amount - sumOf('refunds', 'ledger').amount;
    return {
      ...{ partner, currency, ...show('payments') },
      ...{ gross: show('gross'), refunds: show('refunds'), net: jsonInteger(net) },
      cards: { charged: show('charged'), givenBack: show('givenBack') },
    };
  });
}

/**
 * The partners and currencies, as `partner/currency`, of which the layers do not have the same. The
 * provider is one of them only when it was asked.
 */
export function differingSums(
  rows: readonly SumRow[],
  { withProvider }: { withProvider: boolean },
): string[] {
  const compared = figures.filter((each) => withProvider || !isOfProvider(each));
  return byPartner(rows)
    .filter(({ sumOf }) => compared.some((figure) => isOff(figure, sumOf)))
    .map(({ partner, currency }) => `${partner}/${currency}`);
}

function isOfProvider(figure: Figure): boolean {
  return layersOf[figure].some((layer) => layer === 'provider');
}

function isOff(figure: Figure, sumOf: PartnerRows['sumOf']): boolean {
  const [first, ...others] = layersOf[figure].map((layer) => sumOf(figure, layer));
  return others.some(({ count, amount }) => count !== first!.count || amount !== first!.amount);
}

type Sum = { count: bigint; amount: bigint };
type PartnerRows = {
  partner: string;
  currency: string;
  /** Zero where the layer has nothing of it. */
  sumOf(figure: string, layer: string): Sum;
};

function byPartner(rows: readonly SumRow[]): PartnerRows[] {
  const groups = Map.groupBy(rows, ({ partner, currency }) => `${partner}/${currency}`);
  return [...groups.values()].map((group) => {
    const sums = new Map(
      group.map(({ figure, layer, count, amount }) => {
        return [`${figure}/${layer}`, { count: BigInt(count), amount: BigInt(amount) }];
      }),
    );
    const { partner, currency } = group[0]!;
    const none = { count: 0n, amount: 0n };
    return { partner, currency, sumOf: (figure, layer) => sums.get(`${figure}/${layer}`) ?? none };
  });
}

function jsonInteger(exact: bigint): number | string {
  const number = Number(exact);
  return Number.isSafeInteger(number) ? number : String(exact);
}
