/**
 * The server's address and the credentials come from arguments, the environment, or the login of the command line
 * (`~/.config/callboard/credentials.json`). A refresh token counts once, so a renewal holds the lock of the file, reads
 * the login again and writes the new tokens before it uses them, as the command line does.
 */
import { spawn } from "node:child_process";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { type Credentials, type Found, fixed, type Renewal, serverUrl } from "./credentials.js";
import { ConfigurationError, Forbidden, Unauthorized } from "./errors.js";
import { VERSION } from "./version.js";

const DEFAULT_SERVER = "http://127.0.0.1:8080";
const MARGIN_MS = 30_000;
const LOCK_PATIENCE_MS = 75_000;

export const headers: Record<string, string> = { "User-Agent": `callboard-typescript/${VERSION}` };

/** The address and the credentials, in the order of the command line. */
export function find(server: string | undefined, apiKey: string | undefined): Found {
  const { CALLBOARD_SERVER, CALLBOARD_API_KEY, CALLBOARD_API_KEY_FILE } = process.env;
  const path = fileOfLogins();
  const logins = path ? read(path) : {};
  const url = serverUrl(server || CALLBOARD_SERVER || logins.current || DEFAULT_SERVER);
  const key = apiKey || CALLBOARD_API_KEY || (CALLBOARD_API_KEY_FILE && fileOfKey(CALLBOARD_API_KEY_FILE));
  const name = url.href.replace(/\/$/, "");
  const found = key ? undefined : logins.logins?.[name];
  return { url, credentials: path && found ? new Login(path, name, found) : fixed(key) };
}

function fileOfKey(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new ConfigurationError(`the key in CALLBOARD_API_KEY_FILE cannot be read: ${(error as Error).message}`);
  }
}

function fileOfLogins(): string | undefined {
  const { XDG_CONFIG_HOME, HOME } = process.env;
  if (XDG_CONFIG_HOME && isAbsolute(XDG_CONFIG_HOME)) return join(XDG_CONFIG_HOME, "callboard", "credentials.json");
  return HOME ? join(HOME, ".config", "callboard", "credentials.json") : undefined;
}

/** The file of the logins. Members that this library does not know are kept. */
interface Logins {
  current?: string;
  logins?: Record<string, Tokens>;
}

interface Tokens {
  email: string;
  role: string;
  token: string;
  refreshToken: string;
  expiresAt?: string;
}

function read(path: string): Logins {
  try {
    return JSON.parse(readFileSync(path, "utf8")) ?? {};
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw new ConfigurationError(`${path} cannot be read: ${(error as Error).message}`);
  }
}

/** A login of the command line at one server. */
class Login implements Credentials {
  readonly isKey = false;
  readonly #path: string;
  readonly #server: string;
  #tokens: Tokens;
  #renewal: Promise<void> | undefined;

  constructor(path: string, server: string, tokens: Tokens) {
    this.#path = path;
    this.#server = server;
    this.#tokens = tokens;
  }

  async token(renew: Renewal): Promise<string> {
    const end = Date.parse(this.#tokens.expiresAt ?? "");
    if (end - MARGIN_MS <= Date.now()) await this.replaced(this.#tokens.token, renew);
    return this.#tokens.token;
  }

  async replaced(stale: string | undefined, renew: Renewal): Promise<boolean> {
    if (stale !== this.#tokens.token) return true;
    this.#renewal ??= this.#renew(renew).finally(() => {
      this.#renewal = undefined;
    });
    await this.#renewal;
    return true;
  }

  async #renew(renew: Renewal): Promise<void> {
    const release = await lock(this.#path.replace(/json$/, "lock"));
    try {
      const stale = this.#tokens.token;
      const found = read(this.#path).logins?.[this.#server];
      if (!found) throw this.#ended();
      this.#tokens = found;
      // Another program may have renewed it.
      if (found.token !== stale) return;
      const { token, refreshToken, expiresAt, user } = await renew(found.refreshToken);
      this.#tokens = { email: user.email, role: user.role, token, refreshToken, expiresAt };
      this.#write();
    } catch (error) {
      throw error instanceof Unauthorized || error instanceof Forbidden ? this.#ended() : error;
    } finally {
      release();
    }
  }

  /** Writes the tokens: all of the change is on disk, or nothing of it. */
  #write(): void {
    const logins = read(this.#path);
    logins.logins = { ...logins.logins, [this.#server]: this.#tokens };
    const draft = this.#path.replace(/json$/, "new");
    rmSync(draft, { force: true });
    const file = openSync(draft, "wx", 0o600);
    try {
      writeFileSync(file, JSON.stringify(logins, null, 2));
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(draft, this.#path);
  }

  #ended(): ConfigurationError {
    return new ConfigurationError(`the login at ${this.#server} has ended: \`callboard auth login\`, or an API key`);
  }
}

/**
 * Takes the lock of the file of the logins; the function that it returns releases it. Node.js has no flock(2), which the
 * command line uses, so flock(1) holds it, for as long as its standard input is open.
 */
function lock(path: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const holder = spawn("flock", [path, "sh", "-c", "echo && exec cat"], { stdio: ["pipe", "pipe", "ignore"] });
    const refuse = (why: string) => {
      clearTimeout(timer);
      holder.kill();
      reject(new ConfigurationError(`the login cannot be renewed: ${why}; an API key needs no renewal`));
    };
    const timer = setTimeout(() => refuse(`another program holds the lock of ${path}`), LOCK_PATIENCE_MS);
    holder.on("error", (error) => refuse(`flock(1) of util-linux cannot be run: ${error.message}`));
    holder.on("exit", (code) => refuse(`${path} cannot be locked (flock ended with ${code})`));
    holder.stdin.on("error", () => {});
    holder.stdout.once("data", () => {
      clearTimeout(timer);
      resolve(() => holder.stdin.end());
    });
  });
}
