CREATE OR REPLACE FUNCTION livebox.execute(batch uuid, operations jsonb)
RETURNS TABLE (
    "position" bigint, code text, body text, version bigint, resource_kind text, resource_id text, cursor jsonb,
    effects jsonb, log_seq bigint
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    answers livebox.answer[] := '{}';
    item    jsonb;
    before  bigint;
    newest  bigint;
    kept    jsonb;
BEGIN
    -- The lock outlives the commit: events get their numbers in commit order. Each statement below sees all that was
    -- committed by whoever held it before.
    PERFORM livebox.lock_log();
    before := pg_sequence_last_value('livebox.event_seq');

    FOR item IN SELECT value FROM jsonb_array_elements(operations) LOOP
        answers := array_append(answers, livebox.perform(item ->> 'op', item -> 'caller', item -> 'args'));
    END LOOP;

    newest := nullif(pg_sequence_last_value('livebox.event_seq'), before);
    kept := jsonb_strip_nulls(jsonb_build_object('answers', to_jsonb(answers), 'log_seq', newest));
    INSERT INTO livebox.lane_batches (batch, answers) VALUES (execute.batch, kept);

    -- Rows go out while the lock is held. What does not fit into the session's buffer (8 KiB) would wait there for a
    -- process that is frozen or cut off, and everybody else with it: such answers are read after the commit, by settle.
    IF octet_length(kept::text) + 50 * cardinality(answers) > 7000 THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT a.ordinality, a.code, a.body, a.version, a.resource_kind, a.resource_id, a.cursor, a.effects, newest
      FROM unnest(answers) WITH ORDINALITY AS a;
END $$;
COMMENT ON FUNCTION livebox.execute(uuid, jsonb) IS
    'One batch of the write lane: [{op, caller, args}] run in order under the lock of the log, answered in order and recorded under the batch''s id. All or nothing. log_seq is the newest event of the batch, NULL when it appended none. No rows: it is done, and its answers are too long to be sent under the lock; settle gives them.';
