/** Throws unless the URL answers 200 within 3 s. */
export async function probeHttp(url: string): Promise<void> {
  const response = await fetch(url, { signal: AbortSignal.timeout(3_000) });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`${url} answers ${response.status} ${body}`);
}
