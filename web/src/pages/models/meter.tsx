/** A figure beside its limit, with a bar where there is one. */
import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { count, short } from "../../lib/format";
import { type Gauge, shareOf } from "./figures";
import "./models.css";

export function Meter({ of, large = false }: { of: Gauge; large?: boolean }) {
  const share = shareOf(of);
  const text = of.limit === undefined ? short(of.used) : t`${short(of.used)} of ${short(of.limit)}`;
  const tone = share === undefined ? undefined : share >= 1 ? "bad" : share >= 0.8 ? "warn" : "good";
  return (
    <span
      className="models-meter"
      data-large={large}
      data-tip={
        of.limit === undefined
          ? t`${count(of.used)}, without a limit`
          : t`${count(of.used)} of ${count(of.limit)}`
      }
    >
      {share !== undefined && (
        <span className="bar" aria-hidden="true">
          <i data-tone={tone} style={{ width: `${share * 100}%` }} />
        </span>
      )}
      <span>
        {text}
        {of.limit === undefined && large && (
          <span className="faint small">
            {" "}
            <Trans>without a limit</Trans>
          </span>
        )}
      </span>
      {large && of.left && (
        <span className="soft small">
          <Trans>
            its provider: {count(of.left.remaining)} of {count(of.left.limit)} left
          </Trans>
        </span>
      )}
    </span>
  );
}
