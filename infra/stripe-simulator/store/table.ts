/** Records of one kind by id, in the order in which they were first put in. */
export type Table<Row extends { readonly id: string }> = {
  get(id: string): Row | undefined;
  put(row: Row): void;
  /** From the newest to the oldest. */
  newestFirst(): Iterable<Row>;
  /** From the newest that is older than this one. */
  olderThan(id: string): Iterable<Row>;
  /** From the oldest that is newer than this one to the newest. */
  newerThan(id: string): Iterable<Row>;
  oldestFirst(): Iterable<Row>;
  size(): number;
  clear(): void;
};

/** An empty table. Pages cost what they show, not what the table holds. */
export function createTable<Row extends { readonly id: string }>(): Table<Row> {
  const places = new Map<string, number>();
  let rows: Row[] = [];

  function* down(from: number) {
    for (let place = from; place >= 0; place -= 1) yield rows[place]!;
  }
  function* up(from: number) {
    for (let place = from; place < rows.length; place += 1) yield rows[place]!;
  }
  return {
    get: (id) => rows[places.get(id) ?? -1],
    put(row) {
      const place = places.get(row.id) ?? rows.length;
      places.set(row.id, place);
      rows[place] = row;
    },
    newestFirst: () => down(rows.length - 1),
    olderThan: (id) => down((places.get(id) ?? 0) - 1),
    newerThan: (id) => up((places.get(id) ?? rows.length) + 1),
    oldestFirst: () => up(0),
    size: () => rows.length,
    clear() {
      places.clear();
      rows = [];
    },
  };
}
