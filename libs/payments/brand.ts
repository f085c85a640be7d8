/** A nominal type over a primitive: a `TxnId` is never passed where an `EventId` belongs. */
export type Brand<Base, Name extends string> = Base & { readonly __brand: Name };
