import type { CallOptions } from "./call.js";
import { checked } from "./check.js";
import { Resource } from "./item.js";
import type { Filters, Pages } from "./pages.js";
import type * as models from "./schema.js";

/** `cb.users`. Requires the role admin. */
export class Users extends Resource {
  /** Makes a user. */
  create(user: models.CreateUser, options: CallOptions = {}): Promise<models.User> {
    return this.transport.send("POST", "/api/auth/users", { body: checked("CreateUser", user), ...options });
  }

  /** Lists users. */
  list(filters: Filters<"/api/auth/users"> = {}): Pages<models.User> {
    return this.pages("GET", "/api/auth/users", { filters });
  }

  /** Changes a user. */
  change(id: string, change: models.ChangeUser, options: CallOptions = {}): Promise<models.User> {
    const body = checked("ChangeUser", change);
    return this.transport.send("PATCH", "/api/auth/users/{id}", { names: { id }, body, ...options });
  }

  /** Deletes a user; `work` is `cancel`, or the id of the user who answers for the unfinished work. */
  delete(id: string, options: CallOptions & { work?: string } = {}): Promise<models.User> {
    const { signal, work } = options;
    return this.transport.send("DELETE", "/api/auth/users/{id}", { names: { id }, query: { work }, signal });
  }

  /** Invites a person; the `url` of the invitation is shown only now. */
  invite(invitation: models.CreateInvitation, options: CallOptions = {}): Promise<models.NewInvitation> {
    const body = checked("CreateInvitation", invitation);
    return this.transport.send("POST", "/api/auth/invitations", { body, ...options });
  }

  /** Lists open invitations. */
  invitations(filters: Filters<"/api/auth/invitations"> = {}): Pages<models.Invitation> {
    return this.pages("GET", "/api/auth/invitations", { filters });
  }

  /** Revokes an open invitation. */
  uninvite(id: string, options: CallOptions = {}): Promise<models.Invitation> {
    return this.transport.send("DELETE", "/api/auth/invitations/{id}", { names: { id }, ...options });
  }
}

/** `cb.keys`: API keys. Requires the role admin. */
export class Keys extends Resource {
  /** Makes a key, which is shown only now. */
  create(key: models.CreateKey, options: CallOptions = {}): Promise<models.Key> {
    return this.transport.send("POST", "/api/auth/keys", { body: checked("CreateKey", key), ...options });
  }

  /** Lists keys. */
  list(filters: Filters<"/api/auth/keys"> = {}): Pages<models.KeySummary> {
    return this.pages("GET", "/api/auth/keys", { filters });
  }

  /** Revokes a key. */
  revoke(id: string, options: CallOptions = {}): Promise<models.KeySummary> {
    return this.transport.send("DELETE", "/api/auth/keys/{id}", { names: { id }, ...options });
  }

  /** Revokes all keys, those of a maker with all that they made, those of a user, or old ones. */
  revokeMany(keys: models.RevokeKeys, options: CallOptions = {}): Promise<models.RevokedKeys> {
    return this.transport.send("POST", "/api/auth/keys/revoke", { body: checked("RevokeKeys", keys), ...options });
  }

  /** Makes a key in another's place; the earlier one counts for the `overlap`, such as `24h`. */
  rotate(id: string, options: CallOptions & models.RotateKey = {}): Promise<models.Key> {
    const { signal, ...members } = options;
    const body = checked("RotateKey", members);
    return this.transport.send("POST", "/api/auth/keys/{id}/rotate", { names: { id }, body, signal });
  }
}

/** `cb.sessions`: logins of users. */
export class Sessions extends Resource {
  /** The account of this client. */
  who(options: CallOptions = {}): Promise<models.Who> {
    return this.transport.send("GET", "/api/auth/session", options);
  }

  /** Lists open sessions: your own, or as an admin all. */
  list(filters: Filters<"/api/auth/sessions"> = {}): Pages<models.OpenSession> {
    return this.pages("GET", "/api/auth/sessions", { filters });
  }

  /** Ends a session. */
  end(id: string, options: CallOptions = {}): Promise<models.OpenSession> {
    return this.transport.send("DELETE", "/api/auth/sessions/{id}", { names: { id }, ...options });
  }

  /** The ways to sign in. */
  methods(options: CallOptions = {}): Promise<models.Methods> {
    return this.transport.send("GET", "/api/auth/methods", options);
  }

  /** Begins a session; `token` is an `apiKey` for another client until `expiresAt`. */
  logIn(email: string, password: string, options: CallOptions = {}): Promise<models.Session> {
    return this.transport.send("POST", "/api/auth/login", { body: checked("Login", { email, password }), ...options });
  }

  /** Renews a session; the refresh token counts once. */
  refresh(refreshToken: string, options: CallOptions = {}): Promise<models.Session> {
    return this.transport.send("POST", "/api/auth/refresh", { body: checked("Refresh", { refreshToken }), ...options });
  }

  /** Ends the session of this client, or with `all` all of its user. */
  logOut(options: CallOptions & models.Logout = {}): Promise<models.LoggedOut> {
    const { signal, ...members } = options;
    return this.transport.send("POST", "/api/auth/logout", { body: checked("Logout", members), signal });
  }

  /** Changes your own password. */
  changePassword(current: string, next: string, options: CallOptions = {}): Promise<models.User> {
    const body = checked("ChangePassword", { current, new: next });
    return this.transport.send("POST", "/api/auth/password", { body, ...options });
  }

  /** Makes a link that signs a browser in, once. */
  createLink(options: CallOptions = {}): Promise<models.Link> {
    return this.transport.send("POST", "/api/auth/links", options);
  }

  /** Makes the first admin. */
  setUp(admin: models.SetUp, options: CallOptions = {}): Promise<models.Session> {
    return this.transport.send("POST", "/api/auth/setup", { body: checked("SetUp", admin), ...options });
  }
}
