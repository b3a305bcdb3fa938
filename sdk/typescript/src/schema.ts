// Written by sdk/typescript/generate.mjs from the OpenAPI document. Do not edit.
export interface paths {
    "/api/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The audit log: actor, action, time and address, the newest first. */
        get: operations["audit_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/cookie": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep this session in a cookie, which scripts cannot read. */
        post: operations["auth_set_cookie"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The open invitations, the newest first. */
        get: operations["auth_list"];
        put?: never;
        /**
         * Invite a person; the link is returned only here. If the invitation is to an e-mail and the server sends mail, the
         *     person gets the link by mail too.
         */
        post: operations["auth_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/invitations/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make the account of the invited person, with a password of their own, and sign it in. */
        post: operations["auth_accept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/invitations/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show an invitation to the invited person; it is not used up. */
        post: operations["auth_preview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/invitations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke an open invitation. */
        delete: operations["auth_revoke"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All keys, the newest first, revoked and expired ones too; or those that end soon. */
        get: operations["auth_list_keys"];
        put?: never;
        /** Make an API key; its text is returned only here. */
        post: operations["auth_create_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/keys/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Revoke many keys: all, those of a maker with all that they made in turn, those of a user, or old ones. The key of
         *     the request stays.
         */
        post: operations["auth_revoke_keys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a key. */
        delete: operations["auth_revoke_key"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/keys/{id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Replace a key by a new one, whose text is returned only here. */
        post: operations["auth_rotate_key"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a link that signs the caller in once, within an hour, in a browser. */
        post: operations["auth_create_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/links/exchange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Exchange the token of a sign-in link for a session. */
        post: operations["auth_exchange_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/links/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show whom a sign-in link signs in; the link is not used up. */
        post: operations["auth_preview_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign in with e-mail and password. */
        post: operations["auth_login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End this session, or all sessions of the user. */
        post: operations["auth_logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/methods": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The ways to sign in to this server. */
        get: operations["auth_methods"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/oidc/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** End a sign-in at the identity provider: the browser brings its code. */
        get: operations["auth_callback"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/oidc/program": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign a program in, or refuse it: the answer of the user, who compared its code. */
        post: operations["auth_answer_program"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/oidc/program/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show the program that wants to sign in, for its user to compare: nothing is used up. */
        post: operations["auth_preview_program"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/oidc/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Begin a sign-in at the identity provider. */
        get: operations["auth_start"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/oidc/token": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Exchange the code of a sign-in for a session. */
        post: operations["auth_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Change the own password; all other sessions end. */
        post: operations["auth_change_password"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/password/forgotten": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Send a user who has forgotten the password a mail with a link. The answer is the same for every e-mail. */
        post: operations["auth_forgotten"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/password/reset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Set another password with the link of a mail, and sign in; all sessions of the user end before. */
        post: operations["auth_reset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/password/reset/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Show whose password a link sets; the link is not used up. */
        post: operations["auth_preview_reset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Go on with a session: the refresh token is replaced by the one in the answer. */
        post: operations["auth_refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The user of this session, and the actions that it may take. */
        get: operations["auth_who"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Open sessions, the newest first: one's own, or for an admin everybody's. */
        get: operations["auth_list_sessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** End a session: one's own, or for an admin anybody's. */
        delete: operations["auth_end_session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/setup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make the first admin with the token of the setup link, and sign it in. */
        post: operations["auth_setup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/signing-key/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a new key that signs access tokens; tokens and sessions of the old one end after the overlap. */
        post: operations["auth_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All users. */
        get: operations["auth_list_users"];
        put?: never;
        /** Make a user. */
        post: operations["auth_create_user"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/auth/users/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a user, with all sessions and the keys that the user answers for. */
        delete: operations["auth_delete_user"];
        options?: never;
        head?: never;
        /** Give a user another role, plan or password. */
        patch: operations["auth_change_user"];
        trace?: never;
    };
    "/api/backups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stream the whole store, as it is at the end of the stream, for `callboard backup create`.
         * @description The format is that of the command, which must be of the same version. One backup is made at a time. The
         *     stream holds every text and the hashes of passwords and keys; it holds no secret of the server.
         */
        post: operations["system_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Batches, the newest first. */
        get: operations["batches_list"];
        put?: never;
        /**
         * Create a batch: each row of the body becomes an execution of the template. At most 100,000 rows and 1 GiB as
         *     lines of JSON (`{"key": …, "input": {…}}`) or CSV, whose header names the members of the input; 2 MiB as JSON, with
         *     the settings and `rows` as members.
         */
        post: operations["batches_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A batch with its progress and its cost. */
        get: operations["batches_get"];
        put?: never;
        post?: never;
        /** Delete a batch that has ended, with its executions, their tasks and their texts. */
        delete: operations["batches_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Cancel a batch: no further row starts, and rows that run are cancelled. */
        post: operations["batches_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/compare/{other}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compare the outputs of the rows of two batches that have the same key. */
        get: operations["batches_compare"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/estimate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Estimate the cost of the rows of a batch that wait to be started, from the length of their prompts and past outputs. */
        post: operations["batches_estimate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All rows of a batch as CSV or as lines of JSON, also while it runs. */
        get: operations["batches_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let no further row of a batch start; rows that run go on. */
        post: operations["batches_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let rows of a paused batch start again. */
        post: operations["batches_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run failed rows of a batch anew within it: good results of their steps are kept. */
        post: operations["batches_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/review": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask for reviews of outputs of a batch that have passed. Nothing waits for the decisions: they are recorded, count in
         *     the calibration, and stand beside the outputs. A repeated request asks for further reviews.
         */
        post: operations["batches_review"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/batches/{id}/rows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A page of the rows of a batch. */
        get: operations["batches_rows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/budgets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Budgets as they stand, the newest first. */
        get: operations["budgets_list"];
        put?: never;
        /** Create a budget. */
        post: operations["budgets_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/budgets/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A budget as it stands. */
        get: operations["budgets_get"];
        put?: never;
        post?: never;
        /** Delete a budget; tasks that wait for it go on. */
        delete: operations["budgets_delete"];
        options?: never;
        head?: never;
        /** Change the limit, the alerts or the rule of a budget; the spent amount stays. */
        patch: operations["budgets_change"];
        trace?: never;
    };
    "/api/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Bulk jobs, the newest first: those that run, and the last 1,000 that have ended. */
        get: operations["bulk_list"];
        put?: never;
        /**
         * Cancel, retry, reprioritize or reject every task or execution that a filter matches now, or erase its texts; a dry
         *     run returns their number. An erasure needs an admin.
         */
        post: operations["bulk_start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/bulk/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A bulk job and how far it is. */
        get: operations["bulk_get"];
        put?: never;
        post?: never;
        /** Stop a bulk job: it acts on no further item, and what it has done stays. */
        delete: operations["bulk_stop"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cells": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The cells, home first. */
        get: operations["system_list_cells"];
        put?: never;
        /** Add a cell, or give one other addresses. */
        post: operations["system_add_cell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cells/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a cell that has no project. */
        delete: operations["system_remove_cell"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The nodes of the cluster. */
        get: operations["system_nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cluster/nodes/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Have a node hand its work to another one, or let it take work again. */
        patch: operations["system_change"];
        trace?: never;
    };
    "/api/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that the role may see, as it happens; `Last-Event-ID` resumes. */
        get: operations["events_follow"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Files, the newest first. */
        get: operations["files_list"];
        put?: never;
        /**
         * Upload a file: its bytes as the body, with their Content-Type, or a multipart body with one part. The same bytes are
         *     stored once. A `Digest` (`sha-256=` and base64) is compared.
         */
        post: operations["files_upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file, without its bytes. */
        get: operations["files_get"];
        put?: never;
        post?: never;
        /** Delete a file. */
        delete: operations["files_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/files/{id}/content": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The bytes of a file, or the part that a `Range` header asks for. */
        get: operations["files_content"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/functions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The functions that connected workers run, by name. */
        get: operations["system_list_functions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The state of the service. */
        get: operations["system_health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Approvals, decided or not, the latest first. */
        get: operations["hitl_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/calibration": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The calibration of confidences, and the effect of other thresholds. */
        get: operations["hitl_calibration"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/pending": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Outputs that wait for a reviewer, the latest first. */
        get: operations["hitl_list_pending"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/reviewers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The users who decide, by name: admins, operators and reviewers; none in the sandbox. */
        get: operations["hitl_reviewers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The statistics of approvals. */
        get: operations["hitl_statistics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An approval with all that a reviewer needs. */
        get: operations["hitl_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/approve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let an output pass, as it is or with another text in its place. */
        post: operations["hitl_approve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/assign": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give an output to a reviewer, who is then its assignee. */
        post: operations["hitl_assign"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/claim": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Tell other reviewers for five minutes that somebody looks at it. */
        post: operations["hitl_claim"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/extend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give the reviewers more time. */
        post: operations["hitl_extend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All that happened to an approval, oldest first, each entry chained to the one before it. */
        get: operations["hitl_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Do not let an output pass; another task may try again. */
        post: operations["hitl_reject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take a claim back. */
        post: operations["hitl_release"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/hitl/{taskId}/reopen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Take a decision back, if nothing has used the output; or ask for another decision beside it. */
        post: operations["hitl_reopen"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Counters and gauges in the text of Prometheus, or of `OpenMetrics` if the header Accept names it. */
        get: operations["system_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Models by name: those that workers announce, those with limits or figures, and the default. */
        get: operations["system_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/{name}/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Set all limits of a model, in place of those before and of the settings; they count at once. */
        put: operations["system_set_limits"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/models/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** End the pause of a model after a 429 or 529: its tasks go on at once. */
        delete: operations["system_end_pause"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document. */
        get: operations["system_describe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Plans, the newest first; their steps without prompts. */
        get: operations["plans_list"];
        put?: never;
        /** Make a plan. */
        post: operations["plans_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Executions without their steps, the newest first. */
        get: operations["executions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An execution with its steps and their outputs. */
        get: operations["executions_get"];
        put?: never;
        post?: never;
        /** Cancel an execution: completed steps are kept, the others are cancelled. */
        delete: operations["executions_cancel"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fork an execution: a new one takes over each completed step whose rendered prompt, model, settings
         *     and gate are the same, and runs the others. With `dryRun`, list them with the cost instead.
         */
        post: operations["executions_fork"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run the steps of a failed or cancelled execution again that did not end well. */
        post: operations["executions_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/signals/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a signal to an execution: the step that waits for it goes on, with the payload as its output; a
         *     signal that comes before its wait is kept.
         */
        post: operations["executions_send"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/steps/{step}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The items of a step with forEach, in the order of its list, with their outputs. */
        get: operations["executions_items"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An execution as it goes on, with the texts of its steps. */
        get: operations["executions_of_execution"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/executions/{id}/texts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Erase the texts of an ended execution: its input, title and idempotency key, the payloads of its signals, and the
         *     texts of all its tasks. Status, usage, cost, tags and the hashes of histories stay.
         */
        delete: operations["executions_erase"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A plan with its prompts. */
        get: operations["plans_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/plans/{id}/execute": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start an execution of a plan, or, with `options.dryRun`, make a dry run. */
        post: operations["plans_execute"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The projects in which one has a role, oldest first; an admin of the server sees all. */
        get: operations["projects_list"];
        put?: never;
        /** Make a project; whoever makes it is its first admin. */
        post: operations["projects_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/figures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The counts and costs of the projects whose usage one may read, on every cell; an admin of the server sees all. */
        get: operations["projects_figures"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A project. */
        get: operations["projects_get"];
        put?: never;
        post?: never;
        /** Delete a project with everything that is in it; what has not ended is cancelled. */
        delete: operations["projects_delete"];
        options?: never;
        head?: never;
        /** Give a project another name or description, put it into the archive, or take it out. */
        patch: operations["projects_change"];
        trace?: never;
    };
    "/api/projects/{id}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The members of a project, by name. */
        get: operations["projects_list_members"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{id}/members/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Give a user a role in a project. */
        put: operations["projects_set_member"];
        post?: never;
        /** End a user's membership; the keys that the user answers for in the project are revoked. */
        delete: operations["projects_remove_member"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/projects/{id}/move": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begin to move a project to another cell; it stands still until it is there. */
        post: operations["projects_begin_move"];
        /** Give up a move of a project that has not ended: it goes on where it was. */
        delete: operations["projects_give_up_move"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/queues": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The queues that have ready tasks, workers or settings, by name. */
        get: operations["queues_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/queues/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Pause, resume or limit a queue. */
        patch: operations["queues_change"];
        trace?: never;
    };
    "/api/schedules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Schedules, the newest first. */
        get: operations["schedules_list"];
        put?: never;
        /** Make a schedule. */
        post: operations["schedules_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/schedules/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A schedule with its target. */
        get: operations["schedules_get"];
        put?: never;
        post?: never;
        /** Delete a schedule; its running work goes on. */
        delete: operations["schedules_delete"];
        options?: never;
        head?: never;
        /** Change a schedule; a member that is left out stays as it is. */
        patch: operations["schedules_change"];
        trace?: never;
    };
    "/api/schedules/{id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The occurrences of a schedule that are remembered: the last thousand, the newest first. */
        get: operations["schedules_runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/schedules/{id}/trigger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start the work of a schedule now, be it enabled or not. */
        post: operations["schedules_trigger"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Search the prompts and outputs of the last days for words, the newest tasks first; a bounded part of them at a
         *     time. For a worker key that is bound to queues, those of the tasks that it holds.
         */
        get: operations["search_search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/system/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The last backup, the archive behind it, and the moments to which the two restore the server. */
        get: operations["system_backup_status"];
        put?: never;
        /** Say that a backup is complete, as `callboard backup create` does. It covers every gap of the archive before it. */
        post: operations["system_report_backup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/system/backup/verification": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say that a backup was verified, and the finding, as `callboard backup verify` does. */
        post: operations["system_report_verification"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/system/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** True if no task is leased, and why. */
        get: operations["system_show"];
        put?: never;
        /** Lease no task until somebody resumes; running tasks go on. */
        post: operations["system_pause"];
        /** Lease tasks again. */
        delete: operations["system_resume"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/system/storage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The rows and bytes of each kind of data, measured when somebody asks, and at most once a minute. */
        get: operations["system_storage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tasks, newest first unless said otherwise; for a worker key that is bound to queues, those that it holds. */
        get: operations["tasks_list"];
        put?: never;
        /** Submit a task; `?stream=true` answers with its stream. */
        post: operations["tasks_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Submit up to 100 tasks, all or none. */
        post: operations["tasks_create_batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/batch/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The tasks of a batch that are still stored, and how many are how far; not for a worker key that is bound to queues. */
        get: operations["tasks_get_batch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Submit up to 100,000 tasks, each a line with the body of a task. The answer has a line for each, in order, once
         *     its task is durable: `{line, id}` or `{line, error}`. A line with a fault stops no other.
         */
        post: operations["tasks_create_bulk"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A task with its prompt and its output; for a worker key that is bound to queues, one that it holds. */
        get: operations["tasks_get"];
        put?: never;
        post?: never;
        /** Cancel a task. */
        delete: operations["tasks_cancel"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Submit a task that failed, was cancelled or was rejected anew, as a task of the caller. */
        post: operations["tasks_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/{id}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A task as it goes on, with its text. */
        get: operations["tasks_of_task"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tasks/{id}/texts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Erase the texts of an ended task: prompt, context, output, edit, comment and the words of its error.
         *     The history of its approval still verifies.
         */
        delete: operations["tasks_erase"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/templates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Templates, each in its latest version, the newest first. */
        get: operations["templates_list"];
        put?: never;
        /** Make a template, or a version of one. */
        post: operations["templates_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/templates/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A template, whole, in its latest version or another. */
        get: operations["templates_get"];
        put?: never;
        post?: never;
        /** Delete a template, or one version of it. Plans and executions that were made of it stay. */
        delete: operations["templates_delete"];
        options?: never;
        head?: never;
        /** Retire a version of a template: no deploy, execute or fork takes it any more, and its runs go on. Or restore it. */
        patch: operations["templates_change"];
        trace?: never;
    };
    "/api/templates/{id}/deploy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a plan of a template and start it, or, with `options.dryRun`, make a dry run. */
        post: operations["templates_deploy"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/templates/{id}/latest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Set the latest version of a template: deploys without a version take it, whatever is published later. */
        put: operations["templates_set_latest"];
        post?: never;
        /** Let the latest version of a template be the highest again that is not retired. */
        delete: operations["templates_follow_highest"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/templates/{id}/versions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All versions of a template, the highest first. */
        get: operations["templates_versions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The usage of the tasks whose results came in a period and that are still stored, in groups; at most 100,000 tasks. */
        get: operations["budgets_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The caller's own views, then the shared ones, each the oldest first. */
        get: operations["views_list"];
        put?: never;
        /** Save a view: a named set of filters of a list. */
        post: operations["views_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/views/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Delete a view; a shared one is deleted by its maker and admins. */
        delete: operations["views_delete"];
        options?: never;
        head?: never;
        /** Rename a view, give it other filters, share it, or take it back; a shared one is changed by its maker and admins. */
        patch: operations["views_change"];
        trace?: never;
    };
    "/api/webhooks/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Webhooks and mails that were or will be sent, the newest first. */
        get: operations["webhooks_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/deliveries/{id}/redeliver": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a webhook or a mail again, under the same identifier; one that waits for its next attempt is
         *     sent at once.
         */
        post: operations["webhooks_redeliver"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The secrets that sign webhooks: of production, and of the sandbox. */
        get: operations["webhooks_secret"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/webhooks/secret/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a new secret that signs webhooks; the old one signs beside it until the overlap ends. */
        post: operations["webhooks_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The workers; lost ones are listed for an hour. */
        get: operations["system_list_workers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workers/connect": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Connect as a worker. */
        get: operations["workers_connect"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workers/{id}/drain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Have a worker finish its tasks and take no new ones. */
        post: operations["system_drain_worker"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description One limit of a provider. */
        Allowance: {
            /**
             * Format: int64
             * @description The limit of a minute.
             */
            limit: number;
            /**
             * Format: int64
             * @description The rest of it, when it was reported.
             */
            remaining: number;
        };
        /** @description An approval. */
        Approval: {
            /** @description The args of the function; in lists, their JSON stands in prompt; not in events. */
            args?: Record<string, unknown>;
            /** @description The assigned reviewer. */
            assignedTo?: string;
            /**
             * @description True if the output, or the member `field`, and the confidence are hidden until the decision, which must have
             *     `modifiedOutput`: the reviewer's own answer.
             */
            blind?: boolean;
            /** @description The reviewer who has claimed the output. */
            claimedBy?: string;
            /**
             * Format: date-time
             * @description The end of the claim.
             */
            claimedUntil?: string;
            /** @description The concurrency key of the task. */
            concurrencyKey?: string;
            /**
             * Format: double
             * @description The confidence in the output, 0 to 1.
             */
            confidence?: number;
            /** @description The source of the confidence. */
            confidenceSource?: string;
            /** @description The decision before, which others have gone by: `decision` stands beside it, and changes nothing else. */
            corrects?: components["schemas"]["Decision"];
            /**
             * Format: date-time
             * @description The time of the hold.
             */
            createdAt: string;
            /** @description The decision. */
            decision?: components["schemas"]["Decision"];
            /**
             * Format: date-time
             * @description The time at which the texts of the task were erased.
             */
            erasedAt?: string;
            /**
             * Format: date-time
             * @description The time of the first escalation.
             */
            escalatedAt?: string;
            /** @description The member of the output that a requested review judges. */
            field?: string;
            /** @description The function whose value the output is. */
            function?: string;
            /** @description The length and the last hash of its history. */
            history: components["schemas"]["Chain"];
            /** @description The idempotency key of the request that made it alone. */
            idempotencyKey?: string;
            /**
             * Format: int32
             * @description The item of the step's list that the task is for, from 0.
             */
            item?: number;
            /** @description The model's name. */
            model: string;
            /** @description The channels that notify reviewers. */
            notifyChannels?: string[];
            /** @description The model's output, in lists its first 2,000 characters; not in events. */
            output?: string;
            /** @description True if a list shows only the beginning of the output. */
            outputTruncated?: boolean;
            /** @description The execution that the task belongs to. */
            planExecutionId?: string;
            /** @description The prompt, in lists its first 2,000 characters; not in events. */
            prompt?: string;
            /** @description True if a list shows only the beginning of the prompt. */
            promptTruncated?: boolean;
            /** @description The queue's name. */
            queue: string;
            /**
             * @description The reason of the hold: required, `below_threshold`, `no_confidence` or sampled; requested if the output has
             *     passed, and nothing waits for the decision.
             */
            reason: string;
            /**
             * Format: int32
             * @description The number of times that it was opened again after a decision.
             */
            reopened?: number;
            /** @description True if the output is a sample of those that pass. */
            sampled: boolean;
            /** @description pending, assigned, escalated, expired, approved, rejected or cancelled. */
            status: string;
            /** @description The step that the task is. */
            stepId?: string;
            /** @description The beginning of the output; not in events. */
            summary?: string;
            /** @description The tags of the task. */
            tags: string[];
            /** @description The rest of the task that the output was made from; only for a single approval. */
            task?: components["schemas"]["ReviewedTask"];
            /** @description The task whose output waits; also the approval's identifier. */
            taskId: string;
            /** @description The template that the execution was deployed from. */
            templateId?: string;
            /**
             * Format: double
             * @description Minimum confidence to skip review.
             */
            threshold?: number;
            /**
             * Format: date-time
             * @description The end of the reviewers' time.
             */
            timeoutAt: string;
            /** @description The title of the task. */
            title?: string;
            /**
             * @description True if fewer than 20 outputs of its template, step, method and model were decided on, too few to
             *     know how good such confidences are.
             */
            untested?: boolean;
            /**
             * Format: int64
             * @description The wait so far, or until the decision, in milliseconds.
             */
            waitingMs: number;
        };
        /** @description The answer to an approval. */
        Approved: {
            /** Format: date-time */
            approvedAt: string;
            /** @description The user who approved the output. */
            approvedBy: string;
            /** @description The comment. */
            comment?: string;
            /** @description completed. */
            status: string;
            taskId: string;
            /** @description True if another text replaces the output. */
            wasModified: boolean;
        };
        /** @description The archive of the journal. */
        Archive: {
            /** @description The reason, and the remedy. */
            detail?: string;
            /** @description ok, or degraded: a restore to the present moment would fail. */
            status: string;
        };
        /** @description The answer to an assignment. */
        Assigned: {
            /** @description The reviewer. */
            assignedTo?: string;
            /** @description assigned, escalated or expired. */
            status: string;
            taskId: string;
        };
        /** @description An entry of the audit log. */
        AuditEntry: {
            /** @description The action, such as key.revoked. */
            action: string;
            /** @description The id of a user or a key, anonymous, or system. */
            actor: string;
            /** @description The address of the client. */
            address?: string;
            /**
             * Format: date-time
             * @description The time of the action.
             */
            at: string;
            /** @description The cell whose log has the entry, if the logs of all cells were asked for. */
            cell?: string;
            /** @description Further texts by name. */
            details?: {
                [key: string]: string;
            };
            /** @description The hash of this one. */
            hash: string;
            /** @description `aud_…` */
            id: string;
            /**
             * Format: int32
             * @description The number, counted from 1 since the first start.
             */
            number: number;
            /** @description The hash of the entry before it; 64 zeros for the first. */
            previousHash: string;
            /** @description The id of the subject. */
            target?: string;
        };
        /** @description The last backup, the archive behind it, and the moments to which the two restore the server. */
        BackupStatus: {
            /** @description The archive of the journal; absent without one. */
            archive?: components["schemas"]["Archive"];
            /** @description The last complete backup that the server was told of. */
            lastBackup?: components["schemas"]["LastBackup"];
            /** @description The last verification of a backup that the server was told of. */
            lastVerification?: components["schemas"]["LastVerification"];
            /** @description The moments to which the last backup, and the archive behind it, restore the server; absent without a backup. */
            restorable?: components["schemas"]["Restorable"];
        };
        /** @description The agreement of outputs with the reviewers' decisions. */
        BatchAgreement: {
            /**
             * Format: int32
             * @description Those that are right.
             */
            agrees: number;
            /**
             * Format: int32
             * @description Outputs that a decision tells right or wrong.
             */
            decided: number;
        };
        /** @description A batch as it was created. */
        Batch: {
            /** @description `dt_batch_…` */
            batchId: string;
            /** @description The tasks, in the order of the request. */
            tasks: components["schemas"]["BatchItem"][];
            /** @description The number. */
            total: number;
            /** @description Work that no connected worker takes now. */
            warnings?: string[];
        };
        /** @description Two batches side by side; rows with the same key are compared. */
        BatchComparison: {
            /** @description The first batch. */
            a: string;
            /** @description The agreement of the outputs with the reviewers' decisions. */
            agreement: components["schemas"]["ComparedAgreement"];
            /** @description The second batch. */
            b: string;
            /** @description The members of the outputs, in the order of their first appearance. */
            byField: components["schemas"]["ComparedField"][];
            /**
             * Format: int32
             * @description The number of rows that were looked at so far.
             */
            compared: number;
            /** @description The cost of each batch, in USD. */
            cost: components["schemas"]["ComparedCost"];
            /**
             * Format: int32
             * @description Rows of both batches whose outputs differ.
             */
            differs: number;
            /**
             * Format: int32
             * @description Rows of both batches with equal outputs.
             */
            equal: number;
            /** @description Rows of both batches that ended without an output. */
            failed: components["schemas"]["ComparedFailures"];
            /** @description False while rows are still being read: the figures are those of the first `compared` rows. */
            isComplete: boolean;
            /** @description Rows with the outcomes that were asked for, in the order of the first batch. */
            items: components["schemas"]["ComparedItem"][];
            /**
             * Format: int32
             * @description The `cursor` of the next page; left out on the last one.
             */
            nextCursor?: number;
            /** @description The rows by batch. */
            rows: components["schemas"]["ComparedRows"];
            /** @description The step that was asked for; left out for the last one of each batch. */
            step?: string;
            /**
             * Format: int32
             * @description Rows of both batches of which one waits, runs, is held, or has an output that is no longer kept.
             */
            unfinished: number;
        };
        /** @description The cost of a batch, in USD. */
        BatchCost: {
            /**
             * Format: double
             * @description The cost of all results so far, held outputs among them.
             */
            actual: number;
            /**
             * Format: double
             * @description The expected cost in all: the estimate of the first 200 rows, and later the mean cost of the rows that have ended.
             */
            estimated?: number;
            /**
             * Format: double
             * @description The cap, from which no further row is started.
             */
            max?: number;
            /**
             * Format: double
             * @description The cost of the answers that were taken over, where they were asked for.
             */
            saved: number;
        };
        /** @description The decision on an output. */
        BatchDecision: {
            /**
             * Format: date-time
             * @description The instant.
             */
            at: string;
            /** @description The reviewer. */
            by: string;
            /** @description The text that stands beside an output that had passed: an object or a list if it is JSON of one, else a text. */
            edit?: unknown;
            /** @description True if the reviewer's text replaces the output, or stands beside one that had passed. */
            edited: boolean;
            /** @description approved or rejected. */
            verdict: string;
        };
        /** @description The error of a row. */
        BatchError: {
            /** @description The code. */
            code: string;
            /** @description The text for people. */
            message: string;
        };
        /** @description One task of a batch. */
        BatchItem: {
            /** @description `dt_task_…` */
            id: string;
            /** @description pending. */
            status: string;
        };
        /** @description The number of rows in each status; the sum without `total` and `reused` is `total`. */
        BatchProgress: {
            /**
             * Format: int32
             * @description Held for a reviewer.
             */
            awaitingApproval: number;
            /**
             * Format: int32
             * @description Cancelled, or never begun in a cancelled batch.
             */
            cancelled: number;
            /**
             * Format: int32
             * @description Ended with an output that counts.
             */
            completed: number;
            /**
             * Format: int32
             * @description Failed, or not startable.
             */
            failed: number;
            /**
             * Format: int32
             * @description With a fault.
             */
            invalid: number;
            /**
             * Format: int32
             * @description Not started.
             */
            pending: number;
            /**
             * Format: int32
             * @description Rejected by a reviewer.
             */
            rejected: number;
            /**
             * Format: int32
             * @description Of the completed ones: those whose every answer was taken over from another row.
             */
            reused: number;
            /**
             * Format: int32
             * @description Running, and not held.
             */
            running: number;
            /**
             * Format: int32
             * @description All rows.
             */
            total: number;
        };
        /** @description The reviews that were asked for. */
        BatchReviews: {
            /**
             * Format: int32
             * @description The reviews that wait now.
             */
            asked: number;
            /**
             * Format: int32
             * @description The other outputs of the step that have passed without a review.
             */
            left: number;
        };
        /** @description A row of a batch; a member that does not exist yet is left out. */
        BatchRow: {
            /**
             * Format: double
             * @description The cost of all model calls, in USD, held outputs among it.
             */
            cost: number;
            /** @description The reason why the row did not end well, or never began. */
            error?: components["schemas"]["BatchError"];
            /** @description `dt_exec_…` */
            executionId?: string;
            /** @description The key, unique in the batch. */
            key: string;
            /** @description The output of the last step: an object or a list if it is JSON of one, else a text. */
            output?: unknown;
            /** @description True if every answer was taken over from another batch. */
            reused?: boolean;
            /**
             * Format: int32
             * @description The number of the row, from 1.
             */
            row: number;
            /**
             * @description pending, running, `awaiting_approval`, completed, failed, rejected, cancelled, invalid, or removed once its
             *     execution is no longer kept.
             */
            status: string;
            /** @description The steps, by their ids, in the order of the plan. */
            steps?: {
                [key: string]: components["schemas"]["BatchStep"];
            };
        };
        /** @description A page of rows. */
        BatchRows: {
            /**
             * Format: int32
             * @description The `cursor` of the next page; left out on the last one. A page may be short, or empty, and have a next one.
             */
            nextCursor?: number;
            /** @description The rows, in the order that was asked for. */
            rows: components["schemas"]["BatchRow"][];
        };
        /** @description A batch as it is. */
        BatchStatus: {
            /** @description `dt_batch_…` */
            batchId: string;
            /** @description The number in each status. */
            counts: {
                [key: string]: number;
            };
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The tasks that are still stored, in the order of the request. */
            tasks: components["schemas"]["BatchItem"][];
            /** @description The number. */
            total: number;
        };
        /** @description A step of a row. */
        BatchStep: {
            /**
             * Format: double
             * @description The confidence in the output, 0 to 1.
             */
            confidence?: number;
            /** @description The method by which the confidence was made. */
            confidenceSource?: string;
            /**
             * Format: double
             * @description The cost of its model calls, in USD.
             */
            cost: number;
            /** @description The reviewer's decision. */
            decision?: components["schemas"]["BatchDecision"];
            /** @description The model that was called last. */
            model?: string;
            /** @description pending, running, completed, failed, cancelled, skipped or rejected. */
            status: string;
        };
        /** @description A budget of many tasks. */
        Budget: {
            /** @description The shares of the limit at which `budget.alert` is sent. */
            alertAt: number[];
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description `bdg_…` */
            id: string;
            /**
             * Format: double
             * @description The limit of a period, in USD.
             */
            limit: number;
            /** @description The tasks that it is for. */
            match: components["schemas"]["BudgetMatch"];
            /** @description wait, reject or alert. */
            onExceed: string;
            /** @description day, week, month or total. */
            period: string;
            /**
             * Format: date-time
             * @description The end of the period.
             */
            periodEnd?: string;
            /**
             * Format: date-time
             * @description The beginning of the period.
             */
            periodStart?: string;
            /**
             * Format: double
             * @description The highest costs of tasks that have not ended, in USD; not in events.
             */
            reserved?: number;
            /**
             * Format: double
             * @description The share that was passed, in `budget.alert`.
             */
            share?: number;
            /**
             * Format: double
             * @description The costs in the period, in USD.
             */
            spent: number;
            /** @description The zone whose midnights count. */
            timezone: string;
        };
        BudgetMatch: {
            /** @description All of these tags. */
            tags?: string[] | null;
            /** @description The id of the user or key that submits. */
            account?: string | null;
            /** @description The id of the template that the execution was deployed from. */
            templateId?: string | null;
            /** @description The model. */
            model?: string | null;
        };
        /** @description A bulk job, or the result of a dry run. */
        Bulk: {
            /** @description cancel, retry, reprioritize, reject or erase. */
            action: string;
            /**
             * Format: date-time
             * @description The end.
             */
            completedAt?: string;
            /**
             * Format: date-time
             * @description The start.
             */
            createdAt?: string;
            /** @description The account that started the job. */
            createdBy?: string;
            /**
             * Format: int32
             * @description The items that were acted on.
             */
            done: number;
            /** @description The texts that are erased so far, of erase. */
            erased?: components["schemas"]["ErasureCounts"];
            /**
             * Format: int32
             * @description The items on which the action failed.
             */
            failed: number;
            /** @description `blk_…`; not in a dry run. */
            id?: string;
            /** @description tasks, executions or all. */
            of: string;
            /**
             * Format: int32
             * @description The new priority.
             */
            priority?: number;
            /** @description The reason why a cancelled job ended before it had acted on every item. */
            reason?: string;
            /**
             * Format: int32
             * @description The items that the action does not fit, such as ended ones for cancel.
             */
            skipped: number;
            /** @description running, completed or cancelled; `dry_run` of a dry run. */
            status: string;
            /**
             * Format: int32
             * @description The items that are as the action wants them.
             */
            succeeded: number;
            /**
             * Format: int64
             * @description The items that matched.
             */
            total: number;
            /** @description The reason why tasks that match do not count, or why the first task was skipped or failed. */
            why?: string;
        };
        /** @description The calibration of confidences. */
        Calibration: {
            /** @description The decisions on outputs by confidence: ten ranges of 0.1. */
            deciles: components["schemas"]["Decile"][];
            /** @description The method that was asked for. */
            method?: string;
            /** @description The model that was asked for. */
            model?: string;
            /** @description The decisions on outputs without a confidence; they count in no threshold. */
            noConfidence: components["schemas"]["Tally"];
            /** @description The step that was asked for. */
            stepId?: string;
            /** @description The template that was asked for. */
            templateId?: string;
            /** @description The result of each threshold. */
            thresholds: components["schemas"]["Threshold"][];
        };
        /** @description A cancelled task. */
        Cancelled: {
            /**
             * Format: date-time
             * @description The time of the cancellation.
             */
            cancelledAt?: string;
            /** @description The id of the task. */
            id: string;
            /** @description cancelled. */
            status: string;
        };
        /** @description A cell. */
        Cell: {
            /** @description The state of the service there; absent if the cell did not answer. */
            health?: components["schemas"]["CellHealth"];
            /** @description The name; `home` is the one where people sign in. */
            name: string;
            /** @description The addresses of its nodes; none for home. */
            nodes: string[];
            /** @description The number of projects that it has. */
            projects: number;
            /**
             * Format: date-time
             * @description The time at which the cell was heard last.
             */
            seenAt?: string;
            /**
             * @description `home`; `following` if the cell has home's list of now, `behind` if it has an older one, `silent` if it was not
             *     heard for 5 seconds.
             */
            status: string;
        };
        /** @description The state of the service in a cell. */
        CellHealth: {
            /** @description The components that are not ok, each with its reason. */
            components?: {
                [key: string]: string;
            };
            /** @description The worst of its components: ok, degraded or unavailable. */
            status: string;
        };
        /** @description The length and the last hash of a history. */
        Chain: {
            /** @description The hash of the last. */
            hash: string;
            /**
             * Format: int32
             * @description The number of entries.
             */
            length: number;
        };
        /** @description The answer to a claim or a release. */
        Claimed: {
            /** @description The reviewer who has claimed the output. */
            claimedBy?: string;
            /**
             * Format: date-time
             * @description The end of the claim.
             */
            claimedUntil?: string;
            taskId: string;
        };
        /** @description A queue for which a model is closed. */
        ClosedQueue: {
            /** @description The queue. */
            queue: string;
            /**
             * Format: date-time
             * @description The time before which no call begins.
             */
            until: string;
        };
        /** @description The agreement of two batches with the decisions. */
        ComparedAgreement: {
            /** @description Of the first. */
            a: components["schemas"]["BatchAgreement"];
            /** @description Of the second. */
            b: components["schemas"]["BatchAgreement"];
        };
        /** @description The cost of two batches, in USD. */
        ComparedCost: {
            /**
             * Format: double
             * @description Of the first.
             */
            a: number;
            /**
             * Format: double
             * @description Of the second.
             */
            b: number;
        };
        /** @description The number of rows of both batches that ended without an output. */
        ComparedFailures: {
            /**
             * Format: int32
             * @description In the first.
             */
            a: number;
            /**
             * Format: int32
             * @description In the second.
             */
            b: number;
            /**
             * Format: int32
             * @description Rows that have ended in both, and so in at least one.
             */
            either: number;
        };
        /** @description A member of the outputs. */
        ComparedField: {
            /**
             * Format: int32
             * @description Compared rows in which it differs.
             */
            differs: number;
            /**
             * Format: int32
             * @description Compared rows in which it is equal, or absent on both sides.
             */
            equal: number;
            /** @description The name. */
            field: string;
        };
        /** @description A key of one or both batches. */
        ComparedItem: {
            /** @description The row of the first batch. */
            a?: components["schemas"]["BatchRow"];
            /** @description The row of the second batch. */
            b?: components["schemas"]["BatchRow"];
            /** @description The members that differ. */
            fields: string[];
            /** @description The key. */
            key: string;
            /** @description equal, differs, unfinished, failed, onlyA or onlyB. */
            outcome: string;
        };
        /** @description The number of keys by batch. */
        ComparedRows: {
            /**
             * Format: int32
             * @description Keys of both.
             */
            both: number;
            /**
             * Format: int32
             * @description Keys of the first alone.
             */
            onlyA: number;
            /**
             * Format: int32
             * @description Keys of the second alone.
             */
            onlyB: number;
        };
        /** @description The state of one component. */
        Component: {
            /** @description The text for people. */
            detail?: string;
            /** @description ok, degraded, unavailable or `not_configured`. */
            status: string;
        };
        /** @description The parts of the service. */
        Components: {
            /** @description The database. */
            database: components["schemas"]["Component"];
            /** @description The workflow engine. */
            engine: components["schemas"]["Component"];
            /** @description The vector store, which this server lacks. */
            vectorStore: components["schemas"]["Component"];
            /** @description The workers. */
            workers: components["schemas"]["Component"];
        };
        Confidence: {
            /**
             * @description auto (logprobs where the model gives them, else none), logprobs, samples, judge or none.
             * @enum {string}
             */
            method: "auto" | "logprobs" | "samples" | "judge" | "none";
            /** @description The samples besides the answer, or the verdicts of a judge without logprobs: 2 to 9; by default 3. */
            n?: number;
            /** @description The members of a JSON output that samples must agree on; by default those of the schema. */
            fields?: string[];
            /** @description The model that judges; required for judge. */
            judgeModel?: string;
            /** @description The criteria of the judge: at most 16 KiB. */
            rubric?: string;
        };
        /** @description The decisions on outputs of some confidence. */
        Decile: components["schemas"]["Tally"] & {
            /**
             * Format: double
             * @description The lower bound of the confidence.
             */
            from: number;
            /**
             * Format: double
             * @description Confidences are below this; those of the last decile are up to 1 and with it.
             */
            to: number;
        };
        /** @description The decision. */
        Decision: {
            /**
             * Format: date-time
             * @description The time of the decision.
             */
            at: string;
            /** @description The user or key that decided. */
            by: string;
            /** @description The comment, or the reason of a rejection; not in events. */
            comment?: string;
            /** @description The reviewer's text, in lists its first 2,000 characters; not in events. */
            modifiedOutput?: string;
            /** @description True if a list shows only the beginning of that text. */
            modifiedOutputTruncated?: boolean;
            /** @description The task that tries again. */
            retryTaskId?: string;
            /** @description approved or rejected. */
            status: string;
            /** @description True if a reviewer's text replaces the output. */
            wasModified: boolean;
        };
        Defaults: {
            /** @description The model. */
            model?: string;
            /** @description The queue. */
            queue?: string;
            /** @description The time limit of one attempt, in milliseconds. */
            timeoutMs?: number;
            /** @description The most tokens of the output. */
            maxTokens?: number;
            /** @description The sampling temperature. */
            temperature?: number;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[];
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[];
            /**
             * @description The service tier to ask the provider for.
             * @enum {string}
             */
            serviceTier?: "auto" | "flex" | "priority";
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string}
             */
            onConflict?: "queue" | "reject" | "cancel_running";
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number;
            /** @description The JSON Schema (2020-12) of the output; the template's own holds for the last step. */
            outputSchema?: Record<string, unknown>;
            /** @description The source of the confidence. */
            confidence?: components["schemas"]["Confidence"];
        };
        /** @description The result of a deletion. */
        Deleted: {
            /** @description The template. */
            id: string;
            /** @description The deleted versions, the highest first. */
            versions: string[];
        };
        /** @description A delivery of a webhook or a mail. */
        Delivery: {
            /**
             * Format: int32
             * @description Attempts that were begun.
             */
            attempts: number;
            /**
             * Format: date-time
             * @description The time of the reported event, such as the end of the task.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time of the delivery.
             */
            deliveredAt?: string;
            /** @description The reported event, such as `task.completed`, `hitl.assigned` or `key.ends_soon`. */
            event: string;
            /** @description The execution that the delivery is about. */
            executionId?: string;
            /** @description `dlv_…`, the same for every attempt: the `webhook-id` of a webhook. */
            id: string;
            /** @description The API key that a mail is about. */
            keyId?: string;
            /** @description webhook or mail. */
            kind: string;
            /** @description The reason of the last failed attempt, or of the drop. */
            lastError?: string;
            /**
             * Format: int32
             * @description The HTTP status of the last attempt, if there was an answer.
             */
            lastStatus?: number;
            /**
             * Format: date-time
             * @description The time of the next attempt, while the delivery is pending.
             */
            nextAttemptAt?: string;
            /** @description pending, delivered, dead or dropped. */
            status: string;
            /** @description The task that the delivery is about. */
            taskId?: string;
            /** @description The user to whom a mail goes. */
            to?: string;
            /** @description The address of a webhook, as given. */
            url?: string;
        };
        /** @description A run under `options.maxCost`, if each step has its likely cost. */
        DryBudget: {
            /** @description True if every step fits. */
            fits: boolean;
            /**
             * Format: double
             * @description The most that the run may cost, in USD.
             */
            maxCost: number;
            /** @description The reason, with the amounts. */
            message?: string;
            /** @description The first step that would not be dispatched. */
            stepId?: string;
        };
        /** @description The items of a step as it would run. */
        DryItems: {
            /**
             * Format: double
             * @description The average cost of an item, in USD.
             */
            estimatedCost: number;
            /**
             * @description The length of the list; left out where it comes from an output, and `estimatedCost` is for
             *     maxItems.
             */
            expected?: number;
            /**
             * Format: int32
             * @description The longest list.
             */
            maxItems: number;
        };
        /** @description The dry run of an execution; nothing is stored or started. */
        DryRun: {
            /** @description The run under `options.maxCost`, if that is given. */
            budget?: components["schemas"]["DryBudget"];
            /** @description The ids of the steps that the run cannot be shorter than, first to last. */
            criticalPath: string[];
            /** @description The estimated usage. */
            estimate: components["schemas"]["Estimate"];
            /** @description The execution, where one is forked. */
            forkOf?: string;
            /** @description The plan, where one is executed. */
            planId?: string;
            /** @description `dry_run`. */
            status: string;
            /** @description The steps, in the order of the document. */
            steps: components["schemas"]["DryStep"][];
            /** @description The template, where one is deployed. */
            templateId?: string;
        };
        /** @description A step as it would run. */
        DryStep: {
            /**
             * @description The state of its condition with this input: runs, skips, fails, or unknown if it needs an output.
             *     Left out without a condition.
             */
            condition?: string;
            /** @description The ids of the steps that must complete first. */
            dependsOn: string[];
            /**
             * Format: double
             * @description The estimated cost, in USD.
             */
            estimatedCost: number;
            /** @description The function that the step calls; `prompt` is then its args as JSON. */
            function?: string;
            /** @description The review of the output: always, threshold or none. */
            gate: string;
            /** @description The step's id. */
            id: string;
            /** @description The items of a step with forEach. */
            items?: components["schemas"]["DryItems"];
            /** @description The number of steps that run before it, one after the other; from 0. */
            level: number;
            /** @description The model that it would run on; empty for a wait. */
            model: string;
            /** @description True if the model has no price, which counts as 0. */
            priceUnknown?: boolean;
            /** @description The prompt, rendered; a reference to an output stays as it was written. Empty for a wait. */
            prompt: string;
            /** @description True if the prompt was cut: a dry run shows at most 2 MiB of prompts. */
            promptTruncated?: boolean;
            /** @description The queue that it would wait in; empty for a wait. */
            queue: string;
            /** @description True if the fork takes the step's output over. */
            reused?: boolean;
            /** @description The signal that a wait waits for. */
            signal?: string;
            /** @description `wait` for a step that waits for a signal; else left out. */
            type?: string;
        };
        /** @description One entry of the history of an approval; members of other actions are left out. */
        Entry: {
            /**
             * @description pending, assigned, escalated, expired, claimed, released, extended, approved, rejected, retried, cancelled
             *     or `notification_skipped`.
             */
            action?: string;
            /** @description The actor: the identifier of a user or a key, or `system`. */
            actor?: string;
            /** @description The chosen reviewer. */
            assignedTo?: string;
            /**
             * Format: date-time
             * @description The end of the claim.
             */
            claimedUntil?: string;
            /** @description The reviewer's comment. */
            comment?: string;
            /** @description The SHA-256 of the salt and `comment`, or `reason`. */
            commentHash?: string;
            /**
             * Format: double
             * @description The model's confidence, 0 to 1.
             */
            confidence?: number;
            /** @description Further details. */
            details?: components["schemas"]["More"];
            /** @description The SHA-256 of the salt and `modifiedOutput`. */
            editHash?: string;
            /** @description The reviewer assigned before. */
            from?: string;
            /** @description The SHA-256 of the entry in its canonical form. */
            hash?: string;
            /** @description The reviewer's text. */
            modifiedOutput?: string;
            /**
             * Format: int32
             * @description Counted from 1.
             */
            number?: number;
            /** @description The SHA-256 of the salt and the output that was shown. */
            outputHash?: string;
            /** @description The hash of the entry before; 64 zeros for the first. */
            previousHash?: string;
            /** @description The reason of the rejection, or of more time. */
            reason?: string;
            /** @description The task that tries again. */
            retryTaskId?: string;
            /** @description The user named as the reviewer. */
            reviewerId?: string;
            /** @description The salt of the hashes of texts: 32 hexadecimal digits; absent once the texts are erased. */
            salt?: string;
            /**
             * Format: date-time
             * @description The instant.
             */
            timestamp?: string;
            /** @description The reviewer assigned now. */
            to?: string;
            /**
             * Format: int32
             * @description The version of the entry's format: 1 if absent, or 2, in which hashes of texts are salted.
             */
            version?: number;
            /** @description True if the reviewer's text replaces the output. */
            wasModified?: boolean;
        };
        /** @description A task whose texts are erased. */
        Erased: {
            /**
             * Format: date-time
             * @description The time of the first erasure.
             */
            erasedAt?: string;
            /** @description The task. */
            id: string;
            /** @description The status, which stays. */
            status: string;
        };
        /** @description An execution whose texts are erased. */
        ErasedExecution: {
            /**
             * Format: date-time
             * @description The time of the first erasure.
             */
            erasedAt?: string;
            /** @description `dt_exec_…` */
            id: string;
            /**
             * Format: int64
             * @description The payloads of signals that this request has erased.
             */
            signals: number;
            /** @description The status, which stays. */
            status: string;
            /** @description The places where the texts still are, and until when. */
            stays: string;
            /**
             * Format: int64
             * @description The tasks whose texts this request has erased.
             */
            tasks: number;
        };
        /** @description The texts that a job has erased, by item. */
        ErasureCounts: {
            /**
             * Format: int64
             * @description Executions whose own texts were erased.
             */
            executions: number;
            /**
             * Format: int64
             * @description Payloads of signals.
             */
            signals: number;
            /**
             * Format: int64
             * @description Tasks, those of the executions among them.
             */
            tasks: number;
        };
        /** @description The estimated usage of a run. */
        Estimate: {
            /** @description The basis of the estimate: history or prices. */
            basis: string;
            /**
             * Format: double
             * @description The likely cost, in USD.
             */
            cost: number;
            /**
             * Format: double
             * @description The worst case, in USD.
             */
            costHigh: number;
            /**
             * Format: int64
             * @description The duration, in milliseconds, without reviews and queues.
             */
            durationMs: number;
            /** @description True if a model has no price, which counts as 0. */
            priceUnknown?: boolean;
        };
        /** @description A cost with its range, in USD. */
        EstimatedCost: {
            /**
             * Format: double
             * @description The expected cost.
             */
            expected: number;
            /**
             * Format: double
             * @description The upper end of the range.
             */
            high: number;
            /**
             * Format: double
             * @description The lower end of the range.
             */
            low: number;
        };
        /** @description The expected tokens. */
        EstimatedUsage: {
            /**
             * Format: int64
             * @description Input tokens.
             */
            input: number;
            /**
             * Format: int64
             * @description Output tokens.
             */
            output: number;
        };
        /** @description An execution; a member that does not exist yet is left out. */
        Execution: components["schemas"]["Labels"] & {
            /** @description The batch that it is a row of: `bat_…` */
            batchId?: string;
            /** @description The receiver of webhooks. */
            callbackUrl?: string;
            /**
             * Format: date-time
             * @description The time of the end.
             */
            completedAt?: string;
            /**
             * Format: date-time
             * @description The time at which the texts were erased.
             */
            erasedAt?: string;
            /** @description The error, once it has failed. */
            error?: components["schemas"]["ExecutionError"];
            /** @description The execution that it is a fork of. */
            forkedFrom?: components["schemas"]["ForkedFrom"];
            /** @description `dt_exec_…` */
            id: string;
            /** @description The idempotency key of the request that started it. */
            idempotencyKey?: string;
            /** @description The input, defaults filled in; not in lists. */
            input?: Record<string, unknown>;
            /** @description The key of that row. */
            key?: string;
            /** @description The plan that it runs: `dt_plan_…` */
            planId: string;
            /** @description The number of steps in each state; in an event, at the time of reading. */
            progress?: components["schemas"]["Progress"];
            /**
             * Format: date-time
             * @description The instant before which it does not begin.
             */
            startAt?: string;
            /**
             * Format: date-time
             * @description The time of the first run.
             */
            startedAt?: string;
            /** @description pending, running, completed, failed or cancelled. */
            status: string;
            /** @description The state of each step, by its id; not in lists. */
            steps?: {
                [key: string]: components["schemas"]["StepResult"];
            };
            /** @description The tags of the plan and of the request. */
            tags?: string[];
            /** @description The template that it was deployed from. */
            templateId?: string;
            /** @description The version that was deployed. */
            templateVersion?: string;
            /** @description The usage of all its model calls. */
            usage: components["schemas"]["Usage"];
            /**
             * @description The reason that nothing of it runs: schedule while it is pending; worker, approval, backoff, limit,
             *     `queue_paused`, budget or signal of the step that waits.
             */
            waitingFor?: string;
            /**
             * Format: date-time
             * @description The instant since which it waits, if it is known.
             */
            waitingSince?: string;
            /**
             * Format: date-time
             * @description The end of the wait, if it is known: the earliest, or the latest for a signal.
             */
            waitingUntil?: string;
            /** @description Work that no connected worker takes now; only in the answer to a start. */
            warnings?: string[];
        };
        /** @description The error of an execution. */
        ExecutionError: {
            /** @description The code. */
            code: string;
            /** @description The text for people. */
            message: string;
            /** @description The step in which the error occurred, if in one. */
            stepId?: string;
        };
        /** @description The answer to an extension. */
        Extended: {
            /** @description pending, assigned or escalated. */
            status: string;
            taskId: string;
            /**
             * Format: date-time
             * @description The end of the reviewers' time.
             */
            timeoutAt: string;
        };
        /** @description A file, without its bytes. */
        File: {
            /**
             * Format: int64
             * @description The length.
             */
            bytes: number;
            /** @description The media type: by the bytes where the server knows the format, else as it was declared. */
            contentType: string;
            /**
             * Format: date-time
             * @description The end of the upload.
             */
            createdAt: string;
            /** @description The account that uploaded the file. */
            createdBy: string;
            /** @description `file_…` */
            id: string;
            /** @description The part that messages show the file as: image or document; absent from a file that no model is shown. */
            kind?: string;
            /** @description The name, for people and models. */
            name?: string;
            /** @description The SHA-256 of the bytes, in hexadecimal. */
            sha256: string;
        };
        Flow: {
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string}
             */
            onConflict?: "queue" | "reject" | "cancel_running";
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number;
        };
        /** @description The answer to a forgotten password, which is the same for every e-mail. */
        Forgotten: {
            /** @description True: if there is such a user, a mail with a link is on its way. */
            accepted: boolean;
        };
        /** @description The origin of a fork. */
        ForkedFrom: {
            /** @description The execution whose completed steps it takes over. */
            executionId: string;
            /** @description The step that runs anew in any case. */
            fromStep?: string;
        };
        /** @description A function that connected workers run. */
        Function: {
            /** @description The description, for people. */
            description?: string;
            /** @description The JSON Schema of its args. */
            inputSchema?: Record<string, unknown>;
            /** @description The name. */
            name: string;
            /** @description The JSON Schema of its output. */
            outputSchema?: Record<string, unknown>;
            /** @description The connected workers that announce it. */
            workers: number;
        };
        /** @description The state of the service. */
        Health: {
            /** @description The parts of the service. */
            components: components["schemas"]["Components"];
            /** @description The pause of everything, and its reason; absent while tasks are leased. */
            paused?: string;
            /** @description The worst of its components: ok, degraded or unavailable. */
            status: string;
            /** @description The release of the IANA time-zone database by which schedules go, such as 2026a. */
            timeZoneData: string;
            /**
             * Format: int64
             * @description The time since the start, in milliseconds.
             */
            uptimeMs: number;
            /** @description The program's version. */
            version: string;
            /** @description Settings that do not go together, and certificates that end within two weeks; they do not change the status. */
            warnings?: string[];
        };
        /** @description A task whose texts have the words. */
        Hit: {
            /**
             * Format: date-time
             * @description The time of the task's creation.
             */
            createdAt: string;
            /** @description The execution that the task is of. */
            executionId?: string;
            /** @description The id of the task. */
            id: string;
            /** @description task, or step for a task of an execution. */
            kind: string;
            /** @description The text around the words, at most 160 characters, in pieces. */
            snippet: components["schemas"]["Piece"][];
            /** @description The status of the task. */
            status: string;
            /** @description The step that the task is. */
            stepId?: string;
            /** @description The title of the task. */
            title?: string;
            /** @description The text that is shown: prompt, systemPrompt, messages, context, args, output or thinking. */
            where: string;
        };
        Hitl: {
            /** @description The ids of the steps whose outputs are always held. */
            requiredFor?: string[];
            /** @description Minimum confidence to skip review. */
            confidenceThreshold?: number;
            /** @description The time of the reviewer, in milliseconds; by default 3600000. */
            timeoutMs?: number;
            /** @description The share of the other outputs that is held as well; by default 0. */
            sampleRate?: number;
            /** @description The channels that notify reviewers. */
            notifyChannels?: ("email" | "dashboard")[];
        };
        /** @description An open invitation. */
        Invitation: {
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The creator: the id of a user or a key. */
            createdBy?: string;
            /** @description The e-mail of the invited person. */
            email?: string;
            /**
             * Format: date-time
             * @description The end of its validity.
             */
            expiresAt: string;
            /** @description `inv_…` */
            id: string;
            /** @description The name of the person. */
            name?: string;
            /** @description The role of the account. */
            role: string;
        };
        /** @description An invitation as the invited person sees it. */
        InvitationPreview: {
            /** @description The e-mail with which the account signs in; without it the person chooses one. */
            email?: string;
            /**
             * Format: date-time
             * @description The end of its validity.
             */
            expiresAt: string;
            /** @description The name, unless the person gives another one. */
            name?: string;
            /** @description The role of the account. */
            role: string;
        };
        /** @description An item of a step; a member that does not exist yet is left out. */
        Item: components["schemas"]["StepResult"] & {
            /**
             * Format: int32
             * @description The item's number in the list, from 0.
             */
            item: number;
        };
        /** @description The number of items in each state; all but `awaitingApproval` sum to `total`. */
        ItemCounts: {
            /**
             * Format: int32
             * @description The number of the pending ones that wait for a reviewer.
             */
            awaitingApproval: number;
            /**
             * Format: int32
             * @description Cancelled, or not begun when the step ended.
             */
            cancelled: number;
            /**
             * Format: int32
             * @description The number with an output.
             */
            completed: number;
            /**
             * Format: int32
             * @description Failed for good.
             */
            failed: number;
            /**
             * Format: int32
             * @description Not begun, in a queue, in backoff, or with a reviewer.
             */
            pending: number;
            /**
             * Format: int32
             * @description The number whose output a reviewer rejected.
             */
            rejected: number;
            /**
             * Format: int32
             * @description The number with a worker.
             */
            running: number;
            /**
             * Format: int32
             * @description All items.
             */
            total: number;
        };
        /** @description A new key with its text. */
        Key: {
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description live or test. */
            environment: string;
            /**
             * Format: date-time
             * @description The end of its validity.
             */
            expiresAt: string;
            /** @description `key_…` */
            id: string;
            /** @description The key's text, returned only here. */
            key: string;
            /** @description The last four characters of its text. */
            last4: string;
            /** @description The name. */
            name: string;
            /** @description `svc_live_`, `svc_test_` or `svc_worker_`. */
            prefix: string;
            /** @description The queues that a worker key is bound to. */
            queues?: string[];
            /** @description The role. */
            role: string;
        };
        /** @description A key as it is listed. */
        KeySummary: {
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The creator: the id of a user or a key. */
            createdBy?: string;
            /** @description live or test. */
            environment: string;
            /**
             * Format: date-time
             * @description The latest end of its validity.
             */
            expiresAt: string;
            /** @description `key_…` */
            id: string;
            /** @description The last four characters of its text. */
            last4: string;
            /**
             * Format: date-time
             * @description The time of the last use; up to a minute earlier after a crash.
             */
            lastUsedAt?: string;
            /** @description The name. */
            name: string;
            /** @description free, pro or enterprise, if it has one of its own. */
            plan?: string;
            /** @description `svc_live_`, `svc_test_` or `svc_worker_`. */
            prefix: string;
            /** @description The queues that a worker key is bound to. */
            queues?: string[];
            /**
             * Format: date-time
             * @description The instant from which the key is refused; in the future while a rotated key still works.
             */
            revokedAt?: string;
            /** @description The role. */
            role: string;
            /** @description active, expired or revoked. */
            status: string;
            /** @description The user whose loss of the right to give the key's role ends the key. */
            userId?: string;
        };
        Labels: {
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[];
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean;
        };
        /** @description A complete backup. */
        LastBackup: {
            /**
             * Format: date-time
             * @description Its end: it holds everything that was acknowledged before it began.
             */
            endedAt: string;
            /**
             * Format: int64
             * @description The number of its last group.
             */
            group: number;
        };
        /** @description A verification of a backup. */
        LastVerification: {
            /**
             * Format: date-time
             * @description Its end.
             */
            at: string;
            /** @description The name of the backup in its repository. */
            backup: string;
            /** @description The damage, in words. */
            detail?: string;
            /**
             * @description restores: every chunk is intact, and a trial restored and opened the backup; intact: no restore was tried;
             *     damaged.
             */
            result: string;
        };
        /** @description The limits of a model; a member that is left out is unlimited. */
        Limits: {
            /**
             * Format: int64
             * @description Calls in flight.
             */
            concurrent?: number;
            /**
             * Format: int64
             * @description Input tokens in any minute.
             */
            inputTokensPerMinute?: number;
            /**
             * Format: int64
             * @description Output tokens in any minute.
             */
            outputTokensPerMinute?: number;
            /**
             * Format: int64
             * @description Requests in any minute.
             */
            requestsPerMinute?: number;
            /**
             * Format: int64
             * @description Both together in any minute.
             */
            tokensPerMinute?: number;
        };
        /** @description A link that signs in. */
        Link: {
            /**
             * Format: date-time
             * @description The end of its validity.
             */
            expiresAt: string;
            /** @description The token alone. */
            token: string;
            /** @description The address to open in a browser. */
            url: string;
        };
        /** @description The user whom a link signs in. */
        LinkPreview: {
            /** @description The e-mail of the user. */
            email: string;
            /**
             * Format: date-time
             * @description The end of the link's validity.
             */
            expiresAt: string;
            /** @description The name of the user. */
            name: string;
        };
        Lists: string | {
            [key: string]: string;
        };
        /** @description The result of a logout. */
        LoggedOut: {
            /** @description The number of ended sessions. */
            ended: number;
        };
        /** @description A member of a project. */
        Member: {
            /** @description The user's e-mail. */
            email: string;
            /** @description The user's name. */
            name: string;
            /** @description The role within the project. */
            role: string;
            /**
             * Format: date-time
             * @description The time of joining.
             */
            since: string;
            /** @description The user: `usr_…` */
            userId: string;
        };
        Message: {
            /**
             * @description The author.
             * @enum {string}
             */
            role: "user" | "assistant";
            /** @description The text, or parts: texts, images and documents; those of a step have placeholders. */
            content: components["schemas"]["MessageContent"];
        };
        MessageContent: string | components["schemas"]["MessagePart"][];
        MessagePart: {
            /**
             * @description The kind.
             * @enum {string}
             */
            type: "text" | "image" | "document";
            /** @description The text of a part of the type text. */
            text?: string;
            /** @description The id of the file that another part shows; in a step a placeholder too, of an id or of a list of ids. */
            file?: string;
        };
        /** @description The ways to sign in. */
        Methods: {
            /** @description True if users can sign in at an identity provider. */
            oidc: boolean;
            /** @description True if users can sign in by e-mail and password. */
            password: boolean;
            /** @description True if a user who has forgotten the password gets a link by mail. */
            passwordReset: boolean;
            /** @description True if there is no admin yet: the setup link makes the first one. */
            setup: boolean;
        };
        /** @description A model; a figure that nobody set or reported is left out. */
        ModelState: {
            /** @description The reason. */
            closedBecause?: string;
            /** @description The queues for whose tasks alone no call begins: their workers' keys serve no other queues. */
            closedQueues?: components["schemas"]["ClosedQueue"][];
            /**
             * Format: date-time
             * @description The time before which no call begins: the provider refused one, or could not be reached.
             */
            closedUntil?: string;
            /** @description The limits that count. */
            limits: components["schemas"]["Limits"];
            /** @description The name. */
            name: string;
            /** @description The prices, in USD per token. */
            price?: components["schemas"]["Price"];
            /** @description The limits in the headers of the provider's last answer. */
            reported?: components["schemas"]["Reported"];
            /** @description The use of the last minute, including the reservations of calls in flight. */
            used: components["schemas"]["Used"];
            /** @description The connected workers that announce the model by its exact name. */
            workers: number;
        };
        /** @description Further details of the action. */
        More: {
            /** @description The rule that chose the reviewer. */
            assignmentMethod?: string;
            /**
             * Format: int32
             * @description The number of outputs that the reviewer approved at once; absent if it was this one alone.
             */
            bulk?: number;
            /**
             * Format: int64
             * @description The length of the wait, in milliseconds.
             */
            escalationAfterMs?: number;
            /**
             * Format: int32
             * @description The item of the step's list that the task is for, from 0.
             */
            item?: number;
            /** @description The execution that the task belongs to. */
            planExecutionId?: string;
            /** @description The text for people. */
            reason?: string;
            /** @description The step that the task is. */
            stepId?: string;
            /**
             * Format: double
             * @description Minimum confidence to skip review.
             */
            threshold?: number;
            /**
             * Format: date-time
             * @description The end of the reviewers' time.
             */
            timeoutAt?: string;
            /** @description required, `below_threshold`, `no_confidence` or sampled. */
            why?: string;
        };
        /** @description A new invitation with its link. */
        NewInvitation: components["schemas"]["Invitation"] & {
            /** @description True if the server sends the link to the e-mail of the invitation. */
            mailed: boolean;
            /** @description The token alone. */
            token: string;
            /** @description The address for the invited person, returned only here. */
            url: string;
        };
        /** @description A node of the cluster. */
        Node: {
            /** @description The address at which the other nodes reach it. */
            address: string;
            /** @description True if the node hands its work to another one. */
            draining: boolean;
            /**
             * Format: int64
             * @description The milliseconds until its term ends, unless it is renewed.
             */
            expiresInMs: number;
            /** @description 32 hexadecimal digits. */
            id: string;
            /**
             * Format: int64
             * @description The milliseconds since its last renewal: how far the cluster's knowledge of the node lags behind it. Absent
             *     before the first.
             */
            lastHeardMs?: number;
            /** @description The number of partitions that it owns, of 256. */
            partitions: number;
            /** @description active, standby, or lost once its term is over without a sign of life. */
            status: string;
            /**
             * Format: int64
             * @description The length of its term in milliseconds; absent before its first renewal.
             */
            termMs?: number;
            /** @description The version of the node's program. */
            version: string;
        };
        /** @description An open session as it is listed. */
        OpenSession: {
            /**
             * Format: date-time
             * @description The time of the sign-in.
             */
            createdAt: string;
            /** @description True if the request was made in this session. */
            current: boolean;
            /**
             * Format: date-time
             * @description The end of the session, unless it is renewed.
             */
            expiresAt?: string;
            /** @description `ses_…` */
            id: string;
            /**
             * Format: date-time
             * @description The time of the last renewal.
             */
            refreshedAt?: string;
            /** @description The owner. */
            userId: string;
        };
        /** @description The pause of everything. */
        Pause: {
            /** @description The account that paused. */
            by?: string;
            /** @description True if no task is leased. */
            paused: boolean;
            /** @description The reason. */
            reason?: string;
            /**
             * Format: date-time
             * @description The beginning of the pause.
             */
            since?: string;
            /** @description True if the server was started with --paused: nothing leaves it, and only a start without ends that. */
            standsStill: boolean;
            /** @description accept or refuse: the treatment of submissions. */
            submissions?: string;
        };
        /** @description A piece of a snippet. */
        Piece: {
            /** @description True for the beginning of a word that was asked for. */
            match: boolean;
            /** @description The text. */
            text: string;
        };
        /** @description A plan. */
        Plan: {
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The description: at most 500 characters. */
            description?: string;
            /** @description The gates of each execution, as the template and the deploy have them; not in lists. */
            hitl?: components["schemas"]["Hitl"];
            /** @description `dt_plan_…` */
            id: string;
            /** @description The template's schema, by which the input of each execution is checked; not in lists. */
            inputSchema?: Record<string, unknown>;
            /** @description The name: 1 to 100 characters. */
            name: string;
            /** @description 1 to 500 steps; in lists without their prompts. */
            steps: components["schemas"]["Step"][];
            /** @description The tags, for filtering: at most 32 of at most 64 characters. */
            tags: string[];
            /** @description The template that it was deployed from. */
            templateId?: string;
            /** @description The version of the template. */
            templateVersion?: string;
            /** @description The title of its executions, with `{{…}}`. */
            title?: string;
        };
        /** @description A key that signed access tokens before. */
        PreviousKey: {
            /** @description The name. */
            id: string;
            /**
             * Format: date-time
             * @description The instant from which its tokens and sessions are refused.
             */
            validUntil?: string;
        };
        /** @description A secret that signs webhooks beside its successor. */
        PreviousSecret: {
            /** @description `whsec_…`, which signs the webhooks of the sandbox. */
            sandboxSecret: string;
            /** @description `whsec_…` */
            secret: string;
            /**
             * Format: date-time
             * @description The instant from which it signs no more.
             */
            validUntil: string;
        };
        /** @description The prices, in USD per token. */
        Price: {
            /**
             * Format: double
             * @description The price of prompt tokens read from the provider's cache.
             */
            cacheRead: number;
            /**
             * Format: double
             * @description The price of prompt tokens written to the provider's cache.
             */
            cacheWrite: number;
            /**
             * Format: double
             * @description The price of the prompt.
             */
            input: number;
            /**
             * Format: double
             * @description The price of the output.
             */
            output: number;
        };
        /** @description The address at which the program waits for the answer. */
        ProgramAnswer: {
            /** @description The address to go to. */
            location: string;
        };
        /** @description A program that wants to sign in. */
        Program: {
            /** @description The code that the program shows: three groups of four characters. */
            comparison: string;
            /** @description The e-mail of the user as whom it wants to sign in. */
            email: string;
            /** @description The name of the user. */
            name: string;
            /**
             * Format: int32
             * @description The port on 127.0.0.1 where it waits.
             */
            port: number;
        };
        /** @description The number of steps in each state; all but `awaitingApproval` sum to `total`. */
        Progress: {
            /**
             * Format: int32
             * @description The number of the pending ones that wait for a reviewer.
             */
            awaitingApproval: number;
            /**
             * Format: int32
             * @description Cancelled.
             */
            cancelled: number;
            /**
             * Format: int32
             * @description The number with an output.
             */
            completed: number;
            /**
             * Format: int32
             * @description Failed or rejected.
             */
            failed: number;
            /**
             * Format: int32
             * @description Waiting, for any reason.
             */
            pending: number;
            /**
             * Format: int32
             * @description The number with a worker.
             */
            running: number;
            /**
             * Format: int32
             * @description Steps whose condition was false.
             */
            skipped: number;
            /**
             * Format: int32
             * @description All steps.
             */
            total: number;
        };
        /** @description A project. */
        Project: {
            /**
             * Format: date-time
             * @description The time since which the project takes no new work.
             */
            archivedAt?: string;
            /** @description The cell that has its rows; absent on a server without cells. */
            cell?: string;
            /**
             * Format: date-time
             * @description The time of creation; `default` is as old as the server.
             */
            createdAt?: string;
            /** @description The creator: the id of a user or a key. */
            createdBy?: string;
            /** @description The text for people. */
            description?: string;
            /** @description `prj_…` */
            id: string;
            /** @description The number of its members; `default` has every user. */
            members: number;
            /** @description The cell to which the project is being moved; it stands still until then. */
            movingTo?: string;
            /** @description The name. */
            name: string;
            /**
             * Format: int32
             * @description The days for which ended items are kept, if not as long as the server's settings say.
             */
            retentionDays?: number;
            /** @description The caller's role in the project; without one the caller sees no text of it. */
            role?: string;
        };
        /** @description The counts and costs of a project, without the sandbox. */
        ProjectFigures: {
            /** @description The cell that has its rows; absent on a server without cells. */
            cell?: string;
            /** @description The stored executions by status. */
            executions: {
                [key: string]: number;
            };
            /** @description The name. */
            name: string;
            /** @description `prj_…` */
            project: string;
            /**
             * Format: int64
             * @description The outputs that wait for a reviewer.
             */
            reviews: number;
            /** @description The stored tasks by status. */
            tasks: {
                [key: string]: number;
            };
            /** @description The usage of the period; absent for more than 100,000 tasks. */
            usage?: components["schemas"]["UsageSum"];
        };
        /** @description The figures of projects, of all cells. */
        ProjectsFigures: {
            /**
             * Format: date-time
             * @description The earliest result of the tasks whose usage counts.
             */
            from: string;
            /** @description The projects, in the order of their list. */
            projects: components["schemas"]["ProjectFigures"][];
            /** @description The cells that did not answer, whose projects are missing. */
            silent: string[];
            /**
             * Format: date-time
             * @description The instant before which their results came.
             */
            to: string;
        };
        /** @description A queue as it is. */
        Queue: components["schemas"]["QueueSettings"] & {
            /** @description The tasks that are ready and wait for a lease. */
            depth: number;
            /**
             * Format: int64
             * @description The time since then, in milliseconds.
             */
            oldestAgeMs?: number;
            /**
             * Format: date-time
             * @description The earliest instant at which one of them could run.
             */
            oldestAt?: string;
            /**
             * Format: int64
             * @description The tasks that a worker has.
             */
            running: number;
            /** @description The connected workers that serve the queue. */
            workers: number;
        };
        /** @description The settings of a queue. */
        QueueSettings: {
            /**
             * Format: int32
             * @description The most of its tasks that run at the same time.
             */
            concurrent?: number;
            /** @description The name. */
            name: string;
            /** @description True if the queue gives out no leases. */
            paused: boolean;
            /**
             * Format: int32
             * @description The most leases in any 60 seconds.
             */
            requestsPerMinute?: number;
        };
        /** @description The answer to a rejection. */
        Rejected: {
            /** @description The reason that the reviewer gave. */
            reason: string;
            /** Format: date-time */
            rejectedAt: string;
            /** @description The user who rejected the output. */
            rejectedBy: string;
            /** @description The task that tries again. */
            retryTaskId?: string;
            /** @description rejected. */
            status: string;
            taskId: string;
        };
        /** @description The answer to a decision that is taken back. */
        Reopened: {
            /** @description The reviewer. */
            assignedTo?: string;
            /** @description True if the decision before stands, because others have gone by it: the next one stands beside it. */
            corrects: boolean;
            /** @description pending, assigned, escalated or expired. */
            status: string;
            taskId: string;
            /**
             * Format: date-time
             * @description The end of the reviewers' time.
             */
            timeoutAt: string;
        };
        /** @description The limits that a provider reports. */
        Reported: {
            /** @description Input tokens. */
            inputTokens?: components["schemas"]["Allowance"];
            /** @description Output tokens. */
            outputTokens?: components["schemas"]["Allowance"];
            /** @description Calls, in the provider's time. */
            requests?: components["schemas"]["Allowance"];
            /** @description Input and output tokens together. */
            tokens?: components["schemas"]["Allowance"];
        };
        /** @description A span of time, every moment of which can be restored. */
        Restorable: {
            /**
             * Format: date-time
             * @description The first moment: the end of the last backup. Older backups, if there are any, restore to earlier ones.
             */
            from: string;
            /**
             * Format: date-time
             * @description The last moment: the present one while the archive continues the backup; what was committed in the last
             *     second or so may be missing.
             */
            to: string;
        };
        Retry: {
            /** @description The attempts in all; by default 3. */
            maxAttempts?: number;
            /** @description The wait after the first failure, in milliseconds; by default 1000. */
            backoffMs?: number;
            /** @description The longest wait between two attempts, in milliseconds; by default 300000. */
            maxBackoffMs?: number;
        };
        /** @description The parts of a task that its reviewer needs besides the prompt and the output. */
        ReviewedTask: {
            /** @description The context. */
            context?: Record<string, unknown>;
            /** @description The ids of the files that the model saw with the prompt. */
            files?: string[];
            /** @description The reason why the model stopped, in the provider's word. */
            finishReason?: string;
            /** @description The earlier turns. */
            messages?: components["schemas"]["Message"][];
            /** @description The JSON Schema of the output. */
            outputSchema?: Record<string, unknown>;
            /** @description The rejected task that it tries again. */
            retryOf?: string;
            /** @description The texts that its step shows a reviewer beside the output. */
            shown?: string[];
            /** @description The system prompt. */
            systemPrompt?: string;
            /** @description The usage of the model call. */
            usage?: components["schemas"]["Usage"];
        };
        /** @description The decisions of a reviewer within the window. */
        Reviewer: {
            /**
             * Format: int64
             * @description The number of outputs that the reviewer approved.
             */
            approvals: number;
            /** @description The user. */
            id: string;
            /**
             * Format: int64
             * @description The number of outputs that the reviewer rejected.
             */
            rejections: number;
        };
        /** @description A user who decides. */
        ReviewerName: {
            /** @description The user's e-mail address. */
            email: string;
            /** @description `usr_…`, as approvals and histories name it. */
            id: string;
            /** @description The name. */
            name: string;
        };
        /** @description The keys that were revoked together, or would be. */
        RevokedKeys: {
            /** @description True if nothing was done. */
            dryRun: boolean;
            /** @description The key of the request, which stays; revoke it by its id. */
            kept?: string;
            /** @description The keys, at most 1,000. */
            keys: components["schemas"]["KeySummary"][];
            /** @description The number of the keys. */
            total: number;
        };
        Routing: {
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[];
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[];
            /**
             * @description The service tier to ask the provider for.
             * @enum {string}
             */
            serviceTier?: "auto" | "flex" | "priority";
        };
        Sampling: {
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number;
        };
        /** @description A schedule. */
        Schedule: {
            /**
             * Format: date-time
             * @description The only instant.
             */
            at?: string;
            /** @description none, last or all. */
            catchUp: string;
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The account that gave the target. */
            createdBy: string;
            /** @description The cron expression. */
            cron?: string;
            /** @description False while the schedule is paused. */
            enabled: boolean;
            /** @description `dt_sched_…` */
            id: string;
            /**
             * Format: int64
             * @description The longest random delay, in milliseconds.
             */
            jitterMs: number;
            /** @description The text for people. */
            name: string;
            /**
             * Format: date-time
             * @description The next occurrence, without its delay; none while it is paused, or if there is none.
             */
            nextRunAt?: string;
            /** @description skip, queue, `cancel_running` or allow. */
            overlap: string;
            /** @description Occurrences that wait for the end of a run. */
            queued: number;
            /** @description The target as it was given; not in lists and events. */
            target?: Record<string, unknown>;
            /** @description The time zone of the cron expression. */
            timezone?: string;
            /**
             * Format: date-time
             * @description The time of the last change.
             */
            updatedAt: string;
        };
        /** @description The outcome of an occurrence. */
        ScheduleRun: {
            /**
             * Format: date-time
             * @description The time of the decision.
             */
            decidedAt: string;
            /** @description The reason why the occurrence started no work, such as the run that was in the way of a skipped one. */
            error?: string;
            /** @description The execution that the occurrence started. */
            executionId?: string;
            /** @description started, queued, skipped, missed or failed. */
            outcome: string;
            /**
             * Format: date-time
             * @description The instant of the timetable; of one that was triggered, when that was.
             */
            scheduledAt: string;
            /** @description The task that the occurrence started. */
            taskId?: string;
        };
        /** @description The answer to a search of texts. */
        Search: {
            /** @description The hits, the newest task first. */
            hits: components["schemas"]["Hit"][];
            /** @description The cursor of the next part; absent if all was searched. */
            next?: string;
            /**
             * Format: date-time
             * @description The time back to which all texts were searched.
             */
            searchedTo: string;
        };
        /** @description A session. */
        Session: {
            /**
             * Format: date-time
             * @description The end of the access token's validity.
             */
            expiresAt: string;
            /** @description The token that renews the session, once, at `POST /api/auth/refresh`. */
            refreshToken: string;
            /** @description The access token, for `Authorization: Bearer`. */
            token: string;
            /** @description The signed-in user. */
            user: components["schemas"]["User"];
        };
        /** @description A share of 0 to 1 that is not known exactly. */
        Share: {
            /**
             * Format: double
             * @description The likely one, by the rates of each decile's reviews; absent if it cannot be estimated.
             */
            expected?: number;
            /**
             * Format: double
             * @description The most.
             */
            high: number;
            /**
             * Format: double
             * @description The least.
             */
            low: number;
        };
        /** @description The keys that sign access tokens, by name. */
        SigningKeys: {
            /** @description The key that signs: the `kid` of new tokens. */
            id: string;
            /** @description Keys that signed before, the latest first. */
            previous: components["schemas"]["PreviousKey"][];
        };
        /** @description The statistics of approvals. */
        Statistics: {
            /**
             * Format: int64
             * @description Approved on the current UTC day.
             */
            approvedToday: number;
            /**
             * Format: double
             * @description The average confidence of those decided within the window that have one, 0 to 1.
             */
            avgConfidence: number;
            /**
             * Format: int64
             * @description The average wait of those decided within the window, in milliseconds.
             */
            avgWaitTimeMs: number;
            /**
             * Format: int64
             * @description The number created within the window.
             */
            created: number;
            /**
             * Format: int64
             * @description The number decided within the window.
             */
            decided: number;
            /**
             * Format: double
             * @description The share of those created within the window that was escalated, 0 to 1.
             */
            escalationRate: number;
            /**
             * Format: int64
             * @description The number that wait and are not overdue.
             */
            pending: number;
            /**
             * Format: int64
             * @description Rejected on the current UTC day, by a reviewer or a time-out.
             */
            rejectedToday: number;
            /** @description The reviewers with the most decisions within the window; ten at most. */
            topReviewers: components["schemas"]["Reviewer"][];
            /**
             * Format: int64
             * @description The window: the current UTC day and those before it.
             */
            windowDays: number;
        };
        Step: {
            /** @description Unique in its plan; not input, env or meta. */
            id: string;
            /** @description The title of its tasks, with placeholders; by default that of the execution. Not for a wait. */
            title?: string;
            /** @description The prompt, with placeholders: at most 1 MiB; not for a wait, and not beside function. */
            prompt?: string;
            /** @description The function that a worker calls in place of a prompt for a model. */
            function?: string;
            /** @description The args of the function, with placeholders in the strings of a step's: at most 256 KiB as compact JSON; by default none. */
            args?: {
                [key: string]: unknown;
            };
            /** @description System instructions, with placeholders: at most 1 MiB. */
            systemPrompt?: string;
            /** @description Earlier turns, with placeholders: at most 1 MiB of content in all. */
            messages?: components["schemas"]["Message"][];
            /** @description The files of the prompt, or of the call: ids, or placeholders of ids and of lists of ids; at most 20. */
            files?: string[];
            /** @description The model; by default `[models] default`. */
            model?: string;
            /** @description The queue; by default `default`. */
            queue?: string;
            /** @description The ids of the steps that must complete first. */
            dependsOn: string[];
            /** @description True holds its output for review; by default false. */
            requiresApproval: boolean;
            /** @description The condition of the step, in CEL; without one it runs. */
            condition?: string;
            /** @description The texts that a reviewer of its output sees beside it. Not for a wait. */
            review?: components["schemas"]["StepReview"];
            /** @description The time limit of one attempt, in milliseconds, by default 300000; or of a wait, by default none. */
            timeoutMs?: number;
            /** @description The number of attempts. */
            retry?: components["schemas"]["Retry"];
            /** @description The most tokens of the output. */
            maxTokens?: number;
            /** @description The sampling temperature. */
            temperature?: number;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number;
            /** @description The placeholder of a list, an input or an output in JSON: one task for each of its items. Or several lists of one length that are walked together, by the names of the variables of their items. */
            forEach?: components["schemas"]["Lists"];
            /** @description The name of the variable of an item; by default `item`. */
            item?: string;
            /** @description The longest list, required beside forEach; a longer one fails the step. */
            maxItems?: number;
            /** @description The most tasks at once; by default one for each item. */
            concurrency?: number;
            /**
             * @description The rule for a failed item: fail the step, or leave null in its output; by default fail.
             * @enum {string}
             */
            onItemError?: "fail" | "skip";
            /** @description The share of the items that must complete where onItemError is skip; by default 0. */
            minSuccess?: number;
            /**
             * @description prompt calls a model, wait waits for a signal; by default prompt.
             * @enum {string}
             */
            type?: "prompt" | "wait";
            /** @description The name of the signal that a wait waits for. */
            signal?: string;
            /** @description The JSON Schema of the payload of a wait's signal. */
            schema?: unknown;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[];
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[];
            /**
             * @description The service tier to ask the provider for.
             * @enum {string}
             */
            serviceTier?: "auto" | "flex" | "priority";
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string}
             */
            onConflict?: "queue" | "reject" | "cancel_running";
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number;
            /** @description The JSON Schema (2020-12) of the output. */
            outputSchema?: Record<string, unknown>;
            /** @description The source of its confidence. */
            confidence?: components["schemas"]["Confidence"];
        };
        /** @description The state of a step, without the fields that do not exist yet. */
        StepResult: {
            /**
             * Format: int32
             * @description The number of the current or last attempt of that task.
             */
            attempt?: number;
            /** @description True if its output is held for review. */
            awaitingApproval?: boolean;
            /**
             * Format: date-time
             * @description The time of the end, of any kind.
             */
            completedAt?: string;
            /**
             * Format: double
             * @description The worker's confidence in the output, 0 to 1.
             */
            confidence?: number;
            /**
             * @description The second decision on the output, beside the one that the execution went by; of a long text the first 2,000
             *     characters.
             */
            correction?: components["schemas"]["Decision"];
            /**
             * Format: int64
             * @description The time from startedAt to completedAt, in milliseconds.
             */
            durationMs?: number;
            /** @description The error of a step that did not end well. */
            error?: components["schemas"]["TaskError"];
            /** @description The failure after which the task went on to this model. */
            fallbackReason?: string;
            /** @description The reason why the model stopped, in the provider's word. */
            finishReason?: string;
            /** @description The number of items in each state, once the list is known. */
            items?: components["schemas"]["ItemCounts"];
            /** @description The model that was called last; once the step has ended, only if it was not the first. */
            modelUsed?: string;
            /**
             * @description The model's answer, or the reviewer's edit of it. Of a step with forEach the JSON array of its
             *     items' outputs, unless that has more than 1 MiB.
             */
            output?: string;
            /**
             * @description True if the rest of `output` is left out, because all outputs of the answer have more than 8 MiB;
             *     `GET /api/tasks/{id}` has the whole.
             */
            outputTruncated?: boolean;
            /** @description The task of the forked execution whose output it has taken over. */
            reusedFrom?: string;
            /**
             * Format: date-time
             * @description The arrival of a wait's signal, which may be before the wait.
             */
            signalledAt?: string;
            /**
             * Format: date-time
             * @description The time at which its task first ran.
             */
            startedAt?: string;
            /** @description pending, running, completed, failed, cancelled, skipped or rejected. */
            status: string;
            /** @description The task, the latest if there were several. */
            taskId?: string;
            /** @description The usage of all its model calls. */
            usage?: components["schemas"]["Usage"];
            /**
             * @description The reason that it waits while it is pending: worker, approval, backoff, limit, paused, `queue_paused`, budget or
             *     signal; none where it waits for other steps.
             */
            waitingFor?: string;
            /**
             * Format: date-time
             * @description The end of the wait, if it is known: the earliest for a model or a retry, the latest for a signal.
             */
            waitingUntil?: string;
        };
        StepReview: {
            /** @description Texts with placeholders, such as `{{input.letter}}`. They are rendered with the step, 256 KiB in all (what is longer is cut), and reach no model. One without the value of a placeholder is left out. */
            show: string[];
        };
        /** @description The rows and bytes of each kind of data, of all projects together. */
        Storage: {
            /**
             * Format: int64
             * @description The bytes of all kinds together.
             */
            bytes: number;
            /** @description False while the first measurement goes on: the figures are those of what it has read so far. */
            complete: boolean;
            /** @description True if the figures are estimated from a sample, as those of a large PostgreSQL database are. */
            estimated: boolean;
            /** @description The kinds, the largest first. */
            kinds: components["schemas"]["StoredKind"][];
            /**
             * Format: date-time
             * @description The time of the measurement; absent until a first one has read something.
             */
            measuredAt?: string;
        };
        /** @description A kind of data. */
        StoredKind: {
            /**
             * Format: int64
             * @description The bytes of the rows as they are stored, without what the database adds to them.
             */
            bytes: number;
            /**
             * @description tasks, texts, executions, steps, approvals, reviews, histories, plans, templates, schedules, batches, files,
             *     deliveries, events, audit, accounts, budgets, idempotency or other.
             */
            name: string;
            /**
             * Format: int64
             * @description The number of rows; of events, the number of events.
             */
            rows: number;
        };
        /** @description The decisions on some outputs: each is approved, edited, rejected or unreviewed. */
        Tally: {
            /**
             * Format: int32
             * @description The outputs that a reviewer approved unchanged.
             */
            approved: number;
            /**
             * Format: int32
             * @description The outputs that a reviewer approved with another text.
             */
            edited: number;
            /**
             * Format: int32
             * @description The outputs that a reviewer rejected.
             */
            rejected: number;
            /**
             * Format: int32
             * @description The reviewed outputs that were held as a sample of passing ones.
             */
            sampled: number;
            /**
             * Format: int32
             * @description The unreviewed outputs that were held: they wait, were cancelled, or timed out.
             */
            undecided: number;
            /**
             * Format: int32
             * @description The outputs that nobody decided on.
             */
            unreviewed: number;
        };
        /** @description A task; a member that does not exist yet is left out. */
        Task: components["schemas"]["Routing"] & components["schemas"]["Sampling"] & components["schemas"]["Labels"] & components["schemas"]["Flow"] & {
            /** @description The args of the function; not in lists. */
            args?: Record<string, unknown>;
            /**
             * Format: int32
             * @description The number of the current or last attempt; 0 before the first.
             */
            attempt: number;
            /** @description True if its output is held for review. */
            awaitingApproval: boolean;
            /** @description The batch that it was created in. */
            batchId?: string;
            /** @description The receiver of webhooks. */
            callbackUrl?: string;
            /**
             * Format: date-time
             * @description The time of the cancellation.
             */
            cancelledAt?: string;
            /**
             * Format: date-time
             * @description The time of an end with an output, a failure or a rejection.
             */
            completedAt?: string;
            /**
             * Format: double
             * @description The worker's confidence in the output, 0 to 1.
             */
            confidence?: number;
            /** @description The requested source of the confidence; not in lists. */
            confidenceRequest?: components["schemas"]["Confidence"];
            /** @description The source of the confidence. */
            confidenceSource?: string;
            /** @description Extra key-value pairs; not in lists. */
            context?: Record<string, unknown>;
            /** @description The second decision on the output, beside the one that others have gone by; not in lists. */
            correction?: components["schemas"]["Decision"];
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The latest end of the running attempt.
             */
            deadlineAt?: string;
            /**
             * Format: date-time
             * @description The time at which the texts were erased.
             */
            erasedAt?: string;
            /** @description The failure of the task, or of its last attempt. */
            error?: components["schemas"]["TaskError"];
            /** @description The failure after which the task went on to this model. */
            fallbackReason?: string;
            /** @description The ids of files that the model sees with the prompt; not in lists. */
            files?: string[];
            /** @description The reason why the model stopped, in the provider's word. */
            finishReason?: string;
            /** @description The function that a worker calls in place of a prompt. */
            function?: string;
            /** @description `dt_task_…` */
            id: string;
            /** @description The idempotency key of the request that made it alone. */
            idempotencyKey?: string;
            /**
             * Format: int32
             * @description The item of the step's list that it is for, from 0.
             */
            item?: number;
            /**
             * Format: int64
             * @description The most tokens to answer with.
             */
            maxTokens?: number;
            /** @description Earlier turns; not in lists. */
            messages?: components["schemas"]["Message"][];
            /** @description The model's name; `function:` and the name of the function for a call of one. */
            model: string;
            /** @description The model that was called last. */
            modelUsed?: string;
            /** @description The model's answer, or the JSON of a function's value; not in lists. */
            output?: string;
            /** @description The JSON Schema of the output; not in lists. */
            outputSchema?: Record<string, unknown>;
            /** @description The execution that it belongs to. */
            planExecutionId?: string;
            /**
             * Format: int32
             * @description 1 to 10.
             */
            priority: number;
            /** @description The prompt; not in lists. */
            prompt?: string;
            /** @description The queue's name. */
            queue: string;
            /** @description The attempts and the waits between them, unless they are the default. */
            retry?: components["schemas"]["Retry"];
            /**
             * Format: int32
             * @description The number of returns to the queue after a failed attempt.
             */
            retryCount: number;
            /** @description The task that it tries again: a rejected one, or one that was retried. */
            retryOf?: string;
            /** @description The task of the forked execution whose output it is a copy of. */
            reusedFrom?: string;
            /**
             * Format: date-time
             * @description The instant before which it does not run.
             */
            startAt?: string;
            /**
             * Format: date-time
             * @description The time of the first run.
             */
            startedAt?: string;
            /** @description pending, running, completed, failed, cancelled or rejected. */
            status: string;
            /** @description The step that the task is. */
            stepId?: string;
            /** @description System instructions; not in lists. */
            systemPrompt?: string;
            /** @description The tags, for filtering. */
            tags: string[];
            /**
             * Format: double
             * @description 0 to 1.
             */
            temperature?: number;
            /** @description The model's thinking before the answer, at most 32 KiB; not in lists. */
            thinking?: string;
            /**
             * Format: int64
             * @description The time limit of one attempt.
             */
            timeoutMs: number;
            /** @description The usage of the model call. */
            usage?: components["schemas"]["Usage"];
            /** @description The reason that it waits while it is pending: schedule, worker, approval, backoff, limit, paused, `queue_paused`, budget. */
            waitingFor?: string;
            /**
             * Format: date-time
             * @description The instant since which it waits; absent after an attempt that failed.
             */
            waitingSince?: string;
            /**
             * Format: date-time
             * @description The earliest end of the wait, if it is known.
             */
            waitingUntil?: string;
            /** @description Work that no connected worker takes now; only in the answer to a submission. */
            warnings?: string[];
            /** @description The worker that runs the task, or ran it last. */
            workerId?: string;
            /**
             * Format: int32
             * @description The workers that were lost while they had the task, which uses up no attempt; absent if none was. After five
             *     the task fails.
             */
            workersLost?: number;
        };
        /** @description The error that ended a task or an attempt. */
        TaskError: {
            /** @description The code. */
            code: string;
            /** @description The text for people. */
            message: string;
        };
        /** @description A batch; a member that does not exist yet is left out. */
        TemplateBatch: {
            /**
             * Format: date-time
             * @description The end.
             */
            completedAt?: string;
            /**
             * Format: int32
             * @description The most rows that run at a time.
             */
            concurrency: number;
            /** @description The cost. */
            cost: components["schemas"]["BatchCost"];
            /**
             * Format: date-time
             * @description The beginning of the upload.
             */
            createdAt: string;
            /** @description The account that created the batch. */
            createdBy: string;
            /** @description True if rows that ask the same are answered once. */
            dedupe?: boolean;
            /**
             * Format: date-time
             * @description The end at this rate.
             */
            estimatedEnd?: string;
            /** @description `bat_…` */
            id: string;
            /** @description The name, for people. */
            name?: string;
            /** @description The number of rows in each status. */
            progress: components["schemas"]["BatchProgress"];
            /**
             * Format: double
             * @description The rows that ended in a minute, over the last one.
             */
            ratePerMinute?: number;
            /** @description The reason why the service paused the batch, or puts rows off. */
            reason?: string;
            /**
             * Format: int32
             * @description The rows that a retry runs anew; in its answer only.
             */
            retried?: number;
            /** @description The batch whose answers are taken over. */
            reuse?: string;
            /**
             * Format: int32
             * @description The number of rows.
             */
            rows: number;
            /**
             * Format: date-time
             * @description The instant at which all rows were durable.
             */
            startedAt?: string;
            /** @description loading, running, paused, completed or cancelled. */
            status: string;
            /** @description The tags of the executions. */
            tags?: string[];
            /** @description The template. */
            templateId: string;
            /** @description The usage of all model calls so far, held outputs among them. */
            usage: components["schemas"]["Usage"];
            /** @description The version of the template. */
            version: string;
            /** @description The steps that no connected worker takes: only in the answer to the creation. */
            warnings?: string[];
        };
        /** @description The estimated cost of rows: of an upload that was tried, or those of a batch that wait to be started. */
        TemplateBatchEstimate: {
            /** @description history: past runs of every step; prices: for a step at least, its maxTokens and the price of its model. */
            basis: string;
            /** @description The cost of the rows, in USD. */
            cost: components["schemas"]["EstimatedCost"];
            /**
             * Format: double
             * @description The expected cost of one row, in USD.
             */
            costPerRow: number;
            /** @description The first 20 of these. */
            faults?: components["schemas"]["TemplateBatchFault"][];
            /**
             * Format: int32
             * @description Rows with a fault, which never run; of an upload that was tried.
             */
            invalid?: number;
            /** @description The past executions of the template that were looked at. */
            pastRuns: number;
            /** @description True if a model has no price and no past run: it counts as 0. */
            priceUnknown?: boolean;
            /**
             * Format: int32
             * @description Rows beside these that will take over all their answers, which costs nothing.
             */
            reused?: number;
            /**
             * Format: int32
             * @description The rows that ask something.
             */
            rows: number;
            /**
             * Format: double
             * @description The cost of the batch so far, in USD; of a batch.
             */
            spent?: number;
            /**
             * Format: int32
             * @description Rows whose prompts cannot be rendered: they will fail at no cost.
             */
            unrenderable: number;
            /** @description The expected tokens. */
            usage: components["schemas"]["EstimatedUsage"];
        };
        /** @description A row with a fault. */
        TemplateBatchFault: {
            /** @description The fault. */
            message: string;
            /**
             * Format: int32
             * @description The number of the row, from 1.
             */
            row: number;
        };
        /** @description A template. */
        Template: {
            /** @description The author: an e-mail, `key:<name>`, or `system`. */
            author: string;
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The defaults of steps; not in lists. */
            defaults?: components["schemas"]["Defaults"];
            /** @description The description: at most 500 characters. */
            description?: string;
            /**
             * Format: double
             * @description The cost of a run, in USD.
             */
            estimatedCost: number;
            /**
             * Format: int64
             * @description The duration of a run, in milliseconds.
             */
            estimatedDurationMs: number;
            /** @description The held output; not in lists. */
            hitl?: components["schemas"]["Hitl"];
            /** @description The ids of the steps whose outputs are always held. */
            hitlSteps: string[];
            /** @description The name in small letters and hyphens, and the major version: `contract-review-v1`. */
            id: string;
            /** @description legal, finance, devops, marketing, healthcare or custom. */
            industry: string;
            /** @description JSON Schema (draft 2020-12) of the input; not in lists. */
            inputSchema?: Record<string, unknown>;
            /** @description True if a deploy without a version takes this one. */
            latest: boolean;
            /** @description True if it was set as the latest. */
            latestSet?: boolean;
            /** @description Anything, at most 256 KiB; `estimates` declares cost and durationMs. Not in lists. */
            metadata?: Record<string, unknown>;
            /** @description The name: 1 to 100 characters. */
            name: string;
            /** @description JSON Schema of the last step's output; not in lists. */
            outputSchema?: Record<string, unknown>;
            /**
             * Format: date-time
             * @description The time at which it was retired: no deploy takes it any more.
             */
            retiredAt?: string;
            /** @description 1 to 500 steps; not in lists. */
            steps?: components["schemas"]["Step"][];
            /** @description The number of steps. */
            stepsCount: number;
            /** @description The tags, for filtering: at most 32 of at most 64 characters. */
            tags: string[];
            /** @description The title of its executions, with `{{…}}`. */
            title?: string;
            /** @description major.minor.patch. */
            version: string;
            /** @description private (by default), organization or public. */
            visibility: string;
        };
        /** @description The result of a threshold: each output is in `reviews`, `reviewsSaved` or `unreviewed`. */
        Threshold: {
            /** @description The share of all rejections, known or not, that the threshold would have missed. */
            missedShare: components["schemas"]["Share"];
            /**
             * Format: int32
             * @description The number of known rejections, at any confidence.
             */
            rejectionsKnown: number;
            /**
             * Format: int32
             * @description The number of known rejections that the threshold would have missed.
             */
            rejectionsMissed: number;
            /**
             * Format: int32
             * @description The number of outputs that the threshold would have held.
             */
            reviews: number;
            /**
             * Format: int32
             * @description The number of reviewed outputs that the threshold would not have held.
             */
            reviewsSaved: number;
            /**
             * Format: double
             * @description The threshold, below which outputs would be held.
             */
            threshold: number;
            /**
             * Format: int32
             * @description The number of undecided outputs that the threshold would not have held.
             */
            unreviewed: number;
            /**
             * Format: int32
             * @description The unreviewed outputs of deciles without any review.
             */
            unreviewedUnknown: number;
        };
        /** @description Tokens and money. */
        Usage: {
            /**
             * Format: int64
             * @description Tokens read from the provider's cache; part of `input`.
             */
            cacheRead?: number;
            /**
             * Format: int64
             * @description Tokens written to the provider's cache; part of `input`.
             */
            cacheWrite?: number;
            /**
             * Format: int64
             * @description Tokens read.
             */
            input: number;
            /**
             * Format: int64
             * @description Tokens made.
             */
            output: number;
            /** @description True if the model has no price, which counts as 0. */
            priceUnknown?: boolean;
            /**
             * Format: int64
             * @description Tokens read and made.
             */
            total: number;
            /**
             * Format: double
             * @description USD.
             */
            totalCost: number;
        };
        /** @description The usage of tasks, in groups. */
        UsageGroups: {
            /**
             * Format: date-time
             * @description The earliest result of the counted tasks.
             */
            from: string;
            /** @description tag, account, template, model, day or tagKey. */
            groupBy: string;
            /** @description The groups, the highest cost first; at most 1,000. */
            groups: components["schemas"]["UsageSum"][];
            /**
             * Format: date-time
             * @description The instant before which the results of the counted tasks came.
             */
            to: string;
            /** @description All tasks, each once. */
            total: components["schemas"]["UsageSum"];
            /** @description True if groups are missing. */
            truncated?: boolean;
        };
        /** @description The usage of some tasks. */
        UsageSum: {
            /**
             * Format: int64
             * @description Input tokens.
             */
            input: number;
            /** @description The tag, account, template, model, day, or the rest of a tag behind its key; left out for tasks that have none, and of the total. */
            key?: string;
            /**
             * Format: int64
             * @description Output tokens.
             */
            output: number;
            /** @description True if a model had no price, which counts as 0. */
            priceUnknown?: boolean;
            /**
             * Format: int64
             * @description Tasks with a result.
             */
            tasks: number;
            /**
             * Format: double
             * @description USD.
             */
            totalCost: number;
        };
        /** @description The use of a model. */
        Used: {
            /**
             * Format: int64
             * @description Calls in flight now.
             */
            inFlight: number;
            /**
             * Format: int64
             * @description Input tokens.
             */
            inputTokens: number;
            /**
             * Format: int64
             * @description Output tokens.
             */
            outputTokens: number;
            /**
             * Format: int64
             * @description Calls in the last minute.
             */
            requests: number;
        };
        /** @description A user. */
        User: {
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The e-mail for signing in. */
            email: string;
            /** @description `usr_…` */
            id: string;
            /** @description The name. */
            name: string;
            /** @description Set while the password must be changed first. */
            passwordChangeRequired?: boolean;
            /** @description free, pro or enterprise, if it has one of its own. */
            plan?: string;
            /** @description The role. */
            role: string;
        };
        /** @description A saved view. */
        View: {
            /**
             * Format: date-time
             * @description The time at which it was saved.
             */
            createdAt: string;
            /** @description The maker: the id of a user or a key. */
            createdBy: string;
            /** @description `view_…` */
            id: string;
            /** @description The name. */
            name: string;
            /** @description The list: the path of its page. */
            page: string;
            /** @description The query string of the list's address, without its `?`. */
            query: string;
            /** @description True if everybody who sees the project sees it. */
            shared: boolean;
        };
        /** @description The secret that signs webhooks. */
        WebhookSecret: {
            /** @description The secret before it, as long as both sign. */
            previous?: components["schemas"]["PreviousSecret"];
            /** @description `whsec_…`, which signs the webhooks of the sandbox. */
            sandboxSecret: string;
            /** @description `whsec_…` */
            secret: string;
        };
        /** @description The user of a session, with the permitted actions. */
        Who: {
            /** @description The permitted actions, as the routes name them in `x-callboard-action`, such as `tasks: create`. */
            actions: string[];
            /**
             * Format: date-time
             * @description The latest end of the session.
             */
            expiresAt?: string;
            /** @description The user. */
            user: components["schemas"]["User"];
        };
        /** @description A worker. */
        Worker: {
            /** @description The number of tasks that it runs at the same time. */
            concurrency: number;
            /**
             * Format: date-time
             * @description The time of the last connection.
             */
            connectedAt?: string;
            /** @description The names of the functions that it runs. */
            functions?: string[];
            /** @description `wrk_…` */
            id: string;
            /**
             * Format: date-time
             * @description The time of the last heartbeat.
             */
            lastHeartbeatAt: string;
            /** @description The models that it runs: names, prefixes such as `gpt-*`, or `*`. */
            models: string[];
            /** @description The name that it gives itself. */
            name: string;
            /** @description The queues that it serves. */
            queues: string[];
            /** @description The number of tasks that the worker has. */
            running: number;
            /** @description active, draining or lost. */
            status: string;
            /** @description The version of the worker's program. */
            version: string;
        };
        AcceptInvitation: {
            /**
             * Format: password
             * @description The token at the end of the link.
             */
            token: string;
            /**
             * Format: password
             * @description 8 to 128 characters, none of the common ones.
             */
            password: string;
            /**
             * Format: email
             * @description The e-mail for signing in; only where the invitation is to no address.
             */
            email?: string | null;
            /** @description The name, for people; by default the invitation's. */
            name?: string | null;
        };
        AnswerProgram: {
            /**
             * Format: password
             * @description The part of the address after `#program=`; it counts once, for ten minutes.
             */
            ticket: string;
            /** @description True signs the program in. */
            allow: boolean;
        };
        Approve: {
            /** @description The comment. */
            comment?: string | null;
            /** @description The text that replaces the output. */
            modifiedOutput?: string | null;
            /** @description The number of outputs of one step that are approved at once, this one included; the history shows it. */
            bulk?: number | null;
            /** @description The reviewer: a session names only its own user, an admin's session any user, a key any user. */
            reviewerId?: string | null;
        };
        Assign: {
            /** @description The id of a user who may decide: `usr_…` */
            assignee: string;
        };
        BackupReport: {
            /** @description The name of the backup in its repository. */
            id: string;
            /** @description The lineage of the data directory, from the beginning of the stream. */
            lineage: number;
            /** @description The number of the last group of the stream. */
            group: number;
        };
        BackupVerification: {
            /** @description The name of the backup in its repository. */
            id: string;
            /** @description The lineage of the data directory, as the backup has it. */
            lineage: number;
            /**
             * @description The finding: every chunk is intact and the backup restores, it is intact and no restore was tried, or it is damaged.
             * @enum {string}
             */
            result: "restores" | "intact" | "damaged";
            /** @description The damage, in words. */
            detail?: string | null;
        };
        BulkFilter: {
            /** @description One of these statuses. */
            status?: ("pending" | "running" | "completed" | "failed" | "cancelled" | "rejected")[] | null;
            /** @description Only tasks of this model. */
            model?: string | null;
            /** @description Only tasks of this queue, or of one of several with commas between them. */
            queue?: string | null;
            /** @description Only items of the rows of this batch; none: of no rows of batches. */
            batch?: string | null;
            /** @description Only pending tasks that wait for one of these. */
            waitingFor?: ("worker" | "limit" | "paused" | "queue_paused" | "budget" | "backoff" | "approval" | "schedule")[] | null;
            /** @description Only executions of this template. */
            templateId?: string | null;
            /** @description Only executions of this version of the template. */
            version?: string | null;
            /** @description The id of the item, or beginnings of words of its title, tags or keys: an item has all of them. */
            search?: string | null;
            /** @description Only items with all of these tags. */
            tags?: string[] | null;
            /**
             * Format: date-time
             * @description Created at this instant or later.
             */
            createdAfter?: (Date | string) | null;
            /**
             * Format: date-time
             * @description Created before this instant.
             */
            createdBefore?: (Date | string) | null;
            /**
             * Format: date-time
             * @description Completed, failed or rejected at this instant or later.
             */
            endedAfter?: (Date | string) | null;
            /**
             * Format: date-time
             * @description Completed, failed or rejected before this instant.
             */
            endedBefore?: (Date | string) | null;
        };
        ChangeBudget: {
            /** @description The limit of a period, in USD. */
            limit?: number | null;
            /** @description The shares of the limit at which `budget.alert` is sent. */
            alertAt?: number[] | null;
            /**
             * @description wait, reject or alert.
             * @enum {string|null}
             */
            onExceed?: "wait" | "reject" | "alert" | null;
        };
        ChangeNode: {
            /** @description True to have the node hand its work to another one, false to let it take work again. */
            draining: boolean;
        };
        ChangePassword: {
            /**
             * Format: password
             * @description The password until now.
             */
            current: string;
            /**
             * Format: password
             * @description 8 to 128 characters, none of the common ones.
             */
            new: string;
        };
        ChangeProject: {
            /** @description The name. */
            name?: string | null;
            /** @description A text for people; an empty one takes it away. */
            description?: string | null;
            /** @description The days for which ended items of the project are kept; 0 for as long as the server's settings say. */
            retentionDays?: number | null;
            /** @description True to take no new work any more, false to take it again. */
            archived?: boolean | null;
        };
        ChangeQueue: {
            /** @description True if the queue gives out no leases. */
            paused?: boolean | null;
            /** @description The most of its tasks that run at the same time; 0 removes the limit. */
            concurrent?: number | null;
            /** @description The most leases in any 60 seconds; 0 removes the limit. */
            requestsPerMinute?: number | null;
        };
        ChangeSchedule: {
            /** @description The text for people. */
            name?: string | null;
            /** @description Five fields: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly. */
            cron?: string | null;
            /**
             * Format: date-time
             * @description Once, at this instant.
             */
            at?: (Date | string) | null;
            /** @description The IANA time zone in which cron is read; by default UTC. */
            timezone?: string | null;
            /**
             * @description The rule while an earlier run is in progress; by default skip.
             * @enum {string|null}
             */
            overlap?: "skip" | "queue" | "cancel_running" | "allow" | null;
            /**
             * @description The missed occurrences to make up; by default last.
             * @enum {string|null}
             */
            catchUp?: "none" | "last" | "all" | null;
            /** @description The longest random delay, in milliseconds; by default 0. */
            jitterMs?: number | null;
            /** @description False pauses the schedule; by default true. */
            enabled?: boolean | null;
            /** @description The work that an occurrence starts. */
            target?: components["schemas"]["ScheduleTarget"] | null;
        };
        ChangeTemplate: {
            /** @description The version. */
            version: string;
            /** @description True if no deploy is to take the version any more; false if deploys may take it again. */
            retired: boolean;
        };
        ChangeUser: {
            /**
             * @description The role.
             * @enum {string|null}
             */
            role?: "admin" | "operator" | "reviewer" | "viewer" | "worker" | "backup" | null;
            /**
             * @description The plan of rate limits.
             * @enum {string|null}
             */
            plan?: "free" | "pro" | "enterprise" | null;
            /**
             * Format: password
             * @description The password from now on; all sessions of the user end.
             */
            password?: string | null;
            /** @description True if the user may do nothing but choose another password; by default true with a password. */
            mustChangePassword?: boolean | null;
        };
        ChangeView: {
            /** @description The name, for people. */
            name?: string | null;
            /** @description The query string of the list's address, without its `?`: at most 2,048 bytes. */
            query?: string | null;
            /** @description True to share the view, false to take it back. */
            shared?: boolean | null;
        };
        ConfidenceRequest: {
            /**
             * @description auto (logprobs where the model gives them, else none), logprobs, samples, judge or none.
             * @enum {string|null}
             */
            method?: "auto" | "logprobs" | "samples" | "judge" | "none" | null;
            /** @description The samples besides the answer, or the verdicts of a judge without logprobs: 2 to 9; by default 3. */
            n?: number | null;
            /** @description The members of a JSON output that samples must agree on; by default those of the schema. */
            fields?: string[] | null;
            /** @description The model that judges; required for judge. */
            judgeModel?: string | null;
            /** @description The criteria of the judge: at most 16 KiB. */
            rubric?: string | null;
        };
        CreateBatch: {
            /** @description The tasks. */
            tasks: components["schemas"]["NewTask"][];
        };
        CreateBudget: {
            /** @description The tasks that it is for; an empty object is for all. */
            match: components["schemas"]["BudgetMatch"];
            /** @description The limit of a period, in USD. */
            limit: number;
            /**
             * @description day, week (from Monday), month, or total, which never resets.
             * @enum {string}
             */
            period: "day" | "week" | "month" | "total";
            /** @description The IANA name of the zone whose midnights count; by default UTC. */
            timezone?: string | null;
            /** @description The shares of the limit at which `budget.alert` is sent: above 0 and below 1; by default 0.5 and 0.8. */
            alertAt?: number[] | null;
            /**
             * @description wait (by default), reject or alert.
             * @enum {string|null}
             */
            onExceed?: "wait" | "reject" | "alert" | null;
        };
        CreateInvitation: {
            /**
             * Format: email
             * @description The e-mail of the invited person; by default the person chooses one.
             */
            email?: string | null;
            /** @description The name of the person, who may give another one. */
            name?: string | null;
            /**
             * @description The role of the account.
             * @enum {string}
             */
            role: "admin" | "operator" | "reviewer" | "viewer" | "worker" | "backup";
            /** @description A number of days, `1d` to `30d`; by default `7d`. */
            expiresIn?: string | null;
        };
        CreateKey: {
            /** @description The text for people. */
            name: string;
            /**
             * @description The role.
             * @enum {string}
             */
            role: "admin" | "operator" | "reviewer" | "viewer" | "worker" | "backup";
            /** @description A number of days, `1d` to `36500d`; by default `90d`. */
            expiresIn?: string | null;
            /**
             * @description The environment; by default live. A test key is of an operator, a reviewer or a viewer.
             * @enum {string|null}
             */
            environment?: "live" | "test" | null;
            /**
             * @description The plan of rate limits; by default `[limits] plan`.
             * @enum {string|null}
             */
            plan?: "free" | "pro" | "enterprise" | null;
            /** @description The queues that a worker key may serve; by default every queue. A key with queues reads only the tasks that it holds. */
            queues?: string[] | null;
        };
        CreateProject: {
            /** @description The name, which no other project has. */
            name: string;
            /** @description A text for people. */
            description?: string | null;
            /** @description The cell that has its rows; by default the one with the fewest projects. */
            cell?: string | null;
        };
        CreateSchedule: {
            /** @description The text for people. */
            name: string;
            /** @description Five fields: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly. */
            cron?: string | null;
            /**
             * Format: date-time
             * @description Once, at this instant.
             */
            at?: (Date | string) | null;
            /** @description The IANA time zone in which cron is read; by default UTC. */
            timezone?: string | null;
            /**
             * @description The rule while an earlier run is in progress; by default skip.
             * @enum {string|null}
             */
            overlap?: "skip" | "queue" | "cancel_running" | "allow" | null;
            /**
             * @description The missed occurrences to make up; by default last.
             * @enum {string|null}
             */
            catchUp?: "none" | "last" | "all" | null;
            /** @description The longest random delay, in milliseconds; by default 0. */
            jitterMs?: number | null;
            /** @description False pauses the schedule; by default true. */
            enabled?: boolean | null;
            /** @description The work that an occurrence starts. */
            target: components["schemas"]["ScheduleTarget"];
        };
        CreateTask: {
            /** @description The prompt: at most 1 MiB; required unless function is given. */
            prompt?: string | null;
            /** @description The function that a worker calls in place of a prompt for a model. */
            function?: string | null;
            /** @description The args of the function, with placeholders in the strings of a step's: at most 256 KiB as compact JSON; by default none. */
            args?: {
                [key: string]: unknown;
            } | null;
            /** @description The model; by default `[models] default`. */
            model?: string | null;
            /** @description The queue; by default `default`. */
            queue?: string | null;
            /** @description System instructions: at most 1 MiB. */
            systemPrompt?: string | null;
            /** @description Key-value pairs for the model: at most 256 KiB as compact JSON. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description Earlier turns, between the system messages and the prompt: at most 1 MiB of content in all. */
            messages?: components["schemas"]["MessageRequest"][] | null;
            /** @description The ids of files that the model sees with the prompt, or that the function reads; at most 20. */
            files?: string[] | null;
            /** @description 10 is leased first; by default 5. */
            priority?: number | null;
            /** @description The time limit of one attempt, in milliseconds; by default 300000. */
            timeoutMs?: number | null;
            /** @description The tags, for filtering. */
            tags?: string[] | null;
            /** @description The most tokens of the output. */
            maxTokens?: number | null;
            /** @description The sampling temperature. */
            temperature?: number | null;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number | null;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number | null;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string | string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number | null;
            /** @description The JSON Schema (2020-12) of the output. */
            outputSchema?: Record<string, unknown> | null;
            /** @description The source of the confidence; by default auto. */
            confidence?: components["schemas"]["ConfidenceRequest"] | null;
            /**
             * Format: uri
             * @description The address to which webhooks about the task are sent.
             */
            callbackUrl?: string | null;
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string | null;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[] | null;
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean | null;
            /** @description The conditions under which a reviewer must approve the output. */
            hitl?: components["schemas"]["TaskHitl"] | null;
            /**
             * Format: date-time
             * @description The instant before which no worker is given the task; by default it may run at once.
             */
            startAt?: (Date | string) | null;
            /** @description The attempts and the waits between them. */
            retry?: components["schemas"]["RetryRequest"] | null;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[] | null;
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[] | null;
            /**
             * @description The service tier to ask the provider for.
             * @enum {string|null}
             */
            serviceTier?: "auto" | "flex" | "priority" | null;
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string | null;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number | null;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string|null}
             */
            onConflict?: "queue" | "reject" | "cancel_running" | null;
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string | null;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number | null;
            /** @description Prevents duplicates; kept for 24 hours. */
            idempotencyKey?: string | null;
        };
        CreateTemplateBatch: {
            /** @description The template; required. */
            templateId: string | null;
            /** @description Another version of it than the highest. */
            version?: string | null;
            /** @description A name, for people. */
            name?: string | null;
            /** @description The tags of the executions. */
            tags?: string[] | null;
            /** @description The cost in USD from which no further row is started. */
            maxCost?: number | null;
            /** @description The most rows that run at a time; by default 100. */
            concurrency?: number | null;
            /** @description A batch (`bat_…`), or latest for the latest one of the template: a row whose key, rendered prompts, models and settings were answered there takes these answers over, which costs nothing. */
            reuse?: string | null;
            /** @description true: rows that ask the same are answered and decided once; each keeps its key. */
            dedupe?: boolean | null;
            /**
             * @description keep (by default): a row with a fault is kept as invalid; reject: nothing is kept.
             * @enum {string|null}
             */
            onInvalid?: "keep" | "reject" | null;
            /** @description true: rows are checked and their cost is estimated, and nothing is kept. */
            dryRun?: boolean | null;
            /** @description The column of a CSV file that has the keys; by default a row's key is its number. */
            keyColumn?: string | null;
            rows: unknown[];
        };
        CreateUser: {
            /**
             * Format: email
             * @description The e-mail for signing in.
             */
            email: string;
            /**
             * Format: password
             * @description 8 to 128 characters, none of the common ones.
             */
            password: string;
            /** @description The name, for people; by default the part of the e-mail before the @. */
            name?: string | null;
            /**
             * @description The role.
             * @enum {string}
             */
            role: "admin" | "operator" | "reviewer" | "viewer" | "worker" | "backup";
            /**
             * @description The plan of rate limits; by default `[limits] plan`.
             * @enum {string|null}
             */
            plan?: "free" | "pro" | "enterprise" | null;
            /** @description True if the password permits nothing but the choice of another one; by default false. */
            mustChangePassword?: boolean | null;
        };
        CreateView: {
            /** @description The name, for people. */
            name: string;
            /**
             * @description The list: the path of its page.
             * @enum {string}
             */
            page: "tasks" | "executions" | "review" | "batches" | "templates" | "plans" | "schedules" | "review/decided" | "admin/deliveries" | "admin/audit";
            /** @description The query string of the list's address, without its `?`: at most 2,048 bytes. */
            query: string;
            /** @description True to show the view to everybody who sees the project; by default false. */
            shared?: boolean | null;
        };
        DefaultsRequest: {
            /** @description The model. */
            model?: string | null;
            /** @description The queue. */
            queue?: string | null;
            /** @description The time limit of one attempt, in milliseconds. */
            timeoutMs?: number | null;
            /** @description The most tokens of the output. */
            maxTokens?: number | null;
            /** @description The sampling temperature. */
            temperature?: number | null;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number | null;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number | null;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string | string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number | null;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[] | null;
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[] | null;
            /**
             * @description The service tier to ask the provider for.
             * @enum {string|null}
             */
            serviceTier?: "auto" | "flex" | "priority" | null;
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string | null;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number | null;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string|null}
             */
            onConflict?: "queue" | "reject" | "cancel_running" | null;
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string | null;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number | null;
            /** @description The JSON Schema (2020-12) of the output; the template's own holds for the last step. */
            outputSchema?: Record<string, unknown> | null;
            /** @description The source of the confidence. */
            confidence?: components["schemas"]["ConfidenceRequest"] | null;
        };
        DeleteProject: {
            /** @description The project's name again. */
            confirm: string;
        };
        DeployTemplate: {
            /** @description The values of `{{input.*}}`. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The gates of outputs and the channels that notify reviewers: replaces the template's, member by member. */
            hitl?: components["schemas"]["HitlRequest"] | null;
            /** @description The options of the run. */
            options?: components["schemas"]["RunOptions"] | null;
            /**
             * Format: date-time
             * @description The instant before which it does not begin; by default it begins at once.
             */
            startAt?: (Date | string) | null;
            /** @description The tags of its tasks, beside those of the plan. */
            tags?: string[] | null;
            /**
             * Format: uri
             * @description The address to which webhooks about the execution are sent.
             */
            callbackUrl?: string | null;
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string | null;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[] | null;
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean | null;
            /** @description Other models, by step id. */
            modelOverrides?: {
                [key: string]: string;
            } | null;
            /** @description Other queues, by step id. */
            queueOverrides?: {
                [key: string]: string;
            } | null;
            /** @description Another version than the latest. */
            version?: string | null;
        };
        EraseTexts: {
            /** @description The reason, which the audit log keeps. */
            reason: string;
        };
        ExchangeCode: {
            /**
             * Format: password
             * @description The code; it counts once, for a minute.
             */
            code: string;
            /**
             * Format: password
             * @description The verifier, if the sign-in began with its challenge.
             */
            verifier?: string | null;
        };
        ExchangeLink: {
            /**
             * Format: password
             * @description The part of the link after `#link=`; the exchange counts once, for an hour.
             */
            token: string;
        };
        ExecutePlan: {
            /** @description The values of `{{input.*}}`. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The gates of outputs and the channels that notify reviewers: replaces the template's, member by member. */
            hitl?: components["schemas"]["HitlRequest"] | null;
            /** @description The options of the run. */
            options?: components["schemas"]["RunOptions"] | null;
            /**
             * Format: date-time
             * @description The instant before which it does not begin; by default it begins at once.
             */
            startAt?: (Date | string) | null;
            /** @description The tags of its tasks, beside those of the plan. */
            tags?: string[] | null;
            /**
             * Format: uri
             * @description The address to which webhooks about the execution are sent.
             */
            callbackUrl?: string | null;
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string | null;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[] | null;
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean | null;
        };
        Extend: {
            /** @description The time from now on, in milliseconds: at most 30 days. */
            timeoutMs: number;
            /** @description The reason, for the history. */
            reason?: string | null;
        };
        ForgottenPassword: {
            /**
             * Format: email
             * @description The e-mail of the user.
             */
            email: string;
        };
        ForkExecution: {
            /** @description The step that runs anew, even if its prompt, model and settings are the same. */
            fromStep?: string | null;
            /** @description The input in place of the original's. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Another version of the template that was deployed. */
            version?: string | null;
            /** @description True for an answer that only shows the steps that are reused, and the cost of the others. */
            dryRun?: boolean | null;
        };
        HitlRequest: {
            /** @description The ids of the steps whose outputs are always held. */
            requiredFor?: string[] | null;
            /** @description Minimum confidence to skip review. */
            confidenceThreshold?: number | null;
            /** @description The time of the reviewer, in milliseconds; by default 3600000. */
            timeoutMs?: number | null;
            /** @description The share of the other outputs that is held as well; by default 0. */
            sampleRate?: number | null;
            /** @description The channels that notify reviewers. */
            notifyChannels?: ("email" | "dashboard")[] | null;
        };
        Login: {
            /** @description The registered e-mail, in upper or lower case. */
            email: string;
            /**
             * Format: password
             * @description The password.
             */
            password: string;
        };
        Logout: {
            /** @description All sessions of the user; by default this one alone. */
            all?: boolean | null;
        };
        MessagePartRequest: {
            /**
             * @description The kind.
             * @enum {string}
             */
            type: "text" | "image" | "document";
            /** @description The text of a part of the type text. */
            text?: string | null;
            /** @description The id of the file that another part shows; in a step a placeholder too, of an id or of a list of ids. */
            file?: string | null;
        };
        MessageRequest: {
            /**
             * @description The author.
             * @enum {string}
             */
            role: "user" | "assistant";
            /** @description The text, or parts: texts, images and documents; those of a step have placeholders. */
            content: string | components["schemas"]["MessagePartRequest"][];
        };
        MoveProject: {
            /** @description The cell; `home` is the one where people sign in. */
            cell: string;
        };
        NewTask: {
            /** @description The prompt: at most 1 MiB; required unless function is given. */
            prompt?: string | null;
            /** @description The function that a worker calls in place of a prompt for a model. */
            function?: string | null;
            /** @description The args of the function, with placeholders in the strings of a step's: at most 256 KiB as compact JSON; by default none. */
            args?: {
                [key: string]: unknown;
            } | null;
            /** @description The model; by default `[models] default`. */
            model?: string | null;
            /** @description The queue; by default `default`. */
            queue?: string | null;
            /** @description System instructions: at most 1 MiB. */
            systemPrompt?: string | null;
            /** @description Key-value pairs for the model: at most 256 KiB as compact JSON. */
            context?: {
                [key: string]: unknown;
            } | null;
            /** @description Earlier turns, between the system messages and the prompt: at most 1 MiB of content in all. */
            messages?: components["schemas"]["MessageRequest"][] | null;
            /** @description The ids of files that the model sees with the prompt, or that the function reads; at most 20. */
            files?: string[] | null;
            /** @description 10 is leased first; by default 5. */
            priority?: number | null;
            /** @description The time limit of one attempt, in milliseconds; by default 300000. */
            timeoutMs?: number | null;
            /** @description The tags, for filtering. */
            tags?: string[] | null;
            /** @description The most tokens of the output. */
            maxTokens?: number | null;
            /** @description The sampling temperature. */
            temperature?: number | null;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number | null;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number | null;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string | string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number | null;
            /** @description The JSON Schema (2020-12) of the output. */
            outputSchema?: Record<string, unknown> | null;
            /** @description The source of the confidence; by default auto. */
            confidence?: components["schemas"]["ConfidenceRequest"] | null;
            /**
             * Format: uri
             * @description The address to which webhooks about the task are sent.
             */
            callbackUrl?: string | null;
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string | null;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[] | null;
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean | null;
            /** @description The conditions under which a reviewer must approve the output. */
            hitl?: components["schemas"]["TaskHitl"] | null;
            /**
             * Format: date-time
             * @description The instant before which no worker is given the task; by default it may run at once.
             */
            startAt?: (Date | string) | null;
            /** @description The attempts and the waits between them. */
            retry?: components["schemas"]["RetryRequest"] | null;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[] | null;
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[] | null;
            /**
             * @description The service tier to ask the provider for.
             * @enum {string|null}
             */
            serviceTier?: "auto" | "flex" | "priority" | null;
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string | null;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number | null;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string|null}
             */
            onConflict?: "queue" | "reject" | "cancel_running" | null;
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string | null;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number | null;
        };
        PauseAll: {
            /** @description The reason, for people. */
            reason: string;
            /**
             * @description The treatment of submissions; accept by default.
             * @enum {string|null}
             */
            submissions?: "accept" | "refuse" | null;
        };
        PlanRequest: {
            /** @description The text for people. */
            name: string;
            /** @description The text for people. */
            description?: string | null;
            /** @description The title of its executions, with placeholders of input, meta and env. */
            title?: string | null;
            /** @description The steps. */
            steps: components["schemas"]["StepRequest"][];
            /** @description The tags, for filtering. */
            tags?: string[] | null;
        };
        PreviewInvitation: {
            /**
             * Format: password
             * @description The token at the end of the link.
             */
            token: string;
        };
        ProgramTicket: {
            /**
             * Format: password
             * @description The part of the address after `#program=`.
             */
            ticket: string;
        };
        PutCell: {
            /** @description The name: lower-case letters, digits and `-`. */
            name: string;
            /** @description The addresses of its nodes. */
            nodes: string[];
        };
        Refresh: {
            /**
             * Format: password
             * @description The token of the last login or refresh; each is valid once.
             */
            refreshToken: string;
        };
        Reject: {
            /** @description The reason; a task that tries again has it in its prompt. */
            reason: string;
            /** @description True submits the task again, with the reason in its prompt; by default false. */
            retry?: boolean | null;
            /** @description The prompt of that task; by default the one before. Only with `retry: true`. */
            retryPrompt?: string | null;
            /** @description The reviewer, as in an approval. */
            reviewerId?: string | null;
        };
        Reopen: {
            /** @description True asks for another decision beside the first if the output was used; by default false, which answers with the uses. */
            asCorrection?: boolean | null;
        };
        ResetPassword: {
            /**
             * Format: password
             * @description The token at the end of the link.
             */
            token: string;
            /**
             * Format: password
             * @description 8 to 128 characters, none of the common ones.
             */
            password: string;
        };
        RetryBatch: {
            /** @description Rows that failed with one of these codes, such as `PROVIDER_ERROR`; `REJECTED` only if named. */
            codes?: string[] | null;
            /** @description Rows with one of these keys. */
            keys?: string[] | null;
        };
        RetryRequest: {
            /** @description The attempts in all; by default 3. */
            maxAttempts?: number | null;
            /** @description The wait after the first failure, in milliseconds; by default 1000. */
            backoffMs?: number | null;
            /** @description The longest wait between two attempts, in milliseconds; by default 300000. */
            maxBackoffMs?: number | null;
        };
        ReviewBatch: {
            /** @description The step; by default the last one. */
            step?: string | null;
            /** @description The most reviews: 1 to 1,000. */
            top: number;
            /**
             * @description confidence (by default): the least sure outputs first; random: a sample.
             * @enum {string|null}
             */
            orderBy?: "confidence" | "random" | null;
            /** @description The member of the output that reviewers judge; by default the whole. */
            field?: string | null;
            /** @description true: reviewers give their own answer without seeing the output, or its field; by default false. */
            blind?: boolean | null;
        };
        RevokeKeys: {
            /** @description True for every key; without it, one of the next members is required. */
            all?: boolean | null;
            /** @description Keys that this user or key made, and those that they made in turn; a key counts as made by itself. */
            madeBy?: string | null;
            /** @description Keys that this user answers for. */
            userId?: string | null;
            /**
             * Format: date-time
             * @description Keys that were made before this instant.
             */
            before?: (Date | string) | null;
            /** @description The reason, which the audit log keeps with each key. */
            reason?: string | null;
            /** @description The number of keys that must match; with another one nothing is done. */
            expect?: number | null;
            /** @description True only lists them; by default false. */
            dryRun?: boolean | null;
        };
        RotateKey: {
            /** @description The time for which the old key stays valid, such as 30s, 15m, 1h or 7d; by default none. */
            overlap?: string | null;
        };
        RotateSigningKey: {
            /** @description The time for which tokens and sessions of the old key stay valid, such as 0s, 1h or 7d; by default 24h. */
            overlap?: string | null;
        };
        RotateWebhookSecret: {
            /** @description The time for which the old secret signs beside the new one, such as 0s, 1h or 7d; by default 24h. */
            overlap?: string | null;
        };
        RunOptions: {
            /** @description The time limit of the whole, in milliseconds. */
            timeoutMs?: number | null;
            /** @description True makes a dry run. */
            dryRun?: boolean | null;
            /** @description True if the first failure cancels all other steps. */
            failFast?: boolean | null;
            /** @description The most that it may cost, in USD. */
            maxCost?: number | null;
        };
        ScheduleTarget: {
            /** @description A task. */
            task?: components["schemas"]["NewTask"] | null;
            /** @description An execution of this plan. */
            planId?: string | null;
            /** @description A deployment of this template. */
            templateId?: string | null;
            /** @description Another version than the highest at each occurrence. */
            version?: string | null;
            /** @description The values of `{{input.*}}`. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The gates of outputs and the channels that notify reviewers: replaces the template's, member by member. */
            hitl?: components["schemas"]["HitlRequest"] | null;
            /** @description The options of the run. */
            options?: components["schemas"]["RunOptions"] | null;
            /**
             * Format: date-time
             * @description The instant before which it does not begin; by default it begins at once.
             */
            startAt?: (Date | string) | null;
            /** @description The tags of its tasks, beside those of the plan. */
            tags?: string[] | null;
            /**
             * Format: uri
             * @description The address to which webhooks about the execution are sent.
             */
            callbackUrl?: string | null;
            /** @description The title, for people: one line of at most 200 characters. */
            title?: string | null;
            /** @description The announced events: completed, failed, cancelled, rejected (of tasks) and awaiting_approval; by default those of `[webhooks] events`. */
            callbackEvents?: ("completed" | "failed" | "cancelled" | "rejected" | "awaiting_approval")[] | null;
            /** @description True if the body of a task's webhook says more: tags, title, model, confidence, cost, attempt, error, review. */
            callbackDetails?: boolean | null;
        };
        SetLatestVersion: {
            /** @description The version. */
            version: string;
        };
        SetMember: {
            /**
             * @description One of admin, operator, reviewer, viewer.
             * @enum {string}
             */
            role: "admin" | "operator" | "reviewer" | "viewer" | "worker" | "backup";
        };
        SetModelLimits: {
            /** @description Requests in any minute; unlimited if left out, as each of these. */
            requestsPerMinute?: number | null;
            /** @description Input tokens in any minute. */
            inputTokensPerMinute?: number | null;
            /** @description Output tokens in any minute. */
            outputTokensPerMinute?: number | null;
            /** @description Input and output tokens together in any minute. */
            tokensPerMinute?: number | null;
            /** @description Calls in flight. */
            concurrent?: number | null;
        };
        SetUp: {
            /**
             * Format: password
             * @description The token at the end of the setup link that the server printed when it started.
             */
            token: string;
            /**
             * Format: email
             * @description The admin's e-mail.
             */
            email: string;
            /**
             * Format: password
             * @description 8 to 128 characters, none of the common ones.
             */
            password: string;
            /** @description The name, for people; by default the part of the e-mail before the @. */
            name?: string | null;
        };
        SignalRequest: {
            /** @description The payload, which is the output of the step that waits; any JSON of at most 256 KiB. */
            payload?: unknown;
            /** @description True replaces an earlier signal that no step has used; by default false. */
            replace?: boolean | null;
        };
        StartBulk: {
            /**
             * @description cancel, retry, reprioritize, reject or erase.
             * @enum {string}
             */
            action: "cancel" | "retry" | "reprioritize" | "reject" | "erase";
            /**
             * @description tasks, executions or all; by default tasks, for erase all that the filter can match.
             * @enum {string|null}
             */
            of?: "tasks" | "executions" | "all" | null;
            /** @description The items; an empty filter needs `expect`. */
            filter: components["schemas"]["BulkFilter"];
            /** @description The new priority, for reprioritize. */
            priority?: number | null;
            /** @description The reason, for reject and erase; the audit log keeps 256 characters of that of an erasure. */
            reason?: string | null;
            /** @description The number of items that must match; with another one nothing is done. */
            expect?: number | null;
            /** @description True only counts; by default false. */
            dryRun?: boolean | null;
        };
        StepRequest: {
            /** @description Unique in its plan; not input, env or meta. */
            id: string;
            /** @description The title of its tasks, with placeholders; by default that of the execution. Not for a wait. */
            title?: string | null;
            /** @description The prompt, with placeholders: at most 1 MiB; not for a wait, and not beside function. */
            prompt?: string | null;
            /** @description The function that a worker calls in place of a prompt for a model. */
            function?: string | null;
            /** @description The args of the function, with placeholders in the strings of a step's: at most 256 KiB as compact JSON; by default none. */
            args?: {
                [key: string]: unknown;
            } | null;
            /** @description System instructions, with placeholders: at most 1 MiB. */
            systemPrompt?: string | null;
            /** @description Earlier turns, with placeholders: at most 1 MiB of content in all. */
            messages?: components["schemas"]["MessageRequest"][] | null;
            /** @description The files of the prompt, or of the call: ids, or placeholders of ids and of lists of ids; at most 20. */
            files?: string[] | null;
            /** @description The model; by default `[models] default`. */
            model?: string | null;
            /** @description The queue; by default `default`. */
            queue?: string | null;
            /** @description The ids of the steps that must complete first. */
            dependsOn?: string[] | null;
            /** @description True holds its output for review; by default false. */
            requiresApproval?: boolean | null;
            /** @description The condition of the step, in CEL; without one it runs. */
            condition?: string | null;
            /** @description The texts that a reviewer of its output sees beside it. Not for a wait. */
            review?: components["schemas"]["StepReviewRequest"] | null;
            /** @description The time limit of one attempt, in milliseconds, by default 300000; or of a wait, by default none. */
            timeoutMs?: number | null;
            /** @description The number of attempts. */
            retry?: components["schemas"]["RetryRequest"] | null;
            /** @description The most tokens of the output. */
            maxTokens?: number | null;
            /** @description The sampling temperature. */
            temperature?: number | null;
            /** @description The seed: a provider that takes one chooses the same tokens again where it can. */
            seed?: number | null;
            /** @description The next token is chosen from the most probable ones that have this share of the probability. */
            topP?: number | null;
            /** @description The output ends before the first of these sequences: a string, or at most 16. */
            stop?: string | string[];
            /** @description Tokens that have come are less probable the more often they have; if negative, more probable. */
            frequencyPenalty?: number | null;
            /** @description The placeholder of a list, an input or an output in JSON: one task for each of its items. Or several lists of one length that are walked together, by the names of the variables of their items. */
            forEach?: string | {
                [key: string]: string;
            };
            /** @description The name of the variable of an item; by default `item`. */
            item?: string | null;
            /** @description The longest list, required beside forEach; a longer one fails the step. */
            maxItems?: number | null;
            /** @description The most tasks at once; by default one for each item. */
            concurrency?: number | null;
            /**
             * @description The rule for a failed item: fail the step, or leave null in its output; by default fail.
             * @enum {string|null}
             */
            onItemError?: "fail" | "skip" | null;
            /** @description The share of the items that must complete where onItemError is skip; by default 0. */
            minSuccess?: number | null;
            /**
             * @description prompt calls a model, wait waits for a signal; by default prompt.
             * @enum {string|null}
             */
            type?: "prompt" | "wait" | null;
            /** @description The name of the signal that a wait waits for. */
            signal?: string | null;
            /** @description The JSON Schema of the payload of a wait's signal. */
            schema?: unknown;
            /** @description 2 to 5 models, in place of `model`: after a failure the next lease calls the next one. */
            models?: string[] | null;
            /** @description The failures after which the next model is called; by default rate_limited, unavailable and timeout. */
            fallbackOn?: ("rate_limited" | "unavailable" | "timeout" | "output_invalid")[] | null;
            /**
             * @description The service tier to ask the provider for.
             * @enum {string|null}
             */
            serviceTier?: "auto" | "flex" | "priority" | null;
            /** @description At most `concurrencyLimit` tasks with this key run at the same time. */
            concurrencyKey?: string | null;
            /** @description The limit; by default 1. */
            concurrencyLimit?: number | null;
            /**
             * @description The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
             * @enum {string|null}
             */
            onConflict?: "queue" | "reject" | "cancel_running" | null;
            /** @description Keys of the same priority take turns in their queue. */
            fairnessKey?: string | null;
            /** @description The share of the turns of the key; by default 1. */
            weight?: number | null;
            /** @description The JSON Schema (2020-12) of the output. */
            outputSchema?: Record<string, unknown> | null;
            /** @description The source of its confidence. */
            confidence?: components["schemas"]["ConfidenceRequest"] | null;
        };
        StepReviewRequest: {
            /** @description Texts with placeholders, such as `{{input.letter}}`. They are rendered with the step, 256 KiB in all (what is longer is cut), and reach no model. One without the value of a placeholder is left out. */
            show?: string[] | null;
        };
        TaskHitl: {
            /** @description True if every output is held. */
            required?: boolean | null;
            /** @description Below this confidence; by default 0.85. */
            confidenceThreshold?: number | null;
            /** @description The time of the reviewer, in milliseconds; by default 3600000. */
            timeoutMs?: number | null;
            /** @description The share of the other outputs that is held as well; by default 0. */
            sampleRate?: number | null;
            /** @description The channels that notify reviewers. */
            notifyChannels?: ("email" | "dashboard")[] | null;
        };
        TemplateRequest: {
            /** @description The name, for people, from which the id is made. */
            name: string;
            /** @description The text for people. */
            description?: string | null;
            /** @description The title of its executions, with placeholders of input, meta and env. */
            title?: string | null;
            /** @description major.minor.patch. */
            version: string;
            /**
             * @description The industry.
             * @enum {string}
             */
            industry: "legal" | "finance" | "devops" | "marketing" | "healthcare" | "custom";
            /** @description The tags, for filtering. */
            tags?: string[] | null;
            /**
             * @description The visibility; by default private.
             * @enum {string|null}
             */
            visibility?: "private" | "organization" | "public" | null;
            /** @description The JSON Schema (2020-12) of the input. */
            inputSchema: Record<string, unknown>;
            /** @description The JSON Schema (2020-12) of the last step's output. */
            outputSchema?: Record<string, unknown> | null;
            /** @description The steps. */
            steps: components["schemas"]["StepRequest"][];
            /** @description The defaults of steps. */
            defaults?: components["schemas"]["DefaultsRequest"] | null;
            /** @description The gates of outputs. */
            hitl?: components["schemas"]["HitlRequest"] | null;
            /** @description Anything: at most 256 KiB as compact JSON. `estimates` declares cost and durationMs. */
            metadata?: {
                [key: string]: unknown;
            } | null;
        };
        Meta: {
            /** @description as in the header X-Request-Id */
            requestId: string;
            /** Format: date-time */
            timestamp: string;
            /** @description milliseconds; not in a refusal */
            duration?: number;
        };
        Pagination: {
            total: number;
            limit: number;
            offset: number;
            hasMore: boolean;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Allowance = components['schemas']['Allowance'];
export type Approval = components['schemas']['Approval'];
export type Approved = components['schemas']['Approved'];
export type Archive = components['schemas']['Archive'];
export type Assigned = components['schemas']['Assigned'];
export type AuditEntry = components['schemas']['AuditEntry'];
export type BackupStatus = components['schemas']['BackupStatus'];
export type BatchAgreement = components['schemas']['BatchAgreement'];
export type Batch = components['schemas']['Batch'];
export type BatchComparison = components['schemas']['BatchComparison'];
export type BatchCost = components['schemas']['BatchCost'];
export type BatchDecision = components['schemas']['BatchDecision'];
export type BatchError = components['schemas']['BatchError'];
export type BatchItem = components['schemas']['BatchItem'];
export type BatchProgress = components['schemas']['BatchProgress'];
export type BatchReviews = components['schemas']['BatchReviews'];
export type BatchRow = components['schemas']['BatchRow'];
export type BatchRows = components['schemas']['BatchRows'];
export type BatchStatus = components['schemas']['BatchStatus'];
export type BatchStep = components['schemas']['BatchStep'];
export type Budget = components['schemas']['Budget'];
export type BudgetMatch = components['schemas']['BudgetMatch'];
export type Bulk = components['schemas']['Bulk'];
export type Calibration = components['schemas']['Calibration'];
export type Cancelled = components['schemas']['Cancelled'];
export type Cell = components['schemas']['Cell'];
export type CellHealth = components['schemas']['CellHealth'];
export type Chain = components['schemas']['Chain'];
export type Claimed = components['schemas']['Claimed'];
export type ClosedQueue = components['schemas']['ClosedQueue'];
export type ComparedAgreement = components['schemas']['ComparedAgreement'];
export type ComparedCost = components['schemas']['ComparedCost'];
export type ComparedFailures = components['schemas']['ComparedFailures'];
export type ComparedField = components['schemas']['ComparedField'];
export type ComparedItem = components['schemas']['ComparedItem'];
export type ComparedRows = components['schemas']['ComparedRows'];
export type Component = components['schemas']['Component'];
export type Components = components['schemas']['Components'];
export type Confidence = components['schemas']['Confidence'];
export type Decile = components['schemas']['Decile'];
export type Decision = components['schemas']['Decision'];
export type Defaults = components['schemas']['Defaults'];
export type Deleted = components['schemas']['Deleted'];
export type Delivery = components['schemas']['Delivery'];
export type DryBudget = components['schemas']['DryBudget'];
export type DryItems = components['schemas']['DryItems'];
export type DryRun = components['schemas']['DryRun'];
export type DryStep = components['schemas']['DryStep'];
export type Entry = components['schemas']['Entry'];
export type Erased = components['schemas']['Erased'];
export type ErasedExecution = components['schemas']['ErasedExecution'];
export type ErasureCounts = components['schemas']['ErasureCounts'];
export type Estimate = components['schemas']['Estimate'];
export type EstimatedCost = components['schemas']['EstimatedCost'];
export type EstimatedUsage = components['schemas']['EstimatedUsage'];
export type Execution = components['schemas']['Execution'];
export type ExecutionError = components['schemas']['ExecutionError'];
export type Extended = components['schemas']['Extended'];
export type File = components['schemas']['File'];
export type Flow = components['schemas']['Flow'];
export type Forgotten = components['schemas']['Forgotten'];
export type ForkedFrom = components['schemas']['ForkedFrom'];
export type Function = components['schemas']['Function'];
export type Health = components['schemas']['Health'];
export type Hit = components['schemas']['Hit'];
export type Hitl = components['schemas']['Hitl'];
export type Invitation = components['schemas']['Invitation'];
export type InvitationPreview = components['schemas']['InvitationPreview'];
export type Item = components['schemas']['Item'];
export type ItemCounts = components['schemas']['ItemCounts'];
export type Key = components['schemas']['Key'];
export type KeySummary = components['schemas']['KeySummary'];
export type Labels = components['schemas']['Labels'];
export type LastBackup = components['schemas']['LastBackup'];
export type LastVerification = components['schemas']['LastVerification'];
export type Limits = components['schemas']['Limits'];
export type Link = components['schemas']['Link'];
export type LinkPreview = components['schemas']['LinkPreview'];
export type Lists = components['schemas']['Lists'];
export type LoggedOut = components['schemas']['LoggedOut'];
export type Member = components['schemas']['Member'];
export type Message = components['schemas']['Message'];
export type MessageContent = components['schemas']['MessageContent'];
export type MessagePart = components['schemas']['MessagePart'];
export type Methods = components['schemas']['Methods'];
export type ModelState = components['schemas']['ModelState'];
export type More = components['schemas']['More'];
export type NewInvitation = components['schemas']['NewInvitation'];
export type Node = components['schemas']['Node'];
export type OpenSession = components['schemas']['OpenSession'];
export type Pause = components['schemas']['Pause'];
export type Piece = components['schemas']['Piece'];
export type Plan = components['schemas']['Plan'];
export type PreviousKey = components['schemas']['PreviousKey'];
export type PreviousSecret = components['schemas']['PreviousSecret'];
export type Price = components['schemas']['Price'];
export type ProgramAnswer = components['schemas']['ProgramAnswer'];
export type Program = components['schemas']['Program'];
export type Progress = components['schemas']['Progress'];
export type Project = components['schemas']['Project'];
export type ProjectFigures = components['schemas']['ProjectFigures'];
export type ProjectsFigures = components['schemas']['ProjectsFigures'];
export type Queue = components['schemas']['Queue'];
export type QueueSettings = components['schemas']['QueueSettings'];
export type Rejected = components['schemas']['Rejected'];
export type Reopened = components['schemas']['Reopened'];
export type Reported = components['schemas']['Reported'];
export type Restorable = components['schemas']['Restorable'];
export type Retry = components['schemas']['Retry'];
export type ReviewedTask = components['schemas']['ReviewedTask'];
export type Reviewer = components['schemas']['Reviewer'];
export type ReviewerName = components['schemas']['ReviewerName'];
export type RevokedKeys = components['schemas']['RevokedKeys'];
export type Routing = components['schemas']['Routing'];
export type Sampling = components['schemas']['Sampling'];
export type Schedule = components['schemas']['Schedule'];
export type ScheduleRun = components['schemas']['ScheduleRun'];
export type Search = components['schemas']['Search'];
export type Session = components['schemas']['Session'];
export type Share = components['schemas']['Share'];
export type SigningKeys = components['schemas']['SigningKeys'];
export type Statistics = components['schemas']['Statistics'];
export type Step = components['schemas']['Step'];
export type StepResult = components['schemas']['StepResult'];
export type StepReview = components['schemas']['StepReview'];
export type Storage = components['schemas']['Storage'];
export type StoredKind = components['schemas']['StoredKind'];
export type Tally = components['schemas']['Tally'];
export type Task = components['schemas']['Task'];
export type TaskError = components['schemas']['TaskError'];
export type TemplateBatch = components['schemas']['TemplateBatch'];
export type TemplateBatchEstimate = components['schemas']['TemplateBatchEstimate'];
export type TemplateBatchFault = components['schemas']['TemplateBatchFault'];
export type Template = components['schemas']['Template'];
export type Threshold = components['schemas']['Threshold'];
export type Usage = components['schemas']['Usage'];
export type UsageGroups = components['schemas']['UsageGroups'];
export type UsageSum = components['schemas']['UsageSum'];
export type Used = components['schemas']['Used'];
export type User = components['schemas']['User'];
export type View = components['schemas']['View'];
export type WebhookSecret = components['schemas']['WebhookSecret'];
export type Who = components['schemas']['Who'];
export type Worker = components['schemas']['Worker'];
export type AcceptInvitation = components['schemas']['AcceptInvitation'];
export type AnswerProgram = components['schemas']['AnswerProgram'];
export type Approve = components['schemas']['Approve'];
export type Assign = components['schemas']['Assign'];
export type BackupReport = components['schemas']['BackupReport'];
export type BackupVerification = components['schemas']['BackupVerification'];
export type BulkFilter = components['schemas']['BulkFilter'];
export type ChangeBudget = components['schemas']['ChangeBudget'];
export type ChangeNode = components['schemas']['ChangeNode'];
export type ChangePassword = components['schemas']['ChangePassword'];
export type ChangeProject = components['schemas']['ChangeProject'];
export type ChangeQueue = components['schemas']['ChangeQueue'];
export type ChangeSchedule = components['schemas']['ChangeSchedule'];
export type ChangeTemplate = components['schemas']['ChangeTemplate'];
export type ChangeUser = components['schemas']['ChangeUser'];
export type ChangeView = components['schemas']['ChangeView'];
export type ConfidenceRequest = components['schemas']['ConfidenceRequest'];
export type CreateBatch = components['schemas']['CreateBatch'];
export type CreateBudget = components['schemas']['CreateBudget'];
export type CreateInvitation = components['schemas']['CreateInvitation'];
export type CreateKey = components['schemas']['CreateKey'];
export type CreateProject = components['schemas']['CreateProject'];
export type CreateSchedule = components['schemas']['CreateSchedule'];
export type CreateTask = components['schemas']['CreateTask'];
export type CreateTemplateBatch = components['schemas']['CreateTemplateBatch'];
export type CreateUser = components['schemas']['CreateUser'];
export type CreateView = components['schemas']['CreateView'];
export type DefaultsRequest = components['schemas']['DefaultsRequest'];
export type DeleteProject = components['schemas']['DeleteProject'];
export type DeployTemplate = components['schemas']['DeployTemplate'];
export type EraseTexts = components['schemas']['EraseTexts'];
export type ExchangeCode = components['schemas']['ExchangeCode'];
export type ExchangeLink = components['schemas']['ExchangeLink'];
export type ExecutePlan = components['schemas']['ExecutePlan'];
export type Extend = components['schemas']['Extend'];
export type ForgottenPassword = components['schemas']['ForgottenPassword'];
export type ForkExecution = components['schemas']['ForkExecution'];
export type HitlRequest = components['schemas']['HitlRequest'];
export type Login = components['schemas']['Login'];
export type Logout = components['schemas']['Logout'];
export type MessagePartRequest = components['schemas']['MessagePartRequest'];
export type MessageRequest = components['schemas']['MessageRequest'];
export type MoveProject = components['schemas']['MoveProject'];
export type NewTask = components['schemas']['NewTask'];
export type PauseAll = components['schemas']['PauseAll'];
export type PlanRequest = components['schemas']['PlanRequest'];
export type PreviewInvitation = components['schemas']['PreviewInvitation'];
export type ProgramTicket = components['schemas']['ProgramTicket'];
export type PutCell = components['schemas']['PutCell'];
export type Refresh = components['schemas']['Refresh'];
export type Reject = components['schemas']['Reject'];
export type Reopen = components['schemas']['Reopen'];
export type ResetPassword = components['schemas']['ResetPassword'];
export type RetryBatch = components['schemas']['RetryBatch'];
export type RetryRequest = components['schemas']['RetryRequest'];
export type ReviewBatch = components['schemas']['ReviewBatch'];
export type RevokeKeys = components['schemas']['RevokeKeys'];
export type RotateKey = components['schemas']['RotateKey'];
export type RotateSigningKey = components['schemas']['RotateSigningKey'];
export type RotateWebhookSecret = components['schemas']['RotateWebhookSecret'];
export type RunOptions = components['schemas']['RunOptions'];
export type ScheduleTarget = components['schemas']['ScheduleTarget'];
export type SetLatestVersion = components['schemas']['SetLatestVersion'];
export type SetMember = components['schemas']['SetMember'];
export type SetModelLimits = components['schemas']['SetModelLimits'];
export type SetUp = components['schemas']['SetUp'];
export type SignalRequest = components['schemas']['SignalRequest'];
export type StartBulk = components['schemas']['StartBulk'];
export type StepRequest = components['schemas']['StepRequest'];
export type StepReviewRequest = components['schemas']['StepReviewRequest'];
export type TaskHitl = components['schemas']['TaskHitl'];
export type TemplateRequest = components['schemas']['TemplateRequest'];
export type Meta = components['schemas']['Meta'];
export type Pagination = components['schemas']['Pagination'];
export type $defs = Record<string, never>;
export interface operations {
    audit_list: {
        parameters: {
            query?: {
                /** @description Only entries by this actor: the id of a user or a key, anonymous, or system. */
                actor?: string;
                /** @description One of these actions. */
                action?: ("server.started" | "settings.read" | "auth.signed_in" | "auth.sign_in_refused" | "auth.sign_ins_refused" | "auth.token_reused" | "auth.session_ended" | "auth.sessions_ended" | "auth.signing_key_rotated" | "auth.password_changed" | "auth.password_forgotten" | "auth.password_reset" | "invitation.created" | "invitation.revoked" | "key.created" | "key.rotated" | "key.revoked" | "cell.added" | "cell.removed" | "project.created" | "project.changed" | "project.deleted" | "project.moving" | "project.moved" | "project.stays" | "project.purged" | "project.member_set" | "project.member_removed" | "user.created" | "user.changed" | "user.deleted" | "admin.reset" | "hitl.approved" | "hitl.rejected" | "hitl.reopened" | "auth.link_created" | "task.cancelled" | "task.texts_erased" | "execution.texts_erased" | "bulk.erased" | "execution.cancelled" | "schedule.created" | "schedule.changed" | "schedule.deleted" | "schedule.triggered" | "budget.created" | "budget.changed" | "budget.deleted" | "bulk.started" | "bulk.stopped" | "batch.created" | "batch.paused" | "batch.resumed" | "batch.cancelled" | "batch.retried" | "batch.reviewed" | "batch.deleted" | "file.deleted" | "queue.changed" | "system.paused" | "system.resumed" | "worker.drained" | "node.drained" | "delivery.repeated" | "webhook.secret_shown" | "webhook.secret_rotated" | "backup.started" | "backup.completed" | "backup.verified" | "template.published" | "template.deleted" | "template.latest_set" | "template.retired" | "template.restored" | "view.shared" | "view.changed" | "view.deleted" | "model.limits_set" | "model.pause_ended")[];
                /** @description Only entries of this instant or later. */
                since?: Date | string;
                /** @description Only entries before this instant. */
                until?: Date | string;
                /** @description At home: true for the logs of all cells as one; limit and offset are at most 1,000 together. */
                everywhere?: boolean;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["AuditEntry"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    auth_set_cookie: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the cookie is set; it is HttpOnly and SameSite=Strict */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Who"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Invitation"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    auth_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateInvitation"];
            };
        };
        responses: {
            /** @description done */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["NewInvitation"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_accept: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AcceptInvitation"];
            };
        };
        responses: {
            /** @description the invitation is used up */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_preview: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewInvitation"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["InvitationPreview"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_revoke: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the invitation */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description its link is refused from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Invitation"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_list_keys: {
        parameters: {
            query?: {
                /** @description Active keys alone that end by themselves before this instant, the soonest first. */
                expiresBefore?: Date | string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["KeySummary"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    auth_create_key: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateKey"];
            };
        };
        responses: {
            /** @description done */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Key"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_revoke_keys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RevokeKeys"];
            };
        };
        responses: {
            /** @description they are refused from now on, or would be */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["RevokedKeys"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_revoke_key: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the key */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it is refused from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["KeySummary"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_rotate_key: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the key */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateKey"];
            };
        };
        responses: {
            /** @description the old key ends after the overlap */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Key"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_create_link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the link, returned only here */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Link"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_exchange_link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExchangeLink"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_preview_link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExchangeLink"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["LinkPreview"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Login"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Logout"];
            };
        };
        responses: {
            /** @description their tokens are refused from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["LoggedOut"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_methods: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Methods"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_callback: {
        parameters: {
            query?: {
                /** @description The code of the sign-in. */
                code?: string;
                /** @description The state of the sign-in. */
                state?: string;
                /** @description The reason why there is no code. */
                error?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description to the page at /, or for a program to the page that asks the user */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    auth_answer_program: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AnswerProgram"];
            };
        };
        responses: {
            /** @description the program hears the answer at this address */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ProgramAnswer"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_preview_program: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProgramTicket"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Program"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_start: {
        parameters: {
            query?: {
                /** @description The port on 127.0.0.1 where a program waits for the code; by default the code goes to the page at /. */
                port?: number;
                /** @description The SHA-256 of a verifier, in base64url; the code counts only together with the verifier. */
                challenge?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description to the identity provider */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    auth_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExchangeCode"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_change_password: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangePassword"];
            };
        };
        responses: {
            /** @description only the new password signs in */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["User"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_forgotten: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForgottenPassword"];
            };
        };
        responses: {
            /** @description if there is such a user, a mail is on its way */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Forgotten"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_reset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResetPassword"];
            };
        };
        responses: {
            /** @description the link is used up */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_preview_reset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PreviewInvitation"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["LinkPreview"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_refresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Refresh"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_who: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Who"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_list_sessions: {
        parameters: {
            query?: {
                /** @description Only sessions of this user; by default an admin's list shows all users. Others may name only themselves. */
                userId?: string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["OpenSession"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    auth_end_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the session */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description its tokens are refused from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["OpenSession"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_setup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetUp"];
            };
        };
        responses: {
            /** @description the link is used up */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Session"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_rotate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateSigningKey"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["SigningKeys"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_list_users: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["User"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    auth_create_user: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateUser"];
            };
        };
        responses: {
            /** @description done */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["User"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_delete_user: {
        parameters: {
            query?: {
                /** @description The fate of the user's unfinished work: `cancel`, or the identifier of another user, who answers for it from now on. Required if there is such work. */
                work?: string;
            };
            header?: never;
            path: {
                /** @description the id of the user */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the user as it was */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["User"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    auth_change_user: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the user */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeUser"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["User"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": number[];
                };
            };
        };
    };
    batches_list: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("loading" | "running" | "paused" | "completed" | "cancelled")[];
                /** @description Only batches of this template. */
                templateId?: string;
                /** @description Only batches of this version of a template. */
                version?: string;
                /** @description Only batches with all of these tags. */
                tags?: string[];
                /** @description Created at this instant or later. */
                from?: Date | string;
                /** @description Created before this instant. */
                to?: Date | string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    batches_create: {
        parameters: {
            query?: {
                /** @description The template; required. */
                templateId?: string;
                /** @description Another version of it than the highest. */
                version?: string;
                /** @description A name, for people. */
                name?: string;
                /** @description The tags of the executions. */
                tags?: string[];
                /** @description The cost in USD from which no further row is started. */
                maxCost?: number;
                /** @description The most rows that run at a time; by default 100. */
                concurrency?: number;
                /** @description A batch (`bat_…`), or latest for the latest one of the template: a row whose key, rendered prompts, models and settings were answered there takes these answers over, which costs nothing. */
                reuse?: string;
                /** @description true: rows that ask the same are answered and decided once; each keeps its key. */
                dedupe?: boolean;
                /** @description keep (by default): a row with a fault is kept as invalid; reject: nothing is kept. */
                onInvalid?: "keep" | "reject";
                /** @description true: rows are checked and their cost is estimated, and nothing is kept. */
                dryRun?: boolean;
                /** @description The column of a CSV file that has the keys; by default a row's key is its number. */
                keyColumn?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-ndjson": string;
                "text/csv": string;
                "application/json": components["schemas"]["CreateTemplateBatch"];
            };
        };
        responses: {
            /** @description dryRun: nothing is kept */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatchEstimate"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
            /** @description every row is durable, and the first ones start */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description no read shows the batch any more; its rows go soon, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_compare: {
        parameters: {
            query?: {
                /** @description The step whose outputs are compared; by default the last one of each batch. */
                step?: string;
                /** @description The members of the outputs that are compared, separated by commas; by default all. */
                fields?: string[];
                /** @description The outcomes of the items, separated by commas; by default differs. */
                outcome?: ("equal" | "differs" | "unfinished" | "failed" | "onlyA" | "onlyB")[];
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The `nextCursor` of the page before. */
                cursor?: number;
            };
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
                /** @description the id of the batch */
                other: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BatchComparison"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_estimate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description nothing is changed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatchEstimate"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_export: {
        parameters: {
            query?: {
                /** @description csv (by default) or jsonl. */
                format?: "csv" | "jsonl";
                /** @description The columns, such as key, status, output.category or input.subject. */
                columns?: string[];
                /** @description Only rows with one of these statuses. */
                status?: ("pending" | "running" | "awaiting_approval" | "completed" | "failed" | "rejected" | "cancelled" | "invalid" | "removed")[];
            };
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": string;
                    "application/x-ndjson": string;
                };
            };
        };
    };
    batches_pause: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_resume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_retry: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RetryBatch"];
            };
        };
        responses: {
            /** @description `retried` rows run anew */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["TemplateBatch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_review: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReviewBatch"];
            };
        };
        responses: {
            /** @description `asked` reviews wait */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BatchReviews"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    batches_rows: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "running" | "awaiting_approval" | "completed" | "failed" | "rejected" | "cancelled" | "invalid" | "removed")[];
                /** @description One of these codes of errors. */
                errorCode?: string[];
                /** @description The step of decision, minConfidence, maxConfidence and orderBy=confidence; by default the last one. */
                step?: string;
                /** @description One of these decisions on the output of the step. */
                decision?: ("approved" | "edited" | "rejected" | "none")[];
                /** @description The lowest confidence in the output of the step. */
                minConfidence?: number;
                /** @description The highest confidence in the output of the step. */
                maxConfidence?: number;
                /** @description Only rows whose output differs from that of the row with the same key of this batch. */
                differsFrom?: string;
                /** @description The order; by default that of the rows. Rows without the value come last. */
                orderBy?: "row" | "key" | "confidence" | "cost" | "duration";
                /** @description asc (by default) or desc. */
                order?: "asc" | "desc";
                /** @description The most rows of the page; by default 20. */
                limit?: number;
                /** @description The `nextCursor` of the page before. */
                cursor?: number;
            };
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BatchRows"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    budgets_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Budget"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    budgets_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateBudget"];
            };
        };
        responses: {
            /** @description the budget is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Budget"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    budgets_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the budget */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Budget"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    budgets_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the budget */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it holds no more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Budget"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    budgets_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the budget */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeBudget"];
            };
        };
        responses: {
            /** @description the change is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Budget"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    bulk_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Bulk"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    bulk_start: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartBulk"];
            };
        };
        responses: {
            /** @description the job is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Bulk"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    bulk_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the bulk job */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Bulk"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    bulk_stop: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the bulk job */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the job has ended, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Bulk"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_list_cells: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Cell"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    system_add_cell: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PutCell"];
            };
        };
        responses: {
            /** @description new projects may be made there */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Cell"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_remove_cell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the cell */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description no project is made there any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Cell"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_nodes: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Node"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    system_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the node */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeNode"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Node"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    events_follow: {
        parameters: {
            query?: {
                /** @description Names, or groups such as `task.*`. */
                events?: ("task.created" | "task.started" | "task.delta" | "task.retrying" | "task.reprioritized" | "task.awaiting_approval" | "task.completed" | "task.failed" | "task.cancelled" | "task.rejected" | "execution.scheduled" | "execution.started" | "execution.progress" | "execution.completed" | "execution.failed" | "execution.cancelled" | "step.started" | "step.awaiting_approval" | "step.retrying" | "step.skipped" | "step.completed" | "step.failed" | "step.cancelled" | "step.waiting" | "step.signalled" | "hitl.pending" | "hitl.assigned" | "hitl.claimed" | "hitl.escalated" | "hitl.expired" | "hitl.approved" | "hitl.rejected" | "hitl.released" | "hitl.extended" | "hitl.reopened" | "hitl.corrected" | "hitl.cancelled" | "worker.connected" | "worker.draining" | "worker.disconnected" | "queue.depth" | "queue.changed" | "budget.alert" | "budget.exceeded" | "bulk.completed" | "batch.created" | "batch.progress" | "batch.paused" | "batch.resumed" | "batch.completed" | "batch.cancelled" | "batch.deleted" | "webhook.delivered" | "webhook.failed" | "schedule.created" | "schedule.updated" | "schedule.deleted" | "schedule.started" | "schedule.queued" | "schedule.skipped" | "schedule.missed" | "schedule.failed" | "*" | "task.*" | "execution.*" | "step.*" | "hitl.*" | "worker.*" | "queue.*" | "budget.*" | "bulk.*" | "batch.*" | "webhook.*" | "schedule.*")[];
                /** @description Only events of this task. */
                taskId?: string;
                /** @description Only events of this execution. */
                executionId?: string;
                /** @description Only items of this queue. */
                queue?: string;
                /** @description Only events of tasks that have all of these tags. */
                tags?: string[];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
        };
    };
    files_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["File"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    files_upload: {
        parameters: {
            query?: {
                /** @description The name, for people and models; by default that of the part of a multipart body. */
                name?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": string;
                "multipart/form-data": {
                    /** Format: binary */
                    file: string;
                };
            };
        };
        responses: {
            /** @description the file is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["File"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    files_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the file */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["File"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    files_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the file */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description no read shows the file any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["File"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    files_content: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the file */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the bytes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": number[];
                };
            };
            /** @description the part that was asked for */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": number[];
                };
            };
        };
    };
    system_list_functions: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Function"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    system_health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Health"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_list: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "assigned" | "escalated" | "expired" | "approved" | "rejected" | "cancelled")[];
                /** @description Only items of this queue. */
                queue?: string;
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description Only items that this reviewer is assigned to or has decided. */
                reviewerId?: string;
                /** @description Only outputs of the rows of this batch; none: of no rows of batches. */
                batch?: string;
                /** @description The order, the latest first: createdAt (by default) is the time of the hold, decidedAt that of the decision. */
                orderBy?: "createdAt" | "decidedAt";
                /** @description The id of the item, or beginnings of words of its title, tags or keys: an item has all of them. */
                search?: string;
                /** @description Held at this instant or later. */
                createdAfter?: Date | string;
                /** @description Held before this instant. */
                createdBefore?: Date | string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Approval"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    hitl_calibration: {
        parameters: {
            query?: {
                /** @description Only items of this template. */
                templateId?: string;
                /** @description Only items of this step. */
                stepId?: string;
                /** @description Only confidences made by this method: logprobs, samples, judge, reported or none. */
                method?: "logprobs" | "samples" | "judge" | "reported" | "none";
                /** @description Only items of this model. */
                model?: string;
                /** @description A multiple of 0.01; by default 0.05, 0.10 and so on up to 1. */
                threshold?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Calibration"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_list_pending: {
        parameters: {
            query?: {
                /** @description Only items of this queue. */
                queue?: string;
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description Assigned to this user. */
                reviewerId?: string;
                /** @description Only outputs of the rows of this batch; none: of no rows of batches. */
                batch?: string;
                /** @description One of these statuses: pending, assigned, escalated, expired; by default all but expired. */
                status?: ("pending" | "assigned" | "escalated" | "expired")[];
                /** @description The id of the item, or beginnings of words of its title, tags or keys: an item has all of them. */
                search?: string;
                /** @description Held at this instant or later. */
                createdAfter?: Date | string;
                /** @description Held before this instant. */
                createdBefore?: Date | string;
                /** @description True also lists overdue ones; by default false. Not with `status`. */
                includeExpired?: boolean;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Approval"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    hitl_reviewers: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ReviewerName"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    hitl_statistics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Statistics"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Approval"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_approve: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Approve"];
            };
        };
        responses: {
            /** @description the task is completed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Approved"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_assign: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Assign"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Assigned"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_claim: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Claimed"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_extend: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Extend"];
            };
        };
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Extended"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_history: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Entry"][];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_reject: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Reject"];
            };
        };
        responses: {
            /** @description the task is rejected */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Rejected"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_release: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Claimed"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    hitl_reopen: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                taskId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Reopen"];
            };
        };
        responses: {
            /** @description it waits for a decision again */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Reopened"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    system_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ModelState"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    system_set_limits: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the model */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetModelLimits"];
            };
        };
        responses: {
            /** @description the limits are durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ModelState"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_end_pause: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the model */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the model is open, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ModelState"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_describe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
        };
    };
    plans_list: {
        parameters: {
            query?: {
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description A text of the name or the description, in upper or lower case. */
                search?: string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Plan"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    plans_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PlanRequest"];
            };
        };
        responses: {
            /** @description the plan is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Plan"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_list: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "running" | "completed" | "failed" | "cancelled")[];
                /** @description Only items of this plan. */
                planId?: string;
                /** @description Only items of this template. */
                templateId?: string;
                /** @description Only items of this version of the template; needs `templateId`. */
                version?: string;
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description Started at this instant or later. */
                createdAfter?: Date | string;
                /** @description Started before this instant. */
                createdBefore?: Date | string;
                /** @description Only rows of this batch; or none, for executions that are no rows of batches. */
                batch?: string;
                /** @description The id of the item, or beginnings of words of its title, tags or keys: an item has all of them. */
                search?: string;
                /** @description Ended at this instant or later, however it ended. */
                endedAfter?: Date | string;
                /** @description Ended before this instant. */
                endedBefore?: Date | string;
                /** @description Ended with one of these error codes. */
                error?: ("TASK_TIMEOUT" | "WORKER_LOST" | "PROVIDER_ERROR" | "PROVIDER_RATE_LIMITED" | "RENDER_FAILED" | "CONDITION_FAILED" | "OUTPUT_INVALID" | "OUTPUT_TRUNCATED" | "DEPENDENCY_FAILED" | "EXECUTION_TIMEOUT" | "BUDGET_EXCEEDED" | "REJECTED" | "CANCELLED" | "INTERNAL_ERROR")[];
                /** @description Not ended with any of these error codes. */
                exceptError?: ("TASK_TIMEOUT" | "WORKER_LOST" | "PROVIDER_ERROR" | "PROVIDER_RATE_LIMITED" | "RENDER_FAILED" | "CONDITION_FAILED" | "OUTPUT_INVALID" | "OUTPUT_TRUNCATED" | "DEPENDENCY_FAILED" | "EXECUTION_TIMEOUT" | "BUDGET_EXCEEDED" | "REJECTED" | "CANCELLED" | "INTERNAL_ERROR")[];
                /** @description The member to order by; by default createdAt. */
                orderBy?: "createdAt" | "completedAt";
                /** @description The direction of the order; by default desc. */
                order?: "asc" | "desc";
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    executions_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description no further step is leased */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_fork: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkExecution"];
            };
        };
        responses: {
            /** @description what it would do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["DryRun"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
            /** @description the fork is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_retry: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it runs again */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_send: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
                /** @description the name */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["SignalRequest"];
            };
        };
        responses: {
            /** @description the signal is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    executions_items: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "running" | "completed" | "failed" | "cancelled" | "rejected")[];
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
                /** @description the id of the step in its plan */
                step: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Item"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    executions_of_execution: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": Record<string, unknown>;
                };
            };
        };
    };
    executions_erase: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the execution */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EraseTexts"];
            };
        };
        responses: {
            /** @description no read shows the texts any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ErasedExecution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    plans_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the plan */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Plan"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    plans_execute: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the plan */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ExecutePlan"];
            };
        };
        responses: {
            /** @description what it would do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["DryRun"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
            /** @description the execution is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    projects_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateProject"];
            };
        };
        responses: {
            /** @description the project is durable and takes work */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_figures: {
        parameters: {
            query?: {
                /** @description The earliest result of the tasks whose usage counts; by default 30 days before `to`. */
                from?: Date | string;
                /** @description The instant before which their results came; by default now. */
                to?: Date | string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ProjectsFigures"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DeleteProject"];
            };
        };
        responses: {
            /** @description nobody sees the project any more, its keys are revoked, its work is cancelled and its rows go in the background */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeProject"];
            };
        };
        responses: {
            /** @description the change is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_list_members: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Member"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    projects_set_member: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
                /** @description the id of the user */
                user: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetMember"];
            };
        };
        responses: {
            /** @description the role is durable and counts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Member"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_remove_member: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
                /** @description the id of the user */
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the user sees nothing of the project any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Member"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_begin_move: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveProject"];
            };
        };
        responses: {
            /** @description the move has begun, and ends by itself */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    projects_give_up_move: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the project */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the project stays */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Project"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    queues_list: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Queue"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    queues_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the queue */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeQueue"];
            };
        };
        responses: {
            /** @description the change is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Queue"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    schedules_list: {
        parameters: {
            query?: {
                /** @description Only those that are enabled, or that are not. */
                enabled?: boolean;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Schedule"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    schedules_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSchedule"];
            };
        };
        responses: {
            /** @description the schedule is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Schedule"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    schedules_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the schedule */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Schedule"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    schedules_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the schedule */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it starts nothing any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Schedule"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    schedules_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the schedule */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeSchedule"];
            };
        };
        responses: {
            /** @description the change is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Schedule"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    schedules_runs: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path: {
                /** @description the id of the schedule */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ScheduleRun"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    schedules_trigger: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the schedule */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description what became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["ScheduleRun"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    search_search: {
        parameters: {
            query: {
                /** @description Beginnings of words, in any case: the texts of a task have all of them. */
                q: string;
                /** @description task for tasks on their own, step for those of executions; by default both. */
                kinds?: ("task" | "step")[];
                /** @description The days back that are searched; by default as many as the setting search.days says, which is also the most. */
                days?: number;
                /** @description The most hits; by default 20. */
                limit?: number;
                /** @description `next` of the answer that this one goes on from. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Search"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_backup_status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BackupStatus"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_report_backup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BackupReport"];
            };
        };
        responses: {
            /** @description the report is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BackupStatus"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_report_verification: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BackupVerification"];
            };
        };
        responses: {
            /** @description the report is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BackupStatus"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_show: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Pause"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_pause: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PauseAll"];
            };
        };
        responses: {
            /** @description the pause is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Pause"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_resume: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the end is durable and holds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Pause"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_storage: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Storage"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_list: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "running" | "completed" | "failed" | "cancelled" | "rejected")[];
                /** @description Only items of this model. */
                model?: string;
                /** @description Only items of this queue, or of one of several with commas between them. */
                queue?: string;
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description Created at this instant or later. */
                createdAfter?: Date | string;
                /** @description Created before this instant. */
                createdBefore?: Date | string;
                /** @description Only tasks of the rows of this batch; none: no rows of batches. */
                batch?: string;
                /** @description Only pending tasks that wait for one of these. */
                waitingFor?: ("worker" | "limit" | "paused" | "queue_paused" | "budget" | "backoff" | "approval" | "schedule")[];
                /** @description The id of the item, or beginnings of words of its title, tags or keys: an item has all of them. */
                search?: string;
                /** @description Completed, failed or rejected at this instant or later. */
                endedAfter?: Date | string;
                /** @description Completed, failed or rejected before this instant. */
                endedBefore?: Date | string;
                /** @description The member to order by; by default createdAt. */
                orderBy?: "createdAt" | "completedAt" | "priority";
                /** @description The direction of the order; by default desc. */
                order?: "asc" | "desc";
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Task"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    tasks_create: {
        parameters: {
            query?: {
                /** @description Answer with the stream of the task. */
                stream?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateTask"];
            };
        };
        responses: {
            /** @description the task is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Task"];
                        meta: components["schemas"]["Meta"];
                    };
                    "text/event-stream": Record<string, unknown>;
                };
            };
        };
    };
    tasks_create_batch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateBatch"];
            };
        };
        responses: {
            /** @description the tasks are durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Batch"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_get_batch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the batch */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["BatchStatus"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_create_bulk: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description a line for each task, as it becomes durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    tasks_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Task"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it is not leased any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Cancelled"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_retry: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the new task is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Task"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    tasks_of_task: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": Record<string, unknown>;
                };
            };
        };
    };
    tasks_erase: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the task */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EraseTexts"];
            };
        };
        responses: {
            /** @description no read shows the texts any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Erased"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_list: {
        parameters: {
            query?: {
                /** @description Only items of this industry. */
                industry?: "legal" | "finance" | "devops" | "marketing" | "healthcare" | "custom";
                /** @description Only items with all of these tags. */
                tags?: string[];
                /** @description A text of the name or the description, in upper or lower case. */
                search?: string;
                /** @description Only items of this visibility. */
                visibility?: "private" | "organization" | "public";
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    templates_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TemplateRequest"];
                "application/yaml": components["schemas"]["TemplateRequest"];
                "text/yaml": components["schemas"]["TemplateRequest"];
            };
        };
        responses: {
            /** @description the same version was there before */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
            /** @description the version is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_get: {
        parameters: {
            query?: {
                /** @description The version; by default the latest. */
                version?: string;
            };
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_delete: {
        parameters: {
            query?: {
                /** @description The version; by default the latest. */
                version?: string;
            };
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it is neither listed nor deployed any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Deleted"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeTemplate"];
            };
        };
        responses: {
            /** @description deploys follow the choice, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_deploy: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DeployTemplate"];
            };
        };
        responses: {
            /** @description what it would do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["DryRun"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
            /** @description plan and execution are durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Execution"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_set_latest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetLatestVersion"];
            };
        };
        responses: {
            /** @description deploys take the version, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_follow_highest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the version that is the latest now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    templates_versions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Template"][];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    budgets_usage: {
        parameters: {
            query: {
                /** @description tag, account, template, model, day (of the result) or tagKey. */
                groupBy: "tag" | "account" | "template" | "model" | "day" | "tagKey";
                /** @description The IANA name of the zone whose days count; by default UTC. */
                timezone?: string;
                /** @description Only with `groupBy=tagKey`, and required there: `customer` groups by the rest of the tags `customer:…`. */
                tagKey?: string;
                /** @description The earliest result of the counted tasks; by default 30 days before `to`. */
                from?: Date | string;
                /** @description The instant before which the results of the counted tasks came; by default now. */
                to?: Date | string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["UsageGroups"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    views_list: {
        parameters: {
            query?: {
                /** @description Only views of this list. */
                page?: "tasks" | "executions" | "review" | "batches" | "templates" | "plans" | "schedules" | "review/decided" | "admin/deliveries" | "admin/audit";
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["View"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    views_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateView"];
            };
        };
        responses: {
            /** @description the view is durable */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["View"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    views_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the view */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description nobody sees it any more */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["View"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    views_change: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the view */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeView"];
            };
        };
        responses: {
            /** @description the change is durable */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["View"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    webhooks_list: {
        parameters: {
            query?: {
                /** @description One of these statuses. */
                status?: ("pending" | "delivered" | "dead" | "dropped")[];
                /** @description About this task. */
                taskId?: string;
                /** @description About this execution. */
                executionId?: string;
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Delivery"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    webhooks_redeliver: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the delivery */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description it is pending */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Delivery"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    webhooks_secret: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["WebhookSecret"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    webhooks_rotate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RotateWebhookSecret"];
            };
        };
        responses: {
            /** @description both secrets sign, also after a restart */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["WebhookSecret"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
    system_list_workers: {
        parameters: {
            query?: {
                /** @description The most items of the page; by default 20. */
                limit?: number;
                /** @description The number of items before the page. */
                offset?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Worker"][];
                        meta: components["schemas"]["Meta"];
                        pagination: components["schemas"]["Pagination"];
                    };
                };
            };
        };
    };
    workers_connect: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description the worker protocol, over a WebSocket */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    system_drain_worker: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description the id of the worker */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                        data: components["schemas"]["Worker"];
                        meta: components["schemas"]["Meta"];
                    };
                };
            };
        };
    };
}
