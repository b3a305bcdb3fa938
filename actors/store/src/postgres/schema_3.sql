-- Format 3: the tables name the version of their rows and the first program that wrote it, so an older program
-- refuses them. A node notes its version when it becomes active, not when it joins.
ALTER TABLE callboard.meta ADD COLUMN rows integer NOT NULL DEFAULT 0, ADD COLUMN program text NOT NULL DEFAULT '';

-- Claims partitions as claim_1 does, for a node that writes rows of the version _rows. None for a node whose rows
-- are older than those of the tables. Programs before format 3 refuse the tables once rows have a version.
CREATE FUNCTION callboard.claim_3(
    _node uuid, _incarnation bigint, _wanted smallint[], _term interval, _rows integer, _program text
) RETURNS TABLE (gained smallint, claimed bigint) LANGUAGE plpgsql AS $$
DECLARE
    _known integer;
BEGIN
    SELECT rows INTO _known FROM callboard.meta FOR UPDATE;
    IF _known > _rows THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM callboard.claim_1(_node, _incarnation, _wanted, _term);
    IF FOUND AND _known < _rows THEN
        UPDATE callboard.meta SET rows = _rows, program = _program, oldest_reader = GREATEST(oldest_reader, 3);
    END IF;
END $$;

UPDATE callboard.meta SET format = 3;
