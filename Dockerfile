# One image for each workspace that runs: `docker build --build-arg WORKSPACE=services/auditor .`
# It holds Node, the sources of that workspace and of the libs it imports, and the packages these need
# in production. There is no build step: Node strips the types.

FROM node:24-slim AS manifests
WORKDIR /app
COPY . .
RUN node infra/images/keep-manifests.js

# Fetches every package once for all images; each installs its own from there without a network.
# Optional packages are PostgreSQL's programs for the launcher, which no container starts.
FROM node:24-slim AS fetched
WORKDIR /app
COPY --from=manifests /app .
RUN npm ci --omit=dev --omit=optional --ignore-scripts && rm -r node_modules

FROM fetched AS packages
ARG WORKSPACE
RUN npm ci --offline --omit=dev --omit=optional --ignore-scripts --workspace="$WORKSPACE" \
 && find . -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' \
                      -o -name '*.md' \) -path '*/node_modules/*' -delete

FROM node:24-slim AS sources
WORKDIR /app
COPY . .
COPY --from=packages /app /packages
RUN node infra/images/keep-sources.js /packages

FROM node:24-slim
# Where volumes are mounted: an empty one takes over who owns the folder.
RUN cd /run && install -d -o node -g node /data credentials triplock \
    wiring/ingest-gateway wiring/ledger-worker wiring/outbox-dispatcher wiring/partner-notifier \
    wiring/settlement-feed wiring/auditor wiring/stripe-simulator wiring/catcher wiring/k6
# Packages first: they change less often than sources, and what did not change is not sent again.
COPY --from=packages /app /app
COPY --from=sources /app /app
COPY infra/images/ask-ready.js /app/
ARG WORKSPACE
WORKDIR /app/$WORKSPACE
ENV NODE_ENV=production
USER node
# kafkajs computes a negative timer on newer Nodes; harmless, and only noise in the log.
ENV NODE_OPTIONS=--disable-warning=TimeoutNegativeWarning
CMD ["node", "main.ts"]
