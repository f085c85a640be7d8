/** A nominal type over a primitive: a `TxnId` is never passed where an `EventId` belongs. */
export type Brand<Base, Name extends string> = Base & { readonly __brand: Name };

/** A partner's short name, e.g. `acme`. */
export type PartnerId = Brand<string, 'PartnerId'>;
/** The partner's `Idempotency-Key` after unquoting: 1 to 255 printable ASCII characters. */
export type IdempotencyKey = Brand<string, 'IdempotencyKey'>;
/** Lower-case UUIDv8 of a payment, or of what follows one. */
export type TxnId = Brand<string, 'TxnId'>;
/** Lower-case UUIDv8 of one event of one transaction. */
export type EventId = Brand<string, 'EventId'>;
/** Lower-case UUIDv8 of one dispute of one payment. */
export type DisputeId = Brand<string, 'DisputeId'>;
/** Lower-case UUID of one of a partner's webhook endpoints. */
export type EndpointId = Brand<string, 'EndpointId'>;
/** SHA-256 in lower-case hex over what the partner asked for. */
export type Fingerprint = Brand<string, 'Fingerprint'>;
