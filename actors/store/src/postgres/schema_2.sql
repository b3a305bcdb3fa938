-- Format 2: the database numbers the records of a group, so several nodes append to one log.
ALTER TABLE callboard.writer ADD COLUMN bases bigint[] NOT NULL DEFAULT '{}';

-- Commits a group of batches: the numbers before the first record of each of its logs; NULL if the writer was
-- fenced or the group is not the next. The logs come last: another node's group waits for them only.
CREATE FUNCTION callboard.commit_2(
    _node uuid, _incarnation bigint, _fence bigint, _number bigint,
    _keys bytea[], _values bytea[], _deleted bytea[],
    _logs smallint[], _before bigint[], _counts bigint[],
    _in smallint[], _firsts bigint[], _parts smallint[], _records bytea[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    _bases bigint[] := '{}';
    _base bigint;
BEGIN
    PERFORM FROM callboard.writer
    WHERE node = _node AND incarnation = _incarnation AND fence = _fence AND number = _number - 1
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF cardinality(_deleted) > 0 THEN
        DELETE FROM callboard.row WHERE key = ANY (_deleted);
    END IF;
    IF cardinality(_keys) > 0 THEN
        INSERT INTO callboard.row SELECT * FROM unnest(_keys, _values)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    END IF;
    FOR _at IN 1 .. cardinality(_logs) LOOP
        UPDATE callboard.log SET newest = newest + _counts[_at] WHERE id = _logs[_at]
        RETURNING newest - _counts[_at] INTO _base;
        _bases := _bases || _base;
    END LOOP;
    IF cardinality(_in) > 0 THEN
        INSERT INTO callboard.row
        SELECT
            '\x6c'::bytea || set_byte('\x00'::bytea, 0, r.log)
                || int8send(r.first - l.before + l.base) || set_byte('\x00'::bytea, 0, r.part),
            r.value
        FROM unnest(_in, _firsts, _parts, _records) AS r (log, first, part, value)
        JOIN unnest(_logs, _before, _bases) AS l (id, before, base) ON l.id = r.log;
    END IF;
    UPDATE callboard.writer SET number = _number, bases = _bases WHERE node = _node;
    RETURN _bases;
END $$;

UPDATE callboard.meta SET format = 2;
