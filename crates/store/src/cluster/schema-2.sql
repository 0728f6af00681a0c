-- Version 2: requests that a node passes on to the one that leads. Nobody waits for them after a crash of the database, so they
-- are in no log of it.

CREATE UNLOGGED TABLE cairn_request (
    id uuid PRIMARY KEY,
    -- Which node was asked.
    node text NOT NULL,
    head text NOT NULL,
    body bytea NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the node looked for the answer the last time.
    looked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of the leader that has started it.
    lease uuid
);

CREATE UNLOGGED TABLE cairn_answer (
    request uuid NOT NULL REFERENCES cairn_request ON DELETE CASCADE,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    -- The last event that the leader had; only in the last part.
    n bigint,
    PRIMARY KEY (request, part)
);

-- Adds a part to an answer, and returns how many are not read yet; nothing where nobody waits for it any more.
CREATE FUNCTION cairn_answer(p_request uuid, p_part integer, p_bytes bytea, p_n bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM cairn_request
        WHERE id = p_request AND looked_at > clock_timestamp() - interval '15 seconds' FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO cairn_answer VALUES (p_request, p_part, p_bytes, p_n) ON CONFLICT DO NOTHING;
    RETURN (SELECT count(*) FROM cairn_answer WHERE request = p_request);
END $$;
