interface Promise<T> {
  /** A promise that the callback returns is waited for: TypeScript's declaration leaves it out. */
  finally(onfinally?: (() => PromiseLike<unknown>) | null): Promise<T>;
}
