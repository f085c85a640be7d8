import type { TxnId } from '@triplock/payments';

/** Ids that were seen, so compactly that one which was not is at times taken for one that was. */
export type KeyFilter = {
  add(id: TxnId): void;
  /** False: it was certainly not added. */
  mayHave(id: TxnId): boolean;
};

/**
 * As many as seven hexadecimal digits number, which are 32 MiB. With ten million ids in it, one of
 * 3 000 others is taken for one of them; with 86 million, a thousand payments a second for a day,
 * one of four.
 */
const bits = 16 ** 7;

/**
 * A Bloom filter of four bits for each id, of one size however many there are: what it costs when
 * there are too many is a question about an id that need not be asked, and never a wrong answer.
 */
export function openKeyFilter(): KeyFilter {
  const words = new Uint32Array(bits / 32);
  return {
    add(id) {
      for (const bit of bitsOf(id)) words[bit >>> 5]! |= 1 << (bit & 31);
    },
    mayHave: (id) => bitsOf(id).every((bit) => (words[bit >>> 5]! & (1 << (bit & 31))) !== 0),
  };
}

/**
 * An id is a hash already: seven digits for each bit, without its version and its variant (RFC
 * 9562), which begin its third and its fourth group.
 */
function bitsOf(id: TxnId): number[] {
  const digits = [
    id.slice(0, 7),
    id.slice(9, 13) + id.slice(15, 18),
    id.slice(20, 23) + id.slice(24, 28),
    id.slice(28, 35),
  ];
  return digits.map((seven) => Number.parseInt(seven, 16));
}
