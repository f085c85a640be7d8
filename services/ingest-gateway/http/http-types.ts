import type { PartnerId } from '@triplock/payments';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whose API key the request carries. Empty on routes with `config: { access: 'public' }`. */
    partnerId: PartnerId;
  }
  interface FastifyContextConfig {
    /** `public`: needs no API key. Every other route answers 401 without one. */
    access?: 'public';
  }
}
