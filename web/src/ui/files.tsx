/** The files that a model saw: pictures, PDFs and texts, each beside the output. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { refusal, type Schemas } from "../api/client";
import { useApi } from "../api/hooks";
import { count } from "../lib/format";
import { inProject } from "../lib/project";
import { visible } from "../lib/visible";
import { Button, Loaded } from "./basics";
import { LongText } from "./long-text";
import "./files.css";

type FileBody = Schemas["File"];

/** A larger PDF is read once the reader asks for it. */
const SHOWN_PDF = 8 << 20;
/** The beginning of a text. */
const SHOWN_TEXT = 256 << 10;

const contentOf = (id: string) => inProject(`/api/files/${id}/content`);

export function Files({ ids }: { ids: string[] }) {
  return (
    <ul className="files">
      {ids.map((id, index) => (
        <li key={`${id} ${index}`} className="file">
          <One id={id} />
        </li>
      ))}
    </ul>
  );
}

function One({ id }: { id: string }) {
  const file = useApi("/api/files/{id}", { path: { id } });
  if (file.error?.status === 404) {
    return (
      <p className="faint">
        <Trans>{id} was deleted.</Trans>
      </p>
    );
  }
  return (
    <Loaded query={file} lines={2}>
      {(file) => (
        <>
          <p className="file-head small">
            <a href={contentOf(id)} download={file.name ?? id} translate="no">
              {visible(file.name ?? id)}
            </a>
            <span className="soft">{t`${file.contentType}, ${count(file.bytes)} bytes`}</span>
          </p>
          <Shown file={file} />
        </>
      )}
    </Loaded>
  );
}

function Shown({ file }: { file: FileBody }) {
  const name = file.name ?? file.id;
  if (file.kind === "image") {
    return <img className="file-picture" src={contentOf(file.id)} alt={name} loading="lazy" />;
  }
  if (file.contentType === "application/pdf") return <Pdf file={file} />;
  return file.kind === "document" ? <Text file={file} /> : null;
}

/** The bytes of a PDF stand in a frame of their own: an answer of the server is never framed. */
function Pdf({ file }: { file: FileBody }) {
  const [isWanted, setWanted] = useState(file.bytes <= SHOWN_PDF);
  const [url, setUrl] = useState<string>();
  const bytes = useQuery({
    queryKey: ["file", file.id],
    queryFn: async ({ signal }) => (await read(file.id, signal)).arrayBuffer(),
    enabled: isWanted,
    // A PDF is large; it is read again when it is shown again.
    gcTime: 0,
  });
  useEffect(() => {
    if (!bytes.data) return;
    const made = URL.createObjectURL(new Blob([bytes.data], { type: "application/pdf" }));
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [bytes.data]);
  if (!isWanted) {
    return (
      <Button size="small" onClick={() => setWanted(true)}>
        <Trans>Show the PDF</Trans>
      </Button>
    );
  }
  return (
    <Loaded query={bytes} lines={4}>
      {() => url && <iframe className="file-pdf" src={url} title={file.name ?? file.id} />}
    </Loaded>
  );
}

function Text({ file }: { file: FileBody }) {
  const text = useQuery({
    queryKey: ["file", file.id],
    queryFn: async ({ signal }) => (await read(file.id, signal, `bytes=0-${SHOWN_TEXT - 1}`)).text(),
  });
  return (
    <Loaded query={text} lines={4}>
      {(text) => <LongText label={t`Text: ${file.name ?? file.id}`} text={text} />}
    </Loaded>
  );
}

async function read(id: string, signal: AbortSignal, range?: string): Promise<Response> {
  const headers = range ? { Range: range } : undefined;
  const response = await fetch(contentOf(id), { signal, headers });
  if (!response.ok) throw refusal(response, await response.json().catch(() => undefined));
  return response;
}
