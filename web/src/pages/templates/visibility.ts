/** The words of who sees a template. */
import { t } from "@lingui/core/macro";

export const VISIBILITIES: Record<string, string> = {
  private: t`private`,
  organization: t`organization`,
  public: t`public`,
};

export const visibilityOf = (name: string) => VISIBILITIES[name] ?? name;
