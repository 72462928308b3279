// A program that uses the whole package: it only has to have the right types.
import { Dataset, Node, OdfError, open } from "odf-node";
import type { Answer, ListedDataset, Receipt, Row, Value, Verification } from "odf-node";
import type { components, paths } from "odf-node/contract";
import createClient from "openapi-fetch";

interface City {
  city: string;
  population: number | bigint;
}

export async function uses(signal: AbortSignal): Promise<void> {
  const node = new Node(new URL("http://127.0.0.1:8080"), {
    token: async () => "ka_x",
    fetch: (url, init) => fetch(url, init),
    integers: "text",
    timeout: 1000,
    tries: 2,
  });
  const listed: ListedDataset[] = [];
  for await (const each of node.datasets({ search: "x", kind: "root", since: new Date(), signal })) listed.push(each);
  const { datasets, next } = await node.page({ limit: 1, after: "x" });
  const alias: string = datasets[0].alias;

  const data: Dataset = node.dataset(alias);
  const described: components["schemas"]["DatasetDescription"] = await data.describe();
  const head: string = described.head;
  for await (const row of data.rows({ columns: ["a"], filter: ["a:eq:1"], asAt: head, signal })) {
    const value: Value = row.a;
    // @ts-expect-error a value may be null, or long
    const wrong: number = value;
    void wrong;
  }
  const cities: City[] = await data.rows<City>({ projection: "state" }).all();
  const last: Row[] = await data.tail({ limit: 1 }).all();
  const file: Uint8Array = await data.file({ format: "arrow" });

  const answer: Answer<{ n: bigint }> = await node.query("select 1 as n", { proof: true, datasets: [] });
  if (answer.proof) console.log((await node.check(answer.proof)).ok);

  const receipt: Receipt = await data.publish(cities, { expectedHead: head, eventTime: new Date(), signal });
  await data.post(new Blob(["a\n1\n"]), "text/csv", { onBadRows: "quarantine" });
  const found: Verification = await data.verify({ files: false, onProgress: ({ blocks, total }) => blocks / total });
  const faults: (string | null)[] = found.problems.map(({ file }) => file);

  try {
    await open("http://127.0.0.1:8080/x").head();
  } catch (error) {
    if (error instanceof OdfError) console.log(error.code, error.status ?? 0, error.problem?.line);
  }
  console.log(next, last, file.length, receipt.rowsAdded, receipt.replayed, faults);

  // @ts-expect-error there is no such projection
  data.rows({ projection: "current" });
  // @ts-expect-error rows are objects
  await data.publish([1]);
  // @ts-expect-error made by a node, or by open
  new Dataset("http://127.0.0.1:8080/x");
}

/** The rest of the API, by the types of the contract. */
export async function contract(): Promise<void> {
  const { GET, POST } = createClient<paths>({ baseUrl: "http://127.0.0.1:8080" });
  const { data, error } = await GET("/{dataset}/lookup", {
    params: { path: { dataset: "x" }, query: { column: ["a"], value: ["1"], state: true } },
  });
  const format: string | undefined = data?.dataFormat;
  const jobs = await GET("/{dataset}/jobs", { params: { path: { dataset: "x" } } });
  const made = await POST("/accounts/me/tokens", { body: { label: "x" } });
  // @ts-expect-error the name of the dataset is needed
  await GET("/{dataset}/lookup", { params: { query: { column: ["a"], value: ["1"] } } });
  // @ts-expect-error there is no such address
  await GET("/nothing");
  console.log(format, error, jobs.response.status, made.data);
}
