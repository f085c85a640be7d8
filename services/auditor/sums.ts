import type { Unread } from './checks.ts';

/**
 * Where each figure must be the same: in every one of these together. What waits for a customer,
 * its partner or a bank (`unfinished`) has no event yet, and what waits for a partner's endpoint
 * (`undelivered`)
 * is not delivered.
 */
const layersOf = {
  payments: [
    ['accepted'],
    ['ledger'],
    ['published', 'unfinished'],
    ['delivered', 'undelivered', 'unfinished'],
  ],
  gross: [['ledger'], ['published'], ['delivered', 'undelivered']],
  refunds: [['ledger'], ['published'], ['delivered', 'undelivered']],
  charged: [['ledger'], ['provider']],
  givenBack: [['ledger'], ['provider']],
} as const;
type Figures = typeof layersOf;
type Figure = keyof Figures;
const figures = Object.keys(layersOf) as Figure[];

/** What a figure is shown of. */
type Layer<Of extends Figure> = Figures[Of][number][number];
const layersShown = <Of extends Figure>(figure: Of) =>
  [...new Set(layersOf[figure].flat())] as Layer<Of>[];

/** A row of windows.sql; counts and sums come as text, because they may be large. */
export type SumRow = {
  /** Whose charges and refunds they are; absent or null of what no provider has. */
  provider?: string | null;
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
 */
export type PartnerSums = Record<Layer<'payments'>, LayerSum> & {
  partner: string;
  currency: string;
  /** Payments that succeeded. */
  gross: Record<Layer<'gross'>, LayerSum>;
  /** What of them was given back. */
  refunds: Record<Layer<'refunds'>, LayerSum>;
  /** The one without the other, as the ledger has it; minor units. */
  net: number | string;
  /** The part of the gross that was charged to cards, and of the refunds that went back to them. */
  cards: {
    charged: Record<Layer<'charged'>, LayerSum>;
    givenBack: Record<Layer<'givenBack'>, LayerSum>;
  };
};

/** Sums of several windows of time, or of what they have too much of, in one. */
export function addSums(rows: readonly SumRow[]): SumRow[] {
  const groups = Map.groupBy(rows, keyOf).values();
  return [...groups].map((group) => {
    const total = (of: 'count' | 'amount') =>
      String(group.reduce((sum, row) => sum + BigInt(row[of]), 0n));
    return { ...group[0]!, count: total('count'), amount: total('amount') };
  });
}

/** Of which figures, as `figure/layer/partner/currency`, two have not the same. */
export function differingKeys(some: readonly SumRow[], others: readonly SumRow[]): string[] {
  const negative = others.map(({ count, amount, ...row }) => {
    return { ...row, count: String(-BigInt(count)), amount: String(-BigInt(amount)) };
  });
  return addSums([...some, ...negative])
    .filter(({ count, amount }) => count !== '0' || amount !== '0')
    .map(keyOf);
}

const keyOf = ({ figure, layer, partner, currency, provider }: SumRow) =>
  `${figure}/${layer}/${partner}/${currency}${provider == null ? '' : `/${provider}`}`;

/** The sums as the audit shows them. */
export function renderSums(rows: readonly SumRow[]): PartnerSums[] {
  return byPartner(rows).map(({ partner, currency, sumOf }) => {
    const show = <Of extends Figure>(figure: Of) =>
      Object.fromEntries(
        layersShown(figure).map((layer) => {
          const { count, amount } = sumOf(figure, layer);
          return [layer, { count: Number(count), amount: jsonInteger(amount) }];
        }),
      ) as Record<Layer<Of>, LayerSum>;
    const net = sumOf('gross', 'ledger').amount - sumOf('refunds', 'ledger').amount;
    return {
      partner,
      currency,
      ...show('payments'),
      gross: show('gross'),
      refunds: show('refunds'),
      net: jsonInteger(net),
      cards: { charged: show('charged'), givenBack: show('givenBack') },
    };
  });
}

/**
 * The partners and currencies, as `partner/currency`, of which the layers do not have the same: of
 * each provider by itself, but for those that could not be asked.
 */
export function differingSums(rows: readonly SumRow[], { unread }: { unread: Unread }): string[] {
  const compared = rows.filter(({ provider }) => provider == null || !unread.includes(provider));
  const differing = [...Map.groupBy(compared, ({ provider }) => provider ?? null).values()].flatMap(
    (ofOne) => byPartner(ofOne).filter(({ sumOf }) => figures.some((each) => isOff(each, sumOf))),
  );
  const names = differing.map(({ partner, currency }) => `${partner}/${currency}`);
  return [...new Set(names)].toSorted();
}

function isOff(figure: Figure, sumOf: PartnerRows['sumOf']): boolean {
  const [first, ...others] = layersOf[figure].map((layers) =>
    layers.map((layer) => sumOf(figure, layer)).reduce(together),
  );
  return others.some(({ count, amount }) => count !== first!.count || amount !== first!.amount);
}

function together(one: Sum, other: Sum): Sum {
  return { count: one.count + other.count, amount: one.amount + other.amount };
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
  const sorted = [...groups].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return sorted.map(([, group]) => {
    const none = { count: 0n, amount: 0n };
    const sums = new Map<string, Sum>();
    for (const { figure, layer, count, amount } of group) {
      const name = `${figure}/${layer}`;
      const row = { count: BigInt(count), amount: BigInt(amount) };
      sums.set(name, together(sums.get(name) ?? none, row));
    }
    const { partner, currency } = group[0]!;
    return { partner, currency, sumOf: (figure, layer) => sums.get(`${figure}/${layer}`) ?? none };
  });
}

function jsonInteger(exact: bigint): number | string {
  const number = Number(exact);
  return Number.isSafeInteger(number) ? number : String(exact);
}
