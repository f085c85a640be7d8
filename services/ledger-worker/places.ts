/** Who wants to ask the provider: a batch that waits for it, or the resolver. */
export type Asker = 'batch' | 'resolver';

/** A bound on how many transactions are at the provider at once. */
export type Places = {
  /**
   * Waits for a place. Where both askers wait they get places in turn, so that neither a busy topic
   * nor a long backlog keeps the other from its work.
   */
  take(asker: Asker): Promise<void>;
  /** Takes up to `wanted` more at once, of those that are free and that nobody waits for. */
  takeFree(wanted: number): number;
  /** Gives one back, to the next who waits. */
  giveBack(): void;
  /** How many could be taken at once. */
  free(): number;
};

/** Opens places; `placesMax` are all there are. */
export function openPlaces(placesMax: number): Places {
  const waiting: Record<Asker, (() => void)[]> = { batch: [], resolver: [] };
  let taken = 0;
  let last: Asker = 'resolver';
  const next = () => {
    const [other, same] =
      last === 'batch' ? (['resolver', 'batch'] as const) : (['batch', 'resolver'] as const);
    const asker = waiting[other].length > 0 ? other : same;
    const granted = waiting[asker].shift();
    if (granted !== undefined) last = asker;
    return granted;
  };
  const takeFree = (wanted: number) => {
    const some = Math.max(0, Math.min(wanted, placesMax - taken));
    taken += some;
    return some;
  };
  return {
    take: (asker) => {
      if (takeFree(1) === 1) return Promise.resolve();
      return new Promise((granted) => void waiting[asker].push(granted));
    },
    takeFree,
    giveBack: () => {
      // The place passes on and stays taken.
      const granted = next();
      if (granted === undefined) taken -= 1;
      else granted();
    },
    free: () => placesMax - taken,
  };
}
