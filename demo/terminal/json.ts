/** JSON of a value that may hold amounts: bigints, which JSON lacks, all of ours below 2^53. */
export function toJson(value: unknown, indent?: number): string {
  const plain = (_name: string, each: unknown) => (typeof each === 'bigint' ? Number(each) : each);
  return JSON.stringify(value, plain, indent);
}
