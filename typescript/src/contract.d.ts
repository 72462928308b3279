// Made from openapi/openapi.yaml by contract_types.py.

export interface paths {
  "/system/health": {
    /** Liveness, readiness and startup checks */
    get: {
      parameters: { query?: { type?: "liveness" | "readiness" | "startup"; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Health"]; };
        };
        400: components["responses"]["Problem"];
        503: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Health"]; };
        };
      };
    };
  };
  "/system/info": {
    /** Build information */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { appVersion: string; pythonVersion: string; tenancy: "single" | "multi"; }; };
        };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/system/metrics": {
    /** Counts and durations, for Prometheus */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": string; }; };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/system/audit": {
    /** Who did what, newest first; for administrators */
    get: {
      parameters: {
        query?: {
          /** Name of an account. */
          actor?: string;
          /** Such as `POST /datasets`, or `push`. */
          action?: string;
          /** A dataset id. */
          dataset?: string;
          since?: string;
          until?: string;
          /** The `next` of the page before. */
          before?: number;
          limit?: number;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { deeds: components["schemas"]["AuditEntry"][]; next: number | null; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
      };
    };
  };
  "/schemas": {
    /** Schemas of the manifests */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: string }; }; };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/schemas/{kind}.json": {
    /** JSON Schema of one kind of manifest */
    get: {
      parameters: { path: { kind: "MetadataBlock" | "MetadataEvent" | "DatasetSnapshot"; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/schema+json": { [name: string]: unknown }; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/info": {
    /** Tenancy of the node */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { isMultiTenant: boolean; }; }; };
      };
    };
  };
  "/accounts/me": {
    /** Account of the token */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { id: components["schemas"]["Did"]; accountName: string; }; };
        };
        401: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/me/tokens": {
    /** One's own tokens, without their secrets */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { tokens: components["schemas"]["AccessToken"][]; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
      };
    };
    /** Make a token for oneself */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/json": {
            label?: string;
            scopes?: ("read" | "write" | "create" | "manage")[] | null;
            expiresAt?: string | null;
            /** Id or name of the only dataset it is for */
            dataset?: string | null;
            ownDatasetsOnly?: boolean;
          };
        };
      };
      responses: {
        201: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["AccessToken"] & { token: string; account: string; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/me/tokens/{id}": {
    /** Revoke one of one's own tokens */
    delete: {
      parameters: { path: { id: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}/disabled": {
    /** Disable an account */
    put: {
      parameters: { path: { name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
      };
    };
    /** Enable an account again */
    delete: {
      parameters: { path: { name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}/admin": {
    /** Make an account an administrator */
    put: {
      parameters: { path: { name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
      };
    };
    /** Make an administrator a user again */
    delete: {
      parameters: { path: { name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}/name": {
    /** Rename an account */
    put: {
      parameters: { path: { name: string; }; };
      requestBody: { content: { "application/json": { name: string; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { id: components["schemas"]["Did"]; accountName: string; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}/quota": {
    /** What the datasets of an account take and may take */
    get: {
      parameters: { path: { name: string; }; };
      responses: {
        200: components["responses"]["Quota"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
    /** Set the quota of an account */
    put: {
      parameters: { path: { name: string; }; };
      requestBody: {
        content: {
          "application/json": {
            /** null removes it */
            bytes: number | null;
          };
        };
      };
      responses: {
        200: components["responses"]["Quota"];
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}/deletion": {
    /** What the deletion of an account would do */
    get: {
      parameters: {
        path: { name: string; };
        query?: {
          /** What becomes of its datasets */
          datasets?: "keep" | "transfer" | "remove";
          /** The account that gets them */
          to?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["AccountDeletion"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/{name}": {
    /** An account by its name */
    get: {
      parameters: { path: { name: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { id: components["schemas"]["Did"]; accountName: string; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
    /** Delete an account */
    delete: {
      parameters: {
        path: { name: string; };
        query: {
          /** What becomes of its datasets */
          datasets: "keep" | "transfer" | "remove";
          /** The account that gets them */
          to?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["AccountDeletion"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/platform/login": {
    /** A session token for credentials */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/json": {
            loginMethod: "password";
            /** JSON in a text: `{"login":…,"password":…}` */
            loginCredentialsJson: string;
          };
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { accessToken: string; }; }; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
      };
    };
  };
  "/platform/kartothek/{key}": {
    /** A file of a dataset that is published by the node */
    get: {
      parameters: {
        path: {
          /** With its slashes, such as `shop.by-dataset-metadata.json` */
          key: string;
        };
        header?: { range?: string; };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        206: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        503: components["responses"]["Problem"];
      };
    };
  };
  "/catalog.jsonld": {
    /** Datasets that anybody may read, as a DCAT catalogue */
    get: {
      parameters: {
        query?: {
          /** As `hydra:next` of the page before has it */
          after?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/ld+json": { [name: string]: unknown }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
      };
    };
  };
  "/catalog.ttl": {
    /** The DCAT catalogue in Turtle */
    get: {
      parameters: {
        query?: {
          /** As `hydra:next` of the page before has it */
          after?: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/turtle": string; }; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
      };
    };
  };
  "/oai": {
    /** Datasets that anybody may read, by OAI-PMH */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/xml": string; }; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
      };
    };
    /** The same, with a form of arguments */
    post: {
      parameters: {};
      requestBody?: { content: { "application/x-www-form-urlencoded": { verb?: string; }; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/xml": string; }; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/sitemap.xml": {
    /** Pages of datasets that anybody may read, as a site map */
    get: {
      parameters: {
        query?: {
          /** As the map of maps has it */
          after?: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/xml": unknown; }; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
      };
    };
  };
  "/robots.txt": {
    /** What programs that follow links may read */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": string; }; };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/graphql": {
    /** The search of the reference node's command */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/json": {
            /** A document of GraphQL, of 200 tokens at most */
            query: string;
            variables?: { [name: string]: unknown } | null;
            operationName?: string | null;
          };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { data?: { [name: string]: unknown } | null; errors?: { message: string; }[]; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/delta-sharing/profile": {
    /** The profile file of the token of the caller */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { shareCredentialsVersion: 1; endpoint: string; bearerToken: string; }; };
        };
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares": {
    /** Accounts with datasets that the caller may read */
    get: {
      parameters: {
        query?: {
          maxResults?: number;
          /** `nextPageToken` of the page before */
          pageToken?: string;
        };
      };
      responses: {
        200: components["responses"]["SharingPage"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}": {
    /** One of them */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { share: components["schemas"]["Shared"]; }; };
        };
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas": {
    /** Views of its datasets */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
        };
      };
      responses: {
        200: components["responses"]["SharingPage"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas/{schema}/tables": {
    /** Tables of a view */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
          /** default, changelog or state */
          schema: string;
        };
        query?: {
          maxResults?: number;
          /** `nextPageToken` of the page before */
          pageToken?: string;
        };
      };
      responses: {
        200: components["responses"]["SharingPage"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/all-tables": {
    /** Tables of all views */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
        };
        query?: {
          maxResults?: number;
          /** `nextPageToken` of the page before */
          pageToken?: string;
        };
      };
      responses: {
        200: components["responses"]["SharingPage"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/version": {
    /** The newest version of a table */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
          /** default, changelog or state */
          schema: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
        query?: {
          /** The oldest version since then */
          startingTimestamp?: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        403: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
        413: components["responses"]["SharingError"];
        429: components["responses"]["SharingError"];
        503: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/metadata": {
    /** Schema and identity of a table */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
          /** default, changelog or state */
          schema: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
        header?: {
          /** Such as `responseformat=delta,parquet;readerfeatures=deletionvectors` */
          "delta-sharing-capabilities"?: string;
        };
      };
      responses: {
        200: components["responses"]["SharingLines"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        403: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
        413: components["responses"]["SharingError"];
        429: components["responses"]["SharingError"];
        503: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/query": {
    /** The files of a table */
    post: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
          /** default, changelog or state */
          schema: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
        header?: {
          /** Such as `responseformat=delta,parquet;readerfeatures=deletionvectors` */
          "delta-sharing-capabilities"?: string;
        };
      };
      requestBody?: {
        content: {
          "application/json": {
            version?: number;
            timestamp?: string;
            limitHint?: number;
            jsonPredicateHints?: string;
            predicateHints?: string[];
          };
        };
      };
      responses: {
        200: components["responses"]["SharingLines"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        403: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
        413: components["responses"]["SharingError"];
        429: components["responses"]["SharingError"];
        503: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/shares/{share}/schemas/{schema}/tables/{table}/changes": {
    /** Rows that versions of a table added and took back */
    get: {
      parameters: {
        path: {
          /** An account, with underscores for dots */
          share: string;
          /** default, changelog or state */
          schema: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
        header?: {
          /** Such as `responseformat=delta,parquet;readerfeatures=deletionvectors` */
          "delta-sharing-capabilities"?: string;
        };
        query?: {
          startingVersion?: number;
          endingVersion?: number;
          startingTimestamp?: string;
          endingTimestamp?: string;
        };
      };
      responses: {
        200: components["responses"]["SharingLines"];
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        403: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
        413: components["responses"]["SharingError"];
        429: components["responses"]["SharingError"];
        503: components["responses"]["SharingError"];
      };
    };
  };
  "/delta-sharing/changes/{dataset}/{name}": {
    /** A file of a feed of changes */
    get: {
      parameters: {
        path: { dataset: string; name: string; };
        query?: {
          /** The right to read it */
          sp?: string;
        };
        header?: { range?: string; };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        206: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["SharingError"];
        401: components["responses"]["SharingError"];
        403: components["responses"]["SharingError"];
        404: components["responses"]["SharingError"];
        416: { headers: { [name: string]: unknown }; content?: never; };
      };
    };
  };
  "/ducklake": {
    /** Where the lake of what the caller may read is */
    get: {
      parameters: {
        query?: {
          /** Only datasets of this account */
          account?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              attach: string;
              catalogue: string;
              datasets: number;
              leftOut: { dataset: string; part: string; reason: string; }[];
            };
          };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/ducklake/{name}": {
    /** A lake: the catalogue file of one state */
    get: {
      parameters: { path: { name: string; }; header?: { range?: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        206: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
      };
    };
  };
  "/iceberg/v1/config": {
    /** What a client of the catalogue begins with */
    get: {
      parameters: {
        query?: {
          /** default, changelog or state */
          warehouse?: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
      };
    };
  };
  "/iceberg/v1/{prefix}/namespaces": {
    /** Accounts with datasets that the caller may read */
    get: {
      parameters: {
        path: {
          /** default, changelog or state */
          prefix: string;
        };
        query?: {
          /** `next-page-token` of the page before */
          pageToken?: string;
          pageSize?: number;
          /** Accounts hold none */
          parent?: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
      };
    };
  };
  "/iceberg/v1/{prefix}/namespaces/{namespace}": {
    /** One of them */
    get: {
      parameters: {
        path: {
          /** default, changelog or state */
          prefix: string;
          /** An account, with underscores for dots */
          namespace: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
      };
    };
  };
  "/iceberg/v1/{prefix}/namespaces/{namespace}/tables": {
    /** Its datasets */
    get: {
      parameters: {
        path: {
          /** default, changelog or state */
          prefix: string;
          /** An account, with underscores for dots */
          namespace: string;
        };
        query?: {
          /** `next-page-token` of the page before */
          pageToken?: string;
          pageSize?: number;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
      };
    };
  };
  "/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}": {
    /** A dataset as a table, with keys to its files */
    get: {
      parameters: {
        path: {
          /** default, changelog or state */
          prefix: string;
          /** An account, with underscores for dots */
          namespace: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
        query?: {
          /** The newest ones, or the newest one */
          snapshots?: "all" | "refs";
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        403: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
        413: components["responses"]["IcebergError"];
        429: components["responses"]["IcebergError"];
        503: components["responses"]["IcebergError"];
      };
    };
  };
  "/iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials": {
    /** Keys to the files of a table */
    get: {
      parameters: {
        path: {
          /** default, changelog or state */
          prefix: string;
          /** An account, with underscores for dots */
          namespace: string;
          /** The name of a dataset, with underscores for dots */
          table: string;
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["IcebergError"];
        401: components["responses"]["IcebergError"];
        404: components["responses"]["IcebergError"];
      };
    };
  };
  "/mcp": {
    /** Refused: there is no stream of messages */
    get: { parameters: {}; responses: { 405: { headers: { [name: string]: unknown }; content?: never; }; }; };
    /** A message of the Model Context Protocol */
    post: {
      parameters: {};
      requestBody: { content: { "application/json": { [name: string]: unknown }; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        202: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["JsonRpcError"];
        401: components["responses"]["JsonRpcError"];
        404: components["responses"]["JsonRpcError"];
        406: components["responses"]["JsonRpcError"];
        413: components["responses"]["JsonRpcError"];
      };
    };
    /** Refused: there are no sessions */
    delete: { parameters: {}; responses: { 405: { headers: { [name: string]: unknown }; content?: never; }; }; };
  };
  "/odata/{account}": {
    /** The entity sets of an account */
    get: {
      parameters: { path: { account: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["ODataError"];
        401: components["responses"]["ODataError"];
        404: components["responses"]["ODataError"];
      };
    };
  };
  "/odata/{account}/$metadata": {
    /** The types of the entity sets of an account */
    get: {
      parameters: { path: { account: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/xml": unknown; }; };
        400: components["responses"]["ODataError"];
        401: components["responses"]["ODataError"];
        404: components["responses"]["ODataError"];
      };
    };
  };
  "/odata/{account}/{name}": {
    /** Rows of a dataset */
    get: {
      parameters: { path: { account: string; name: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["ODataError"];
        401: components["responses"]["ODataError"];
        404: components["responses"]["ODataError"];
        413: components["responses"]["ODataError"];
        429: components["responses"]["ODataError"];
        503: components["responses"]["ODataError"];
      };
    };
  };
  "/odata/{account}/{name}/$count": {
    /** The number of rows of a dataset */
    get: {
      parameters: { path: { account: string; name: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": unknown; }; };
        400: components["responses"]["ODataError"];
        401: components["responses"]["ODataError"];
        404: components["responses"]["ODataError"];
        413: components["responses"]["ODataError"];
        429: components["responses"]["ODataError"];
        503: components["responses"]["ODataError"];
      };
    };
  };
  "/platform/token/device/authorization": {
    /** Begin the login of a device */
    post: {
      parameters: {};
      requestBody: { content: { "application/x-www-form-urlencoded": { client_id: string; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              device_code: string;
              user_code: string;
              verification_uri: string;
              verification_uri_complete: null;
              /** Seconds */
              expires_in: number;
              /** Seconds between two polls */
              interval: number;
            };
          };
        };
        400: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
      };
    };
  };
  "/platform/token/device": {
    /** The token of a device, once approved */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/x-www-form-urlencoded": { client_id?: string; device_code: string; grant_type: "urn:ietf:params:oauth:grant-type:device_code"; };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              access_token: string;
              token_type: "Bearer";
              /** Seconds */
              expires_in: number;
              refresh_token: null;
              score: null;
            };
          };
        };
        400: {
          headers: { [name: string]: unknown };
          content: { "application/problem+json": components["schemas"]["Problem"]; };
        };
      };
    };
  };
  "/assets/runtime-config.json": {
    /** Where the API of this node is */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { apiServerHttpUrl: string; }; };
        };
      };
    };
  };
  "/v/login": {
    /** Page where a user lets a command line in */
    get: {
      parameters: { query?: { deviceCode?: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
        404: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
      };
    };
    /** What the user decided on that page */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/x-www-form-urlencoded": {
            /** The short code that the command line shows */
            userCode?: string;
            /** Or its secret code, from the link */
            deviceCode?: string;
            /** With the secret code; the user began the login */
            begun?: "yes";
            login?: string;
            password?: string;
            decision: "look" | "approve" | "deny";
          };
        };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
        400: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
        401: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
        404: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
        429: { headers: { [name: string]: unknown }; content: { "text/html": unknown; }; };
      };
    };
  };
  "/platform/file/upload/prepare": {
    /** Announce a file to be uploaded */
    post: {
      parameters: { query: { fileName: string; contentLength: number; contentType?: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              uploadUrl: string;
              method: "POST";
              useMultipart: true;
              headers: string[][];
              fields: string[][];
              uploadToken: string;
            };
          };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
      };
    };
  };
  "/platform/file/upload/{token}": {
    /** The uploaded file; knowing the token is the right to it */
    get: {
      parameters: { path: { token: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
    /** Upload the announced file, as the part `file` of a form */
    post: {
      parameters: { path: { token: string; }; };
      requestBody: { content: { "multipart/form-data": { file: string; }; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/platform/token/validate": {
    /** Whether the token is valid */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content?: never; };
        401: components["responses"]["Problem"];
      };
    };
  };
  "/query": {
    /** Query datasets by SQL, as a link */
    get: {
      parameters: {
        query: {
          query: string;
          queryDialect?: "SqlDataFusion";
          /** What the name of a dataset alone means */
          projection?: "changelog" | "state" | "facts";
          dataFormat?: components["schemas"]["QueryForm"];
          format?: components["schemas"]["QueryForm"];
          /** Of Input, Proof, Schema */
          include?: string;
          schemaFormat?: "ArrowJson" | "OdfJson" | "OdfYaml" | "Parquet" | "ParquetJson";
          skip?: number;
          limit?: number;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["QueryAnswer"];
            "text/csv": unknown;
            "application/x-ndjson": unknown;
            "application/vnd.apache.parquet": unknown;
            "application/vnd.apache.arrow.stream": unknown;
          };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        501: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Query datasets by SQL */
    post: {
      parameters: {
        header?: {
          /** Of a job: `respond-async` answers 202 at once, `wait=SECONDS` after so long */
          prefer?: string;
        };
      };
      requestBody: {
        content: {
          "application/json": {
            query: string;
            /** Or SqlSpark; the case does not count */
            queryDialect?: string;
            /** What the name of a dataset alone means */
            projection?: "changelog" | "state" | "facts" | null;
            dataFormat?: components["schemas"]["QueryForm"];
            include?: string[];
            schemaFormat?: string | null;
            datasets?: components["schemas"]["DatasetPin"][] | null;
            skip?: number;
            /** 100 by default in JSON; of rows alone, as many as one query may have */
            limit?: number | null;
          };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["QueryAnswer"] | components["schemas"]["QueryReceipt"];
            "text/csv": unknown;
            "application/x-ndjson": unknown;
            "application/vnd.apache.parquet": unknown;
            "application/vnd.apache.arrow.stream": unknown;
          };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; events?: string; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        415: components["responses"]["Problem"];
        422: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        501: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/verify": {
    /** Check an answer that proves itself */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/json": {
            input: { [name: string]: unknown };
            subQueries: unknown[];
            commitment: { [name: string]: unknown };
            proof: { [name: string]: unknown };
          };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Verified"]; };
        };
        400: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["Verified"];
            "application/problem+json": components["schemas"]["Problem"];
          };
        };
        401: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        415: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        501: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/system/keys": {
    /** Keys by which this node signs answers */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              keys: {
                /** A did:key of Ed25519 */
                id: string;
                state: "active" | "retired";
                /** The key for verifiers of signed notes (C2SP), under the name by which clients reach the node */
                vkey: string;
                /** The key as `ssh-keygen -l` shows it, and as envelopes of attestations name it */
                fingerprint: string;
                /** The key for verifiers of attestations */
                pem: string;
              }[];
            };
          };
        };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/datasets": {
    /** Datasets that the caller may read */
    get: {
      parameters: {
        query?: {
          /** Only those that have all of these words, ten at most: in their alias, or as the beginning or another form of words of description, keywords, license and columns. If there is none, one letter of each word may be wrong */
          search?: string;
          /** `root` or `derivative` */
          kind?: string;
          /** Only those of this account */
          account?: string;
          /** `public` or `private` */
          visibility?: string;
          /** Only those with this keyword, in any case */
          keyword?: string;
          /** Only those with this short name of a license */
          license?: string;
          /** Only those that changed since then: RFC 3339, or a day, which means its midnight in UTC */
          since?: string;
          /** `name`, `updated`, `rows`, `bytes` or `relevance` (how well name, keywords and texts fit the words of the search); the default is `relevance` in a search, and `name` without one */
          sort?: string;
          /** `asc` or `desc`; by default names ascend, all else descends */
          order?: string;
          /** The `next` of the page before */
          after?: string;
          limit?: number;
          /** Each dataset also with what its chain says as of its head, from `records` to `keywords` */
          details?: boolean;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": { datasets: components["schemas"]["ListedDataset"][]; next: string | null; total: number; };
          };
        };
        400: components["responses"]["Problem"];
      };
    };
    /** Create a dataset from a DatasetSnapshot */
    post: {
      parameters: {
        query?: {
          visibility?: "private" | "public";
          /** Show what would be created, the schema of a derivative included; nothing is written */
          dryRun?: boolean;
        };
      };
      requestBody: { content: { "application/yaml": string; "application/json": { [name: string]: unknown }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              alias: string;
              kind: "Root" | "Derivative";
              dryRun: true;
              /** As the chain would hold them, inputs by id */
              events: { [name: string]: unknown }[];
              transform?: components["schemas"]["CheckReceipt"];
              /** What a worker thought of the queries of sources, by name */
              sources?: { [name: string]: components["schemas"]["CheckReceipt"] };
              /** Of the columns that it declares, such as names that differ in case only; absent without any */
              warnings?: string[];
            };
          };
        };
        201: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["DatasetSummary"] & ({
              head: components["schemas"]["Multihash"];
              /** Of the columns that it declares, such as names that differ in case only; absent without any */
              warnings?: string[];
            } | { job: string; jobUrl: string; });
          };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        502: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/datasets/trial": {
    /** Try manifests on a sample; nothing is created */
    post: {
      parameters: {};
      requestBody: {
        content: {
          "application/json": {
            /** DatasetSnapshots, YAML or JSON, in any order */
            manifests: string;
            sample?: {
              /** Rows as they would be posted; of a polling source as its preparation leaves them */
              content: string;
              /** Its ending tells the format */
              fileName?: string;
              /** Tells the format before the name does */
              mediaType?: string | null;
              /** Name of the root that it is for */
              dataset?: string | null;
              sourceName?: string | null;
            } | null;
          };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { dryRun: true; datasets: components["schemas"]["TrialOutcome"][]; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/datasets/{id}": {
    /** Name and owner of a dataset by its id */
    get: {
      parameters: { path: { id: components["schemas"]["Did"]; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              id: components["schemas"]["Did"];
              owner: { accountName: string; accountId?: string | null; };
              datasetName: string;
            };
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/jobs/{job}": {
    /** Status of a job, with its result or problem */
    get: {
      parameters: { path: { job: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Job"]; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
    /** Cancel a job that has not ended */
    delete: {
      parameters: { path: { job: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Job"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/jobs/{job}/rejected": {
    /** Rows a batch was ingested without */
    get: {
      parameters: { path: { job: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/x-ndjson": components["schemas"]["RejectedRow"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/jobs": {
    /** Queries that one asked as jobs, newest first */
    get: {
      parameters: {
        query?: {
          /** Only these, separated by commas */
          status?: string;
          /** The `next` of the page before */
          after?: string;
          limit?: number;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { jobs: components["schemas"]["Job"][]; next: string | null; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
      };
    };
  };
  "/jobs/{job}/rows": {
    /** Rows of a query that ran as a job */
    get: {
      parameters: { path: { job: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/vnd.apache.parquet": unknown;
            "text/csv": unknown;
            "application/x-ndjson": unknown;
            "application/vnd.apache.arrow.stream": unknown;
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        410: components["responses"]["Problem"];
      };
    };
  };
  "/jobs/{job}/events": {
    /** The job as it gets on, as server-sent events */
    get: {
      parameters: { path: { job: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/event-stream": unknown; }; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/events": {
    /** News of all datasets that one may read, as server-sent events */
    get: {
      parameters: {
        query?: {
          /** The id of the last event that arrived, or `beginning`; the header counts first */
          lastEventId?: string;
          /** Whether events carry the rows of their blocks, if those are not too many */
          rows?: boolean;
          /** Only these, with commas between */
          datasets?: string;
        };
        header?: { "Last-Event-ID"?: string; };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "text/event-stream": components["schemas"]["News"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/events/atom": {
    /** What is new in datasets that one may read, as an Atom feed */
    get: {
      parameters: {
        query?: {
          /** A number of the log */
          before?: number;
        };
        header?: { "If-None-Match"?: string; };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/atom+xml": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/me/variables": {
    /** One's own variables; secrets without their values */
    get: {
      parameters: {};
      responses: {
        200: components["responses"]["Variables"];
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
      };
    };
  };
  "/accounts/me/variables/{name}": {
    /** Set one of one's own variables */
    put: {
      parameters: { path: { name: string; }; };
      requestBody: { content: { "application/json": { value: string; secret?: boolean; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Variable"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
      };
    };
    /** Remove one of one's own variables */
    delete: {
      parameters: { path: { name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/variables": {
    /** Variables of a dataset */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: components["responses"]["Variables"];
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/variables/{name}": {
    /** Set a variable or secret of a dataset */
    put: {
      parameters: { path: { dataset: string; name: string; }; };
      requestBody: { content: { "application/json": { value: string; secret?: boolean; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Variable"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Remove one */
    delete: {
      parameters: { path: { dataset: string; name: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/webhooks": {
    /** Your webhooks at a dataset */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { webhooks: components["schemas"]["Webhook"][]; }; };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Add a webhook */
    post: {
      parameters: { path: { dataset: string; }; };
      requestBody: {
        content: {
          "application/json": {
            url: string;
            /** `beginning`, or the block behind which deliveries begin; absent: the head */
            since?: string | null;
          };
        };
      };
      responses: {
        201: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Webhook"] & { secret: string; }; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/webhooks/{webhook}": {
    /** A webhook and its newest attempts */
    get: {
      parameters: { path: { dataset: string; webhook: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["Webhook"] & { attempts: components["schemas"]["WebhookAttempt"][]; };
          };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
    /** Remove a webhook */
    delete: {
      parameters: { path: { dataset: string; webhook: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/webhooks/{webhook}/replay": {
    /** Deliver again, or go on */
    post: {
      parameters: {
        path: { dataset: string; webhook: string; };
        query?: {
          /** `beginning`, or the block behind which deliveries begin; absent: where they ended */
          since?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Webhook"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/webhooks/{webhook}/secret": {
    /** Change the secret of a webhook */
    post: {
      parameters: { path: { dataset: string; webhook: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Webhook"] & { secret: string; }; };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/webhooks/{webhook}/ping": {
    /** Try a webhook */
    post: {
      parameters: { path: { dataset: string; webhook: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["WebhookAttempt"]; };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/schedules": {
    /** Schedules of a dataset */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { schedules: components["schemas"]["Schedule"][]; }; };
        };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Add a schedule */
    post: {
      parameters: { path: { dataset: string; }; };
      requestBody: {
        content: {
          "application/json": {
            cron?: string;
            everySeconds?: number;
            timeZone?: string;
            paused?: boolean;
            exhaustSources?: boolean;
            fetchUncacheable?: boolean;
            /** Rows of a polled snapshot that may vanish at once; default as the node is set up (50) */
            maxVanishPercent?: number | null;
          };
        };
      };
      responses: {
        201: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Schedule"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/schedules/{schedule}": {
    /** A schedule */
    get: {
      parameters: { path: { dataset: string; schedule: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Schedule"]; };
        };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
    /** Change or pause a schedule */
    put: {
      parameters: { path: { dataset: string; schedule: string; }; };
      requestBody: {
        content: {
          "application/json": {
            cron?: string;
            everySeconds?: number;
            timeZone?: string;
            paused?: boolean;
            exhaustSources?: boolean;
            fetchUncacheable?: boolean;
            /** Rows of a polled snapshot that may vanish at once; default as the node is set up (50) */
            maxVanishPercent?: number | null;
          };
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Schedule"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
    /** Remove a schedule */
    delete: {
      parameters: { path: { dataset: string; schedule: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/runs": {
    /** Refreshes of a dataset, newest first */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Only those of this schedule */
          schedule?: string;
          /** Only these, separated by commas */
          status?: string;
          /** The `next` of the page before */
          after?: string;
          limit?: number;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { runs: components["schemas"]["Job"][]; next: string | null; }; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/jobs": {
    /** Jobs of a dataset, newest first */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Only these, separated by commas */
          status?: string;
          /** Only these kinds, separated by commas */
          kind?: string;
          /** The `next` of the page before */
          after?: string;
          limit?: number;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { jobs: components["schemas"]["Job"][]; next: string | null; }; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}": {
    /** The dataset as it stands */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["DatasetDescription"]; };
        };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Delete the dataset */
    delete: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Refuse if the head is another */
          expectedHead?: components["schemas"]["Multihash"];
        };
      };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/tail": {
    /** The last records */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Records left out from the end */
          skip?: number;
          limit?: number;
          dataFormat?: "JsonAoS" | "JsonSoA" | "JsonAoA";
          schemaFormat?: "ArrowJson" | "OdfJson" | "OdfYaml" | "Parquet" | "ParquetJson";
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              data: unknown[] | { [name: string]: unknown };
              dataFormat: string;
              schema?: { [name: string]: unknown } | string;
              schemaFormat?: string;
            };
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/lookup": {
    /** Rows with a value */
    get: {
      parameters: {
        path: { dataset: string; };
        query: {
          /** Name of a column; as often as `value` */
          column: string[];
          /** What the column at the same place has */
          value: string[];
          /** As of this block; default: the head */
          blockHash?: string;
          /** Only rows that stand: the last of each primary key, or without a key rows that no later one takes back */
          state?: boolean;
          limit?: number;
          dataFormat?: "JsonAoS" | "JsonSoA" | "JsonAoA";
          schemaFormat?: "ArrowJson" | "OdfJson" | "OdfYaml" | "Parquet" | "ParquetJson";
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              data: unknown[] | { [name: string]: unknown };
              dataFormat: string;
              schema?: { [name: string]: unknown } | string;
              schemaFormat?: string;
            };
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/log/checkpoint": {
    /** The newest checkpoint of the log of heads */
    get: {
      parameters: {};
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": string; }; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/log/tile/{path}": {
    /** Hashes or entries of the log of heads */
    get: {
      parameters: { path: { path: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": string; }; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/log/witness": {
    /** The key of this node as a witness */
    get: {
      parameters: {};
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { key: string; logs: string[]; }; };
        };
        400: components["responses"]["Problem"];
      };
    };
  };
  "/log/witness/add-checkpoint": {
    /** Have this witness sign a checkpoint */
    post: {
      parameters: {};
      requestBody: { content: { "text/plain": string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": string; }; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: { headers: { [name: string]: unknown }; content: { "text/x.tlog.size": string; }; };
        413: components["responses"]["Problem"];
        422: components["responses"]["Problem"];
      };
    };
  };
  "/log/witness/{origin_hash}/checkpoint": {
    /** What this witness signed last */
    get: {
      parameters: { path: { origin_hash: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "text/plain": string; }; };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/head-proof": {
    /** Proof that the log has the head */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              /** Lines: odf-head/v1, dataset, kind, sequence number, block, time */
              leaf: string;
              /** C2SP tlog-proof */
              proof: string;
              /** Where the log lies, seen from the dataset */
              log: string;
              /** Base64: a private dataset is named by SHA-256 of salt and key */
              salt: string;
              /** The newest leaf of the log */
              last: { leaf: string; index: number; path: string[]; };
              /** The newest map of all heads */
              map: {
                /** Lines: odf-map/v1, count, root, time */
                leaf: string;
                index: number;
                path: string[];
                /** Of the dataset in the map; null if it was made later */
                record: string | null;
                recordIndex?: number;
                recordPath?: string[];
              };
            };
          };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/attestations": {
    /** What was attested of blocks */
    get: {
      parameters: { path: { dataset: string; }; query?: { after?: number; limit?: number; }; };
      responses: {
        200: components["responses"]["Attestations"];
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Add attestations */
    post: {
      parameters: { path: { dataset: string; }; };
      requestBody: { content: { "application/vnd.in-toto.bundle": string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { added: number; known: number; unknownBlocks: number; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/attestations/replay": {
    /** Attest a replay */
    post: {
      parameters: { path: { dataset: string; }; query: { job: string; }; };
      responses: {
        201: components["responses"]["Attestations"];
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/attestations/{block}": {
    /** What was attested of a block */
    get: {
      parameters: { path: { dataset: string; block: string; }; query?: { after?: number; limit?: number; }; };
      responses: {
        200: components["responses"]["Attestations"];
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/croissant.json": {
    /** The dataset as a Croissant document */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/ld+json": { [name: string]: unknown }; };
        };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/stac.json": {
    /** The dataset as a Collection of STAC */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/citation.bib": {
    /** How to cite the dataset, as BibTeX */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/x-bibtex": string; }; };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/citation.datacite.json": {
    /** The metadata of the dataset that DataCite takes */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/citation.cff": {
    /** How to cite the dataset, as CITATION.cff */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/yaml": { [name: string]: unknown }; }; };
        400: components["responses"]["Hidden"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/files": {
    /** The data as a list of Parquet files */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Hash of the block to look from, by default the head */
          at?: string;
          /** `next` of the page before */
          before?: string;
          /** Of JSON; by default 100 */
          limit?: number;
          format?: "json" | "csv" | "ndjson" | "txt";
          /** Whether URLs carry a signature, by which they are read without a token for a while. By default they do in CSV, NDJSON and text, where nobody reads the dataset without a token. */
          sign?: boolean;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["DatasetFiles"];
            "text/csv": string;
            "application/x-ndjson": string;
            "text/plain": string;
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/metadata": {
    /** Aspects of the metadata */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Separated by commas: attachments, info, license, refs, schema, seed, sources (those that take posts), vocab */
          include?: string;
          schemaFormat?: "ArrowJson" | "OdfJson" | "OdfYaml" | "Parquet" | "ParquetJson";
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { output: { [name: string]: unknown }; }; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Append an authored event */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Refuse if the head is another */
          expectedHead?: components["schemas"]["Multihash"];
          /** Show what would be appended and, of a transform, which schema it gives; nothing is written */
          dryRun?: boolean;
        };
      };
      requestBody: { content: { "application/yaml": string; "application/json": { [name: string]: unknown }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": {
              head: components["schemas"]["Multihash"];
              blocks: number;
              /** False if the chain says all of this already; nothing is appended then */
              changed?: boolean;
              transform?: components["schemas"]["CheckReceipt"];
              /** What a worker thought of the queries of sources, by name */
              sources?: { [name: string]: components["schemas"]["CheckReceipt"] };
              /** Of the columns that it declares, such as names that differ in case only; absent without any */
              warnings?: string[];
            } | {
              dryRun: true;
              /** Whether a block would be appended */
              changed?: boolean;
              /** As the chain would hold it, inputs by id */
              event: { [name: string]: unknown };
              transform?: components["schemas"]["CheckReceipt"];
              /** What a worker thought of the queries of sources, by name */
              sources?: { [name: string]: components["schemas"]["CheckReceipt"] };
              /** Of the columns that it declares, such as names that differ in case only; absent without any */
              warnings?: string[];
            };
          };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/ingest": {
    /** Post records to a push source */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Needed when several push sources are active */
          sourceName?: string;
          /** The rows correct the dataset: they have its own columns, and the operation in `op` (0 adds a row, 1 takes back the row with these values, 2 and 3 are the old and the new row of a correction). No source is needed, and none may be named. */
          changelog?: boolean;
          /** Columns of the rows that the dataset lacks extend its schema, and that of a source that has one, in the same commit: optional, after the others. Refused if the source says by DDL or a query which columns it has, and with `changelog`. */
          addColumns?: boolean;
          /** Ingest this uploaded file; the body is ignored. Its media type, else its extension, says how to read it. A dataset without a push source gets one named `auto`. */
          uploadToken?: string;
          /** Refuse if the head is another */
          expectedHead?: components["schemas"]["Multihash"];
          /** Read and merge without committing */
          dryRun?: boolean;
          /** Refuse a snapshot in which more of the rows that stand are missing; default 100 */
          maxVanishPercent?: number;
          /** `quarantine` ingests the batch without its bad rows, counts them in the receipt (`rowsRejected`) and keeps them for a while (`/jobs/{job}/rejected`); not for snapshots, in which a row that is absent is retracted */
          onBadRows?: "fail" | "quarantine";
          /** With more bad rows the batch fails; at most, and by default, what the node allows. Refused without `onBadRows=quarantine` */
          maxBadRows?: number;
        };
        header?: {
          /** Fallback event time of rows without one */
          "odf-event-time"?: string;
          /** `did:key:… BASE64`: Ed25519 over the lines `odf-post/v1`, id of the dataset, hash of the unpacked body. Checked before the batch is queued */
          "odf-signature"?: string;
          /** `respond-async` answers 202 at once, `wait=SECONDS` after so long */
          prefer?: string;
          /** What the client calls this request. A repeat under the same key has the same answer (and the header `idempotent-replayed`), also while the first is worked on; a request that failed is tried again. Another request under the key is refused (422). */
          "idempotency-key"?: string;
          /** How the body is packed */
          "content-encoding"?: "identity" | "gzip" | "deflate" | "zstd";
        };
      };
      requestBody: {
        content: {
          "multipart/form-data": { [name: string]: unknown };
          "text/csv": unknown;
          "application/json": unknown;
          "application/x-ndjson": unknown;
          "application/geo+json": unknown;
          "application/x-ndgeojson": unknown;
          "application/vnd.apache.parquet": unknown;
          "application/vnd.apache.arrow.stream": unknown;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["IngestReceipt"] | components["schemas"]["DryRunReceipt"]; };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; events?: string; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        415: components["responses"]["Problem"];
        422: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/refresh": {
    /** Fetch the polling source, pull a mirror, or compute a derivative */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Go on, one commit per fetch, while the source has more to give */
          exhaustSources?: boolean;
          /** Fetch also when nothing tells what was fetched before */
          fetchUncacheable?: boolean;
          /** Refuse a snapshot in which more of the rows that stand are missing; default as the node is set up (50) */
          maxVanishPercent?: number;
          /** Of a folder of files; take also files that were never read and sort before the last one read */
          lateFiles?: boolean;
          /** Of a folder of files; take the file of this name, also if it was read before; may be repeated */
          file?: string[];
          /** Of a mirror; follow a remote whose history was replaced */
          force?: boolean;
          /** First refresh all that it depends on and the caller may write to, level by level; the first failure ends it */
          recursive?: boolean;
          /** Of a derivative; compute it anew if the history of an input was rewritten; default as the node is set up */
          resetOnDivergedInput?: boolean;
        };
        header?: {
          /** Fallback event time where the source names no event time of its own */
          "odf-event-time"?: string;
          /** `respond-async` answers 202 at once */
          prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["PollReceipt"] | components["schemas"]["MirrorReceipt"] | components["schemas"]["TransformReceipt"];
          };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        502: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/read": {
    /** Rows as of some time, streamed */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** As it was known; a system time (RFC 3339), or the hash of a block */
          asAt?: string;
          /** As it was; events up to this event time, corrections folded unless the projection is changelog */
          asOf?: string;
          /** `facts` are the current rows, which were added and neither retracted nor corrected since; `state` the last row of each primary key, unless it is a retraction; `changelog` is every row */
          projection?: "changelog" | "state" | "facts";
          /** Names, with commas between; default: all */
          columns?: string;
          /** `column:operator:value`, with one of `eq`, `ne`, `lt`, `le`, `gt`, `ge`, `in` (values with commas between, quoted as in CSV), or `column:null`, `column:notnull`; all of them are true of each row of the answer. A null compares to nothing */
          filter?: string[];
          /** Rows left out first */
          skip?: number;
          /** Most rows; default: all */
          limit?: number;
          format?: "csv" | "ndjson" | "json" | "parquet" | "geoparquet" | "arrow";
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "text/csv": unknown;
            "application/x-ndjson": unknown;
            "application/json": { [name: string]: unknown }[];
            "application/vnd.apache.parquet": unknown;
            "application/vnd.apache.arrow.stream": unknown;
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        429: {
          headers: { [name: string]: unknown };
          content: { "application/problem+json": components["schemas"]["Problem"]; };
        };
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/dependencies": {
    /** What it reads, and who reads it */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Dependencies"]; };
        };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/lineage": {
    /** Inputs and users of a dataset */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Steps to inputs */
          upstream?: number;
          /** Steps to users */
          downstream?: number;
          /** Which columns of its inputs each column of a derivative is made of, if its SQL can be followed */
          columns?: boolean;
          format?: "graph" | "openlineage";
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["LineageGraph"] | { events: { [name: string]: unknown }[]; };
          };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/why": {
    /** Why a row is there */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Offset of the row; this or `key` */
          offset?: number;
          /** Values of the primary key, one for each of its columns, for the newest row that has them */
          key?: string[];
          /** Only these columns */
          column?: string[];
          /** Steps from row to row, the row itself included, up to 20; or `all` */
          depth?: string;
          /** As of this block; by default the head */
          at?: string;
          /** The `next` of an input in an answer */
          after?: string;
        };
        header?: {
          /** `respond-async` answers 202 at once */
          prefer?: string;
          /** One of the media types of the answer */
          accept?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": components["schemas"]["WhyAnswer"];
            "application/prov+json": { [name: string]: unknown };
            "application/vnd.openlineage+json": { [name: string]: unknown }[];
          };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        400: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
        429: components["responses"]["TooMany"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/verify": {
    /** Have everything checked by a worker */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Blocks and rules only */
          metadataOnly?: boolean;
          /** Whether rows are hashed */
          rows?: boolean;
          /** Whether executions are made again */
          replay?: boolean;
          recursive?: boolean;
          /** Only data behind this block */
          after?: string;
          /** Only data up to this block */
          upto?: string;
        };
        header?: {
          /** `respond-async` answers 202 at once */
          prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["VerifyAnswer"]; };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/compact": {
    /** Join small slices, or keep metadata only */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Bytes; default 300000000 */
          maxSliceSize?: number;
          /** Default 10000 */
          maxSliceRecords?: number;
          keepMetadataOnly?: boolean;
          dryRun?: boolean;
        };
        header?: {
          /** `respond-async` answers 202 at once */
          prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["HistoryReceipt"]; };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/reset": {
    /** Move the head back to an earlier block */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Hash of the block; default: the Seed */
          block?: string;
          /** Refuse if the head is another one */
          oldHead?: string;
          dryRun?: boolean;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["HistoryReceipt"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/set-watermark": {
    /** Set the watermark of a root */
    post: {
      parameters: { path: { dataset: string; }; query: { watermark: string; dryRun?: boolean; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["HistoryReceipt"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/mirror": {
    /** What the dataset follows */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Mirror"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
    /** Follow another remote */
    put: {
      parameters: { path: { dataset: string; }; };
      requestBody: { content: { "application/json": { remote: string; token?: string | null; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Mirror"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
      };
    };
    /** Follow nothing any more */
    delete: {
      parameters: { path: { dataset: string; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/projections/kartothek": {
    /** How the dataset is published as a Kartothek dataset */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Publication"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
    /** Publish the dataset as a Kartothek dataset */
    put: {
      parameters: {
        path: { dataset: string; };
        header?: {
          /** `respond-async` does not wait */
          prefer?: string;
        };
      };
      requestBody?: { content: { "application/json": components["schemas"]["PublicationDefinition"]; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["Publication"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
    /** Withdraw what was published */
    delete: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Also what somebody else wrote there */
          force?: boolean;
          /** The node forgets the publication and touches no file */
          leaveFiles?: boolean;
        };
        header?: {
          /** `respond-async` does not wait */
          prefer?: string;
        };
      };
      responses: {
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/projections/kartothek/refresh": {
    /** Bring what is published to the head */
    post: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** Take over what somebody else wrote there */
          force?: boolean;
        };
        header?: {
          /** `respond-async` does not wait */
          prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["PublishReceipt"]; };
        };
        202: {
          headers: { [name: string]: unknown };
          content: { "application/json": { job: string; status: string; url: string; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        409: components["responses"]["Problem"];
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/access": {
    /** Who has access to the dataset */
    get: {
      parameters: { path: { dataset: string; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: {
            "application/json": { visibility: "Private" | "Public"; owner: string; roles: components["schemas"]["RoleOfAccount"][]; };
          };
        };
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/access/{name}": {
    /** Role of an account */
    get: {
      parameters: {
        path: {
          dataset: string;
          /** Name of an account */
          name: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["RoleOfAccount"]; };
        };
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
    /** Give an account a role */
    put: {
      parameters: {
        path: {
          dataset: string;
          /** Name of an account */
          name: string;
        };
      };
      requestBody: { content: { "application/json": { role: "Reader" | "Editor" | "Maintainer"; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["RoleOfAccount"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
    /** Take its role from an account */
    delete: {
      parameters: {
        path: {
          dataset: string;
          /** Name of an account */
          name: string;
        };
      };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/visibility": {
    /** Make it public or private */
    put: {
      parameters: { path: { dataset: string; }; };
      requestBody: { content: { "application/json": { visibility: "Private" | "Public"; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": { visibility: "Private" | "Public"; }; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
      };
    };
  };
  "/{dataset}/name": {
    /** Call it otherwise */
    put: {
      parameters: { path: { dataset: string; }; };
      requestBody: { content: { "application/json": { name: string; }; }; };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "application/json": components["schemas"]["DatasetSummary"]; };
        };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/events": {
    /** News of a dataset, as server-sent events */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** The id of the last event that arrived, or `beginning`; the header counts first */
          lastEventId?: string;
          /** Whether events carry the rows of their blocks, if those are not too many */
          rows?: boolean;
        };
        header?: { "Last-Event-ID"?: string; };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "text/event-stream": components["schemas"]["News"]; };
        };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/events/atom": {
    /** The newest blocks of a dataset, as an Atom feed */
    get: {
      parameters: {
        path: { dataset: string; };
        query?: {
          /** A block; those before it */
          before?: string;
        };
        header?: { "If-None-Match"?: string; };
      };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/atom+xml": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        404: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/refs/{ref}": {
    /** Where a reference points */
    get: {
      parameters: {
        path: {
          dataset: string;
          /** Only `head` is known */
          ref: string;
        };
        header?: {
          "If-None-Match"?: string;
          /** `wait=SECONDS` */
          Prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "text/plain": components["schemas"]["Multihash"]; };
        };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Where a reference points */
    head: {
      parameters: {
        path: {
          dataset: string;
          /** Only `head` is known */
          ref: string;
        };
        header?: {
          "If-None-Match"?: string;
          /** `wait=SECONDS` */
          Prefer?: string;
        };
      };
      responses: {
        200: {
          headers: { [name: string]: unknown };
          content: { "text/plain": components["schemas"]["Multihash"]; };
        };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Hidden"];
        404: components["responses"]["Problem"];
        429: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/blocks/{hash}": {
    /** Bytes of an object, verbatim */
    get: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Bytes of an object, verbatim */
    head: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/data/{hash}": {
    /** Bytes of an object, verbatim */
    get: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Upload an object; its content has to hash to its name */
    put: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
        header: { "content-length": number; };
      };
      requestBody: { content: { "application/octet-stream": unknown; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
      };
    };
    /** Bytes of an object, verbatim */
    head: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Go on with its upload */
    patch: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
        header: {
          "content-length": number;
          /** Where the body belongs */
          "upload-offset": number;
          /** Size of the whole object */
          "upload-length": number;
        };
      };
      requestBody: { content: { "application/octet-stream": unknown; "application/offset+octet-stream": unknown; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/checkpoints/{hash}": {
    /** Bytes of an object, verbatim */
    get: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Upload an object; its content has to hash to its name */
    put: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
        header: { "content-length": number; };
      };
      requestBody: { content: { "application/octet-stream": unknown; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        413: components["responses"]["Problem"];
      };
    };
    /** Bytes of an object, verbatim */
    head: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
      };
      responses: {
        200: components["responses"]["Object"];
        206: components["responses"]["Object"];
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
        500: components["responses"]["Problem"];
        503: components["responses"]["Problem"];
      };
    };
    /** Go on with its upload */
    patch: {
      parameters: {
        path: {
          dataset: string;
          /** In any multibase */
          hash: components["schemas"]["Multihash"];
        };
        header: {
          "content-length": number;
          /** Where the body belongs */
          "upload-offset": number;
          /** Size of the whole object */
          "upload-length": number;
        };
      };
      requestBody: { content: { "application/octet-stream": unknown; "application/offset+octet-stream": unknown; }; };
      responses: {
        204: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        403: components["responses"]["Hidden"];
        404: components["responses"]["Hidden"];
        409: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/iceberg/{name}": {
    /** A file made of a dataset for clients of Iceberg */
    get: {
      parameters: { path: { dataset: string; name: string; }; header?: { range?: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        206: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: { headers: { [name: string]: unknown }; content: { "application/xml": unknown; }; };
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
      };
    };
    /** A file made of a dataset for clients of Iceberg */
    head: {
      parameters: { path: { dataset: string; name: string; }; header?: { range?: string; }; };
      responses: {
        200: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        206: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
        304: { headers: { [name: string]: unknown }; content?: never; };
        400: components["responses"]["Problem"];
        401: components["responses"]["Problem"];
        403: { headers: { [name: string]: unknown }; content: { "application/xml": unknown; }; };
        404: components["responses"]["Problem"];
        413: components["responses"]["Problem"];
        416: { headers: { [name: string]: unknown }; content?: never; };
      };
    };
  };
  "/{dataset}/pull": {
    /** WebSocket upgrade of a smart transfer */
    get: {
      parameters: { path: { dataset: string; }; header: { "x-odf-smtp-version": "1"; }; };
      responses: {
        101: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        401: { headers: { [name: string]: unknown }; content?: never; };
        403: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Hidden"];
        426: components["responses"]["Problem"];
      };
    };
  };
  "/{dataset}/push": {
    /** WebSocket upgrade of a smart transfer */
    get: {
      parameters: { path: { dataset: string; }; header: { "x-odf-smtp-version": "1"; }; };
      responses: {
        101: { headers: { [name: string]: unknown }; content?: never; };
        400: { headers: { [name: string]: unknown }; content?: never; };
        401: { headers: { [name: string]: unknown }; content?: never; };
        403: { headers: { [name: string]: unknown }; content?: never; };
        404: components["responses"]["Hidden"];
        426: components["responses"]["Problem"];
      };
    };
  };
}

export interface components {
  schemas: {
    AccountDeletion: {
      accountName: string;
      accountId: components["schemas"]["Did"];
      datasets: "keep" | "transfer" | "remove";
      /** The account that gets the datasets */
      to: string | null;
      /** Number of datasets */
      count: number;
      names: string[];
      /** Why it cannot be done */
      hindrances: string[];
      /** Derivatives that read in its name, and sources that use its variables: they stand still afterwards, until somebody takes them over */
      leftBehind: string[];
      /** Whether a disabled account stays and holds the name */
      keepsName: boolean;
    };
    /** A share, a schema of one, or a table of that */
    Shared: { name: string; schema?: string; share?: string; };
    /** Shapes of JSON; or rows alone as a file. JsonAoS by default. Case and hyphens do not count */
    QueryForm: string;
    DatasetPin: {
      id: string;
      /** The name that the query has for the dataset */
      alias: string;
      /** The block as of which it is read; the head by default */
      blockHash?: string;
    };
    QueryAnswer: {
      output: {
        data: unknown[] | { [name: string]: unknown };
        dataFormat: string;
        schema?: { [name: string]: unknown } | string;
        schemaFormat?: string;
      };
      /** The request with its defaults and the datasets it was made of */
      input?: { [name: string]: unknown };
      subQueries?: unknown[];
      /** Hashes of input; output and sub-queries */
      commitment?: { [name: string]: unknown };
      /** An Ed25519 signature of the commitment */
      proof?: { [name: string]: unknown };
    };
    QueryReceipt: {
      job: string;
      rows: number;
      /** Size of the file of rows */
      bytes: number;
      /** Columns of the rows */
      schema: { [name: string]: unknown };
      /** The request with its defaults and the datasets it was made of */
      input: { [name: string]: unknown };
      engine: string;
      engineVersion: string;
    };
    Verified: {
      ok: boolean;
      /** How the hashes take text beyond ASCII; absent if both forms have the same hashes */
      textForm?: "escaped" | "plain";
      error?: { kind: string; message: string; };
    };
    Multihash: string;
    AccessToken: {
      id: string;
      label: string;
      scopes: string[];
      reach: "node" | "account" | "dataset";
      datasetId: string | null;
      createdAt: string;
      expiresAt: string | null;
      revokedAt: string | null;
    };
    Did: string;
    /** `position` and `reset` name a dataset and its head; the position of all datasets has an id alone. `block` has the rest. */
    News: {
      dataset?: components["schemas"]["Did"];
      alias?: string;
      block?: components["schemas"]["Multihash"];
      sequenceNumber?: number;
      previous?: components["schemas"]["Multihash"] | null;
      systemTime?: string;
      event?: string;
      /** Of the rows it adds */
      offsets?: { start?: number; end?: number; };
      /** Of the file with these rows */
      bytes?: number;
      watermark?: string;
      rows?: { [name: string]: unknown }[];
    };
    Health: {
      ok: boolean;
      /** True when the node serves, and needs somebody to look after it; `reason` says why. */
      degraded?: boolean;
      /** False when nothing can be stored; reads go on. */
      writable?: boolean;
      reason?: string;
    };
    /** Somebody asked for a change */
    AuditEntry: {
      number: number;
      at: string;
      /** Account name, `anonymous`, or `local:` and a user of the machine */
      actor: string;
      accountId?: string | null;
      action: string;
      /** Method and path */
      subject: string;
      /** HTTP status, close code of a transfer, or `done` */
      outcome: string;
      datasetId?: string | null;
      /** Where the request came from */
      address?: string | null;
      traceId?: string | null;
      facts: { [name: string]: unknown };
    };
    /** RFC 9457, with facts of the error beside */
    Problem: {
      type: string;
      title: string;
      status: number;
      detail: string;
      /** The same sentence as `detail` */
      message: string;
    } & { [name: string]: unknown };
    RoleOfAccount: {
      accountName: string;
      accountId: components["schemas"]["Did"];
      role: "Reader" | "Editor" | "Maintainer" | null;
    };
    DatasetSummary: {
      id: components["schemas"]["Did"];
      alias: string;
      kind: "Root" | "Derivative";
      visibility: "Private" | "Public";
      createdAt: string;
      url: string;
    };
    /** With `details`, also what the chain says */
    ListedDataset: components["schemas"]["DatasetSummary"] & {
      records?: number;
      /** Bytes */
      dataSize?: number;
      blocks?: number;
      updatedAt?: string;
      description?: string | null;
      /** Its short name */
      license?: string | null;
      keywords?: string[];
    };
    DatasetFiles: {
      id: components["schemas"]["Did"];
      at: components["schemas"]["Multihash"];
      sequenceNumber: number;
      /** Of all files together */
      records: number;
      /** Bytes of all files together */
      size: number;
      /** Links of rows to objects, as the blocks tell: duplicates counted */
      linkedObjects?: number;
      /** Bytes of these objects */
      linkedObjectsSize?: number;
      lastOffset: number | null;
      /** Whether a row up to `at` retracts or corrects another, so that the files hold more than the current rows */
      hasRetractions?: boolean;
      watermark: string | null;
      /** DataSchema of ODF */
      schema: { [name: string]: unknown } | null;
      /** Names of the system columns */
      vocab: {
        offsetColumn: string;
        operationTypeColumn: string;
        systemTimeColumn: string;
        eventTimeColumn: string;
      };
      files: {
        /** Below the URL of the dataset */
        path: string;
        url: string;
        /** Bytes */
        size: number;
        records: number;
        offsets: {
          start: number;
          /** Of the last record */
          end: number;
        };
        physicalHash: components["schemas"]["Multihash"];
        logicalHash: components["schemas"]["Multihash"];
        watermark: string | null;
        block: components["schemas"]["Multihash"];
        sequenceNumber: number;
        systemTime: string;
      }[];
      /** `before` of the page with older files */
      next: string | null;
    };
    DatasetDescription: components["schemas"]["DatasetSummary"] & {
      head: components["schemas"]["Multihash"];
      blocks: number;
      records: number;
      /** Bytes of all data slices */
      dataSize: number;
      checkpointsSize: number;
      /** Links of rows to objects, as the blocks tell: duplicates counted */
      linkedObjects?: number;
      /** Bytes of these objects */
      linkedObjectsSize?: number;
      lastOffset?: number | null;
      watermark?: string | null;
      updatedAt?: string;
      description?: string | null;
      keywords?: string[];
      license?: { [name: string]: unknown } | null;
      pushSources: string[];
      pollingSource?: boolean;
      /** What the last complete verification found, up to the block it names */
      validation?: components["schemas"]["Validation"] | null;
      /** Received rows that count and were not hashed yet: a job is at it. None: all were, before they counted or since */
      unverified?: {
        /** The block before the first of them */
        after: string | null;
        /** The last of them; None if the node cannot tell */
        upto: components["schemas"]["Multihash"] | null;
        since: string | null;
        /** Why they are not what they claim, once that was found */
        problem: string | null;
      } | null;
      /** It follows another dataset and takes nothing from anybody else */
      isMirror?: boolean;
      /** ODF form */
      schema?: { [name: string]: unknown } | null;
      /** Of a derivative; how it keeps up with its inputs */
      derivation?: components["schemas"]["Derivation"] | null;
    };
    Derivation: {
      /** `retrying` after a problem that may pass; `paused` by one that will not, until a refresh or another transform; `manual` if it is not computed by itself */
      status: "up-to-date" | "behind" | "waiting" | "running" | "retrying" | "paused" | "manual";
      /** Blocks of data of inputs that were not read yet, up to 1000 of each */
      behindBlocks: number;
      /** Ids of inputs that are not on this node */
      missingInputs: string[];
      job: string | null;
      nextAt: string | null;
      /** Failed ones in a row */
      attempts: number;
      problem: { error: string; message: string; } | null;
      /** Why it is not computed by itself */
      reason: string | null;
      /** What computed the newest rows, if that was this node */
      engine: { name?: string; version?: string; } | null;
    };
    Dependencies: {
      inputs: {
        id: string;
        /** What the query calls it */
        queryAlias: string | null;
        /** Null if it is absent or hidden */
        alias: string | null;
      }[];
      upstream: components["schemas"]["Dependency"][];
      downstream: components["schemas"]["Dependency"][];
    };
    Dependency: {
      id: string;
      alias: string;
      kind: "Root" | "Derivative";
      /** Steps on the longest way */
      depth: number;
      direct: boolean;
    };
    Job: {
      id: string;
      kind: string;
      datasetId: string | null;
      status: "waiting" | "running" | "succeeded" | "failed" | "cancelled";
      attempt: number;
      submittedAt: string;
      finishedAt: string | null;
      /** Which schedule began it */
      schedule: string | null;
      /** Only of jobs that commit nothing */
      dryRun?: true;
      /** In the list of one's own queries */
      query?: string;
      /** In that list, of queries that succeeded: their rows can be read until then */
      rowsUntil?: string;
      progress: {
        phase?: "fetch" | "read" | "merge" | "verify" | "execute" | "commit";
        rows?: number;
        bytes?: number;
        /** Of blocks, of objects, or of executions that are made again, how many were looked at */
        done?: number;
        total?: number;
      } | null;
      result?: { [name: string]: unknown };
      problem?: components["schemas"]["Problem"];
    };
    WhyAnswer: {
      /** Block as of which the dataset was read */
      at: string;
      step: components["schemas"]["WhyStep"];
    };
    /** What is known of one row */
    WhyStep: {
      row: {
        dataset: components["schemas"]["Did"];
        alias: string;
        offset: number;
        operation: "append" | "retract" | "correct-from" | "correct-to";
        values: { [name: string]: unknown };
        /** Whether the row adds and no later row took it back */
        stands: boolean;
        /** Offset of the row that took it back */
        undoneBy: number | null;
        /** Offset of the row that it takes back */
        undoes: number | null;
      };
      block: {
        hash: string;
        sequenceNumber: number;
        systemTime: string;
        /** What the execution read of each input */
        inputs?: {
          dataset: components["schemas"]["Did"];
          prevBlock: string | null;
          newBlock: string | null;
          start: number | null;
          end: number | null;
        }[];
      };
      how: {
        /** Block that defines the source or the query */
        definition?: string;
        source?: string;
        kind?: "push" | "poll";
        merge?: string;
        url?: string;
        state?: { [name: string]: string };
        /** The job that brought the row, for those who may write */
        job?: string;
        account?: string;
        engine?: string;
        engineVersion?: string;
        queries?: string[];
        forms?: ("row by row" | "window" | "ranking" | "interval join" | "as-of join")[];
      };
      why?: {
        dataset: components["schemas"]["Did"];
        alias: string;
        count?: number;
        /** `after` of the next page */
        next?: string;
        /** Why the rows are not named */
        unread?: string;
        rows?: {
          start: number;
          /** Included */
          end: number;
          role: "source" | "group" | "match" | "rank";
        }[];
      }[];
      /** By column, where its value is from */
      where?: { [name: string]: {
        kind: "source" | "copied" | "computed" | "condition" | "constant";
        columns?: string[];
        /** What is computed; its beginning, if it is long */
        expression?: string;
      } };
      check: { verdict: "recorded" | "reproduced" | "not-reproduced" | "unknown"; reason?: string; };
      notes?: string[];
      inputs?: components["schemas"]["WhyStep"][];
      /** Whether further rows were not followed */
      isCut?: boolean;
      /** The dataset at the node from which a mirror is pulled, to go on there; for all if it takes no token */
      elsewhere?: string;
    };
    LineageGraph: {
      dataset: components["schemas"]["Did"];
      datasets: {
        id: components["schemas"]["Did"];
        /** Null when the caller may not see more than the id */
        alias: string | null;
        kind: "Root" | "Derivative" | null;
        /** By column, where its values are from */
        columns: { [name: string]: { dataset: components["schemas"]["Did"]; column: string; }[] } | null;
      }[];
      edges: { input: components["schemas"]["Did"]; output: components["schemas"]["Did"]; }[];
      /** There is more than is shown */
      isCut: boolean;
    };
    Validation: {
      ok: boolean;
      block: components["schemas"]["Multihash"];
      sequenceNumber: number;
      at: string;
      /** Name and version; none if nothing was executed */
      engines: string[];
      /** Executions that gave what is recorded */
      replayed: number;
      /** Executions that could not be repeated here */
      notVerifiable: number;
      problems: number;
      /** Rules of this node that the writer of the dataset need not know */
      warnings: number;
      firstProblem: string | null;
      /** Whether the block is the head; if not */
      isCurrent: boolean;
    };
    VerifyAnswer: {
      ok: boolean;
      /** Of the dataset that was asked for */
      head: string | null;
      /** Inputs first */
      datasets: {
        id: components["schemas"]["Did"];
        alias: string;
        ok: boolean;
        replayed: number;
        notVerifiable: number;
        engines: string[];
        /** As `odf-node verify --json` prints it; lists are cut after 1000 */
        report: { [name: string]: unknown };
        /** Why it could not be looked at, if it could not */
        error: string | null;
        ran: components["schemas"]["RanReceipt"] | null;
      }[];
    };
    HistoryReceipt: {
      outcome: "updated" | "up-to-date" | "nothing-to-do";
      prevHead: components["schemas"]["Multihash"];
      /** Null for a dry run whose blocks were not made */
      head: string | null;
      blocksBefore: number;
      blocksAfter: number;
      recordsBefore: number;
      recordsAfter: number;
      dryRun: boolean;
      merges: {
        fromBlock: number;
        toBlock: number;
        slices: number;
        offsetStart: number;
        offsetEnd: number;
        /** Bytes of the slices it is made of */
        size: number;
      }[];
      /** Of a watermark that was set */
      watermark: string | null;
      /** Of a watermark that cannot go back */
      warnings: string[];
    };
    IngestReceipt: {
      outcome: "updated" | "up-to-date";
      prevHead: components["schemas"]["Multihash"];
      head: components["schemas"]["Multihash"];
      blocks: components["schemas"]["Multihash"][];
      offsetStart: number | null;
      /** Closed interval */
      offsetEnd: number | null;
      /** Those rejected included */
      rowsRead: number;
      rowsAdded: number;
      rowsKnown: number;
      rowsRetracted: number;
      rowsCorrected: number;
      watermark: string | null;
      physicalHash: string | null;
      logicalHash: string | null;
      /** Bytes of the last new data slice */
      size: number | null;
      slices: components["schemas"]["SliceReceipt"][];
      /** What the publisher should know, though the rows were taken */
      warnings: string[];
      ran: components["schemas"]["RanReceipt"] | null;
      /** Bad rows that were set aside */
      rowsRejected: number;
      /** The job they are kept with */
      rejectedJob: string | null;
    };
    /** Where rows were read, merged and written, or objects verified, why there, and what that took of Spark. Posts that wait together share jobs of Spark, and each of them reports these. For a poll, sums over its fetches */
    RanReceipt: {
      way: "process" | "spark";
      /** Why there; receipts of older workers do not say */
      because?: string | null;
      /** What was to be read: the file, once it was unpacked, or the result of the query that preprocessed it; with a history if all of it counts; or the objects that are verified */
      bytes: number;
      /** Of the unpacked file that the worker's process read for the query of the source, before all else; null: no query */
      preprocessedBytes?: number | null;
      /** Fewer bytes run in the worker's process */
      microBatchBytes: number;
      /** Parts that were read side by side, of the file or of the dataset */
      splits: number;
      /** Why a large file was read as one */
      oneSplitBecause: string | null;
      sparkJobs: number;
      tasks: number;
      /** Of rows that went from task to task, by way of disks */
      shuffleBytes: number;
      /** Of rows that Spark's sort of a shuffle wrote to disk because memory was short; 0 up to 200 partitions, for which it does not sort */
      spillBytes: number;
      /** Address of Spark's own page, if the worker has one; for administrators */
      sparkPage: string | null;
    };
    RejectedRow: {
      /** Number in the batch, from 1 */
      row: number;
      /** Where it begins */
      line: number | null;
      column: string | null;
      value: string | null;
      reason: string;
      /** The row, or its beginning */
      raw: string;
    };
    /** What would become of the batch; nothing was committed */
    DryRunReceipt: components["schemas"]["IngestReceipt"] & {
      dryRun: true;
      /** Which the dataset would have, as ODF has it */
      schema: { [name: string]: unknown } | null;
    };
    Webhook: {
      id: string;
      url: string;
      /** Paused after too many failures; ended by the receiver (410), or with the right to read */
      state: "active" | "paused" | "ended";
      /** The last block that the receiver took */
      position: string | null;
      createdAt: string;
      /** In a row */
      failures: number;
      failingSince: string | null;
      /** When the next attempt is made */
      notBefore: string | null;
      problem: { error: string; message: string; } | null;
    };
    WebhookAttempt: {
      at: string;
      /** `webhook-id` of the delivery, the same in each attempt */
      message: string;
      /** What the receiver answered */
      status: number | null;
      /** Null: the receiver took it */
      error: string | null;
      tookMs: number;
    };
    Schedule: {
      id: string;
      /** Five fields, or six with seconds */
      cron: string | null;
      everySeconds: number | null;
      timeZone: string;
      paused: boolean;
      exhaustSources: boolean;
      fetchUncacheable: boolean;
      maxVanishPercent: number | null;
      createdAt: string;
      lastAt: string | null;
      /** Null while it is paused */
      nextAt: string | null;
    };
    Variable: {
      name: string;
      secret: boolean;
      /** Null of a secret */
      value: string | null;
      updatedAt: string;
    };
    /** One slice that was added; a large batch becomes several, in one move of the head */
    SliceReceipt: {
      offsetStart: number;
      /** Closed interval */
      offsetEnd: number;
      physicalHash: components["schemas"]["Multihash"];
      logicalHash: components["schemas"]["Multihash"];
      /** Bytes */
      size: number;
    };
    /** What a pull brought; bytes are those of objects that were not here */
    MirrorReceipt: {
      outcome: "updated" | "up-to-date";
      prevHead: components["schemas"]["Multihash"];
      head: components["schemas"]["Multihash"];
      blocks: number;
      objects: number;
      bytes: number;
    };
    Mirror: {
      /** URL of a dataset, `odf+http(s)://…` or `http(s)://…` */
      remote: string;
      /** Tokens are never shown */
      hasToken: boolean;
      /** What the last pull came to */
      state: "new" | "current" | "diverged" | "failed";
      checkedAt: string | null;
      error: string | null;
      message: string | null;
    };
    PublicationDefinition: {
      /** Name in the store; by default the id */
      uuid?: string | null;
      /** Folder or bucket, such as `s3://bucket/prefix`; null: served by the node */
      store?: string | null;
      mode?: "changelog" | "state";
      /** By default that of the merge strategy; null matches whole rows */
      primaryKey?: string[] | null;
      secondaryIndices?: string[];
      partitionOn?: string[];
      metadataFormat?: "json" | "msgpack";
      /** Between two refreshes, such as `90m` */
      minInterval?: string;
      /** How long files stay that are in no state any more */
      grace?: string;
      maxIndexBytes?: number;
    };
    Publication: {
      uuid: string;
      store: string | null;
      mode: "changelog" | "state";
      primaryKey: string[] | null;
      secondaryIndices?: string[];
      partitionOn?: string[];
      metadataFormat?: "json" | "msgpack";
      minInterval?: string;
      grace?: string;
      maxIndexBytes?: number;
      status: "Fresh" | "Stale" | "Failed" | "Conflict";
      head: components["schemas"]["Multihash"];
      /** The block that readers see */
      publishedHead: string | null;
      partitions: number;
      rows: number;
      indices: { [name: string]: { values?: number; bytes?: number; } };
      /** Columns whose index would be larger than maxIndexBytes */
      skipped: string[];
      unmatchedRetractions?: number;
      lastError: { error?: string; message?: string; } | null;
      job?: string | null;
    };
    PublishReceipt: {
      outcome: "published" | "up-to-date" | "withdrawn";
      head: string | null;
      partitions: number;
      rows: number;
      indices: { [name: string]: { values?: number; bytes?: number; } };
      skipped: string[];
      unmatchedRetractions: number;
    };
    /** Sums over all iterations; hashes and size are of the last slice */
    TransformReceipt: {
      outcome: "updated" | "up-to-date";
      prevHead: components["schemas"]["Multihash"];
      head: components["schemas"]["Multihash"];
      blocks: components["schemas"]["Multihash"][];
      offsetStart: number | null;
      /** Closed interval */
      offsetEnd: number | null;
      /** Of all inputs */
      rowsRead: number;
      /** Rows of the new slices that are appends */
      rowsAdded: number;
      rowsKnown: number;
      rowsRetracted: number;
      /** Pairs of rows, as it was and as it is */
      rowsCorrected: number;
      watermark: string | null;
      physicalHash: string | null;
      logicalHash: string | null;
      /** Bytes of the last new data slice */
      size: number | null;
      slices: components["schemas"]["SliceReceipt"][];
      /** For the author of the query */
      warnings: string[];
      /** Rows of inputs that came too late and are left out */
      rowsLate: number;
      iterations: number;
      /** More input waits; the node goes on with it */
      hasMore: boolean;
      /** Why nothing was done, if that is not obvious */
      reason: string | null;
      /** An input was rewritten, so everything was computed anew */
      wasReset: boolean;
      engine: string | null;
      engineVersion: string | null;
    };
    /** What would be in a dataset that is described and not made */
    TrialOutcome: {
      alias: string;
      kind: "Root" | "Derivative";
      /** Of its slices, in ODF form; null if nothing tells it yet */
      schema?: { [name: string]: unknown } | null;
      /** Why nothing does */
      reason?: string | null;
      /** The first ones */
      rows: { [name: string]: unknown }[];
      /** Of the sample or the inputs; null if there were none to read */
      rowsRead?: number | null;
      rowsMade?: number | null;
      warnings: string[];
      engine?: string | null;
      engineVersion?: string | null;
    };
    /** What a query of a transform or a source would give, looked at without rows */
    CheckReceipt: {
      /** Unknown if an input has no schema, or no worker could look or did in time */
      outcome: "valid" | "unknown";
      /** Of the result, in ODF form */
      schema?: { [name: string]: unknown } | null;
      reason?: string | null;
      warnings?: string[];
      engine?: string | null;
      engineVersion?: string | null;
    };
    /** Sums over all fetches of the poll; hashes and size are of the last slice */
    PollReceipt: {
      outcome: "updated" | "up-to-date";
      prevHead: components["schemas"]["Multihash"];
      head: components["schemas"]["Multihash"];
      blocks: components["schemas"]["Multihash"][];
      offsetStart: number | null;
      /** Closed interval */
      offsetEnd: number | null;
      rowsRead: number;
      rowsAdded: number;
      rowsKnown: number;
      rowsRetracted: number;
      rowsCorrected: number;
      watermark: string | null;
      physicalHash: string | null;
      logicalHash: string | null;
      /** Bytes of the last new data slice */
      size: number | null;
      slices: components["schemas"]["SliceReceipt"][];
      /** What the publisher should know, though the rows were taken */
      warnings: string[];
      ran: components["schemas"]["RanReceipt"] | null;
      /** Fetches that gave something new */
      fetches: number;
      /** Whether the source has more to give */
      hasMore: boolean;
      /** Nothing was fetched, since nothing tells what was fetched before */
      uncacheable: boolean;
      noSourceDefined: boolean;
    };
  };
  responses: {
    Attestations: { headers: { [name: string]: unknown }; content: { "application/vnd.in-toto.bundle": string; }; };
    Variables: {
      headers: { [name: string]: unknown };
      content: { "application/json": { variables: components["schemas"]["Variable"][]; }; };
    };
    Problem: {
      headers: { [name: string]: unknown };
      content: { "application/problem+json": components["schemas"]["Problem"]; "text/plain": string; };
    };
    Hidden: { headers: { [name: string]: unknown }; content?: never; };
    Quota: {
      headers: { [name: string]: unknown };
      content: {
        "application/json": {
          accountName: string;
          usedBytes: number;
          limitBytes: number | null;
          /** Datasets that the next garbage collection counts */
          uncountedDatasets: number;
        };
      };
    };
    TooMany: {
      headers: { [name: string]: unknown };
      content: { "application/problem+json": components["schemas"]["Problem"]; };
    };
    SharingError: {
      headers: { [name: string]: unknown };
      content: { "application/json": { errorCode: string; message: string; }; "text/plain": string; };
    };
    ODataError: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
    JsonRpcError: { headers: { [name: string]: unknown }; content: { "application/json": { [name: string]: unknown }; }; };
    IcebergError: {
      headers: { [name: string]: unknown };
      content: {
        "application/json": { error: { message: string; type: string; code: number; }; };
        "text/plain": string;
      };
    };
    SharingPage: {
      headers: { [name: string]: unknown };
      content: { "application/json": { items: components["schemas"]["Shared"][]; nextPageToken?: string; }; };
    };
    SharingLines: { headers: { [name: string]: unknown }; content: { "application/x-ndjson": unknown; }; };
    Object: { headers: { [name: string]: unknown }; content: { "application/octet-stream": unknown; }; };
  };
}
