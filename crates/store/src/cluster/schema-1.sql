-- Version 1. Runs in one transaction, under a lock that keeps other nodes out.

-- One row: the head of the journal. Whoever appends locks it, so the order of all events is total.
CREATE TABLE cairn_journal (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format integer NOT NULL,
    written_by text NOT NULL,
    -- Which journal this is: a copy of it on a node's disk carries it, too.
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    -- The number of the next event.
    next bigint NOT NULL DEFAULT 1,
    -- Raised whenever a node begins to lead.
    epoch bigint NOT NULL DEFAULT 0,
    -- Of whoever leads, and of no other: a failover of the database may give an epoch a second time.
    lease uuid,
    -- The last append: one whose answer was lost is sent again.
    batch uuid,
    batch_first bigint,
    -- Raised whenever events are rewritten: copies from before are made anew.
    generation bigint NOT NULL DEFAULT 0,
    -- The journal went on elsewhere: nobody leads here any more.
    moved_to text
);

CREATE TABLE cairn_event (
    n bigint PRIMARY KEY,
    -- How many events of the same append come after it.
    follows integer NOT NULL,
    channel text,
    -- A JSON object, as text: what it says is kept as it was written. A program sends and reads it without its first brace.
    body text NOT NULL
);

CREATE TABLE cairn_lease (
    name text PRIMARY KEY,
    node text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    lease uuid NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE cairn_node (
    name text PRIMARY KEY,
    address text NOT NULL,
    version text NOT NULL,
    n bigint NOT NULL,
    seen_at timestamptz NOT NULL
);

CREATE TABLE cairn_artifact (
    channel text NOT NULL,
    id text NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (channel, id, part)
);

-- What a leader that stops by plan leaves to the next one.
CREATE TABLE cairn_handover (
    name text PRIMARY KEY,
    bytes bytea NOT NULL
);

-- People who are to be erased, by whichever node leads next.
CREATE TABLE cairn_erasure (
    person text PRIMARY KEY,
    at text NOT NULL
);

-- Appends events behind one another, all or none, and returns the number of the first. The same batch again returns what it
-- returned, and appends nothing. CN001: another node leads. CN002: the journal does not end where the node believes.
CREATE FUNCTION cairn_append(
    p_lease uuid, p_batch uuid, p_expected bigint, p_follows integer[], p_channels text[], p_bodies text[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    head cairn_journal;
BEGIN
    SELECT * INTO STRICT head FROM cairn_journal FOR UPDATE;
    IF head.lease IS DISTINCT FROM p_lease OR head.moved_to IS NOT NULL THEN
        RAISE EXCEPTION 'another node leads' USING ERRCODE = 'CN001';
    END IF;
    IF head.batch = p_batch THEN
        RETURN head.batch_first;
    END IF;
    IF head.next <> p_expected THEN
        RAISE EXCEPTION 'the next event is number %, not %', head.next, p_expected USING ERRCODE = 'CN002';
    END IF;
    INSERT INTO cairn_event (n, follows, channel, body)
        SELECT p_expected + at - 1, follows, channel, '{' || body
        FROM unnest(p_follows, p_channels, p_bodies) WITH ORDINALITY AS event (follows, channel, body, at);
    UPDATE cairn_journal SET next = p_expected + cardinality(p_bodies), batch = p_batch, batch_first = p_expected;
    PERFORM pg_notify('cairn_journal', '');
    RETURN p_expected;
END $$;

-- Leads from now on, unless another node does: then that one, and for how many seconds more it does at least. `p_previous`:
-- the lease that the caller's own process of before held, which has ended.
CREATE FUNCTION cairn_lead(
    p_lease uuid, p_previous uuid, p_node text, p_address text, OUT epoch bigint, OUT leader text, OUT leader_address text
) LANGUAGE plpgsql AS $$
DECLARE
    head cairn_journal;
    held cairn_lease;
BEGIN
    SELECT * INTO STRICT head FROM cairn_journal FOR UPDATE;
    IF head.moved_to IS NOT NULL THEN
        RAISE EXCEPTION 'the journal was moved to %', head.moved_to USING ERRCODE = 'CN003';
    END IF;
    SELECT * INTO held FROM cairn_lease AS l WHERE l.name = 'leader' FOR UPDATE;
    IF held.lease = p_lease THEN
        -- The answer was lost.
        epoch := held.epoch;
        RETURN;
    END IF;
    IF held.expires_at > clock_timestamp() AND held.lease IS DISTINCT FROM p_previous THEN
        leader := held.node;
        leader_address := held.address;
        RETURN;
    END IF;
    epoch := head.epoch + 1;
    UPDATE cairn_journal AS j SET epoch = head.epoch + 1, lease = p_lease;
    INSERT INTO cairn_lease AS l
        VALUES ('leader', p_node, p_address, head.epoch + 1, p_lease, clock_timestamp() + interval '10 seconds')
        ON CONFLICT (name) DO UPDATE SET node = excluded.node, address = excluded.address, epoch = excluded.epoch,
            lease = excluded.lease, expires_at = excluded.expires_at;
END $$;

-- False: another node leads. Does not wait for appends.
CREATE FUNCTION cairn_renew(p_lease uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    UPDATE cairn_lease SET expires_at = clock_timestamp() + interval '10 seconds'
        WHERE name = 'leader' AND lease = p_lease;
    RETURN FOUND;
END $$;

-- Leads no longer; others hear of it at once.
CREATE FUNCTION cairn_leave(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM cairn_journal FOR UPDATE;
    UPDATE cairn_journal SET lease = NULL WHERE lease = p_lease;
    DELETE FROM cairn_lease WHERE name = 'leader' AND lease = p_lease;
    PERFORM pg_notify('cairn_journal', '');
END $$;

CREATE FUNCTION cairn_seen(p_node text, p_address text, p_version text, p_n bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO cairn_node VALUES (p_node, p_address, p_version, p_n, clock_timestamp())
        ON CONFLICT (name) DO UPDATE SET address = excluded.address, version = excluded.version, n = excluded.n,
            seen_at = excluded.seen_at;
$$;
