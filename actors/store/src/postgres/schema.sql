-- Format 1. Later formats only add: a function that an older program calls stays.
CREATE TABLE callboard.meta (
    format integer NOT NULL,
    oldest_reader integer NOT NULL,
    tenure bigint NOT NULL
);
INSERT INTO callboard.meta VALUES (1, 1, 0);
CREATE TABLE callboard.row (
    key bytea PRIMARY KEY,
    value bytea NOT NULL
) WITH (fillfactor = 90, toast_tuple_target = 8160);
ALTER TABLE callboard.row ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE TABLE callboard.log (
    id smallint PRIMARY KEY,
    newest bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO callboard.log SELECT id, 0 FROM generate_series(0, 255) id;
CREATE TABLE callboard.node (
    id uuid PRIMARY KEY,
    incarnation bigint NOT NULL,
    address text NOT NULL,
    version text NOT NULL,
    draining boolean NOT NULL,
    since timestamptz NOT NULL,
    expires timestamptz NOT NULL,
    report bytea NOT NULL
);
CREATE TABLE callboard.writer (
    node uuid PRIMARY KEY,
    incarnation bigint NOT NULL,
    fence bigint NOT NULL,
    number bigint NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE callboard.part (
    p smallint PRIMARY KEY,
    owner uuid,
    epoch bigint NOT NULL
);
INSERT INTO callboard.part SELECT p, NULL, 0 FROM generate_series(0, 255) p;

-- Commits a group of batches: 0 if it is committed, 1 if the writer was fenced or the group is not the next.
CREATE FUNCTION callboard.commit_1(
    _node uuid, _incarnation bigint, _fence bigint, _number bigint,
    _keys bytea[], _values bytea[], _deleted bytea[],
    _logs smallint[], _before bigint[], _after bigint[]
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    _moved integer;
BEGIN
    UPDATE callboard.writer SET number = _number
    WHERE node = _node AND incarnation = _incarnation AND fence = _fence AND number = _number - 1;
    IF NOT FOUND THEN
        RETURN 1;
    END IF;
    IF cardinality(_deleted) > 0 THEN
        DELETE FROM callboard.row WHERE key = ANY (_deleted);
    END IF;
    IF cardinality(_keys) > 0 THEN
        INSERT INTO callboard.row SELECT * FROM unnest(_keys, _values)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    END IF;
    IF cardinality(_logs) > 0 THEN
        UPDATE callboard.log SET newest = l.after
        FROM unnest(_logs, _before, _after) AS l (id, before, after)
        WHERE log.id = l.id AND log.newest = l.before;
        GET DIAGNOSTICS _moved = ROW_COUNT;
        IF _moved <> cardinality(_logs) THEN
            RAISE EXCEPTION 'another node has appended to a log' USING ERRCODE = 'CB002';
        END IF;
    END IF;
    RETURN 0;
END $$;

CREATE FUNCTION callboard.join_1(_node uuid, _address text, _version text, _term interval)
RETURNS TABLE (joined bigint, fenced bigint, committed bigint) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE callboard.meta SET tenure = tenure + 1;
    INSERT INTO callboard.writer AS w VALUES (_node, 1, 1, 0)
    ON CONFLICT (node) DO UPDATE SET incarnation = w.incarnation + 1, fence = w.fence + 1
    RETURNING w.incarnation, w.fence, w.number INTO joined, fenced, committed;
    UPDATE callboard.part SET owner = NULL WHERE owner = _node;
    DELETE FROM callboard.node
    WHERE expires < clock_timestamp() - interval '24 hours'
        AND NOT EXISTS (SELECT FROM callboard.part WHERE owner = node.id);
    INSERT INTO callboard.node VALUES (
        _node, joined, _address, _version, false, clock_timestamp(), clock_timestamp() + _term, ''
    ) ON CONFLICT (id) DO UPDATE SET
        incarnation = excluded.incarnation, address = excluded.address, version = excluded.version,
        draining = false, since = excluded.since, expires = excluded.expires, report = '';
    RETURN NEXT;
END $$;

CREATE FUNCTION callboard.renew_1(_node uuid, _incarnation bigint, _term interval, _report bytea)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE callboard.node SET
        since = CASE WHEN expires <= clock_timestamp() THEN clock_timestamp() ELSE since END,
        expires = clock_timestamp() + _term,
        report = _report
    WHERE id = _node AND incarnation = _incarnation;
    RETURN FOUND;
END $$;

CREATE FUNCTION callboard.claim_1(_node uuid, _incarnation bigint, _wanted smallint[], _term interval)
RETURNS TABLE (gained smallint, claimed bigint) LANGUAGE plpgsql AS $$
DECLARE
    _tenure bigint;
    _since timestamptz;
    _free smallint[];
BEGIN
    UPDATE callboard.meta SET tenure = tenure + 1 RETURNING tenure INTO _tenure;
    SELECT since INTO _since FROM callboard.node
    WHERE id = _node AND incarnation = _incarnation AND expires > clock_timestamp();
    IF NOT FOUND THEN
        RETURN;
    END IF;
    _free := ARRAY (
        SELECT part.p FROM callboard.part LEFT JOIN callboard.node ON node.id = part.owner
        WHERE part.p = ANY (_wanted) AND (
            part.owner IS NULL
            OR part.owner <> _node AND _since + _term <= clock_timestamp()
                AND (node.id IS NULL OR node.expires <= clock_timestamp())
        )
    );
    UPDATE callboard.writer SET fence = fence + 1
    WHERE node IN (SELECT owner FROM callboard.part WHERE p = ANY (_free));
    RETURN QUERY UPDATE callboard.part SET owner = _node, epoch = _tenure
    WHERE p = ANY (_free) RETURNING p, epoch;
END $$;

CREATE FUNCTION callboard.release_1(_node uuid, _incarnation bigint, _parts smallint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE callboard.meta SET tenure = tenure + 1;
    UPDATE callboard.writer SET fence = fence + 1 WHERE node = _node AND incarnation = _incarnation;
    IF FOUND THEN
        UPDATE callboard.part SET owner = NULL WHERE owner = _node AND p = ANY (_parts);
    END IF;
END $$;
