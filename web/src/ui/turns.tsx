/** The conversation before the prompt: texts, images and documents in their order. */
import { t } from "@lingui/core/macro";
import type { Schemas } from "../api/client";
import { Files } from "./files";
import { LongText } from "./long-text";
import "./turns.css";

type Message = Schemas["Message"];

/** The parts of a turn. */
export function partsOf(content: Message["content"]): Schemas["MessagePart"][] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}

export function Turns({ messages }: { messages: Message[] }) {
  return (
    <ol className="turns">
      {messages.map(({ role, content }, index) => (
        <li key={index} className="turn">
          <p className="turn-role">{role}</p>
          {partsOf(content).map(({ text, file }, part) =>
            file ? (
              <Files key={part} ids={[file]} />
            ) : (
              <LongText key={part} label={t`Turn ${index + 1}, ${role}`} text={text ?? ""} />
            ),
          )}
        </li>
      ))}
    </ol>
  );
}
