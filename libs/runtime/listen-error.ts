/**
 * Says in one sentence why a server could not listen and which setting to change. Errors that are
 * not about the port come back as they are.
 */
export function explainListenError(error: Error, variable: string): Error {
  const { code, address, port } = error as NodeJS.ErrnoException & {
    address?: string;
    port?: number;
  };
  if (code === 'EADDRINUSE') {
    return new Error(`port ${port} on ${address} is taken: free it or set ${variable} to another`);
  }
  if (code === 'EACCES') {
    return new Error(
      `port ${port} on ${address} is not allowed: set ${variable} to one above 1023`,
    );
  }
  return error;
}
