/** The parts of a page, as links, so that each has an address. */
import { Link } from "wouter";

export type Tab = { id: string; name: string; href: string };

export function Tabs({ label, tabs, current }: { label: string; tabs: Tab[]; current: string }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ id, name, href }) => (
        <Link
          key={id}
          href={href}
          aria-current={id === current ? "page" : undefined}
          // Where the row is wider than the window, the browser shows a part of the link only.
          onFocus={(event: React.FocusEvent<HTMLElement>) =>
            event.currentTarget.scrollIntoView({ block: "nearest", inline: "nearest" })
          }
        >
          {name}
        </Link>
      ))}
    </nav>
  );
}
