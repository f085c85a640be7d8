/** What a log may say of a provider's error: neither keys nor cards nor secrets. */
export class ProviderError extends Error {
  override name = 'ProviderError';
  readonly type: string;
  readonly code: string | undefined;
  readonly statusCode: number | undefined;
  readonly requestId: string | undefined;
  constructor(told: {
    type: string;
    code: string | undefined;
    statusCode: number | undefined;
    requestId: string | undefined;
  }) {
    super([told.type, told.code, told.statusCode].filter((each) => each !== undefined).join(' '));
    this.type = told.type;
    this.code = told.code;
    this.statusCode = told.statusCode;
    this.requestId = told.requestId;
  }
}
