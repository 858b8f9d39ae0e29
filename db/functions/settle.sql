CREATE OR REPLACE FUNCTION livebox.settle(batch uuid)
RETURNS TABLE (
    "position" bigint, code text, body text, version bigint, resource_kind text, resource_id text, cursor jsonb,
    effects jsonb, log_seq bigint
) LANGUAGE sql STABLE AS $$
    SELECT a.ordinality, a.answer ->> 'code', a.answer ->> 'body', (a.answer ->> 'version')::bigint,
           a.answer ->> 'resource_kind', a.answer ->> 'resource_id', a.answer -> 'cursor', a.answer -> 'effects',
           (b.answers -> 'log_seq')::bigint
      FROM livebox.lane_batches b, jsonb_array_elements(b.answers -> 'answers') WITH ORDINALITY AS a (answer, ordinality)
     WHERE b.batch = settle.batch
     ORDER BY a.ordinality
$$;
COMMENT ON FUNCTION livebox.settle(uuid) IS
    'What became of a batch: its answers as execute gave them, or no rows when it was never committed. Only worth asking once the session that ran the batch is gone.';
