/** A search box whose text stands in the address. */
import { useEffect, useRef, useState } from "react";
import { useParams } from "../../lib/search";

export function Search({ label, name = "search" }: { label: string; name?: string }) {
  const [params, set] = useParams();
  const known = params.get(name) ?? "";
  const [text, setText] = useState(known);
  const sent = useRef(known);
  useEffect(() => {
    // The address changed otherwise: by a link, or by the button for going back.
    if (known !== sent.current) setText(known);
    sent.current = known;
  }, [known]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text.trim();
      set({ [name]: text.trim() });
    }, 250);
    return () => clearTimeout(timer);
  }, [text, name, set]);
  return (
    <input
      type="search"
      className="input"
      aria-label={label}
      placeholder={label}
      size={Math.max(18, label.length + 2)}
      value={text}
      onChange={(event) => setText(event.target.value)}
    />
  );
}
