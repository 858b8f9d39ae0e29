CREATE OR REPLACE FUNCTION livebox.prune_idempotency_keys(p_seconds double precision, p_chunk bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_removed bigint;
BEGIN
    DELETE FROM livebox.idempotency_keys k
     WHERE (k.principal_id, k.operation, k.key) IN (
           SELECT o.principal_id, o.operation, o.key FROM livebox.idempotency_keys o
            WHERE o.created_at < livebox.clock() - make_interval(secs => p_seconds)
            ORDER BY o.created_at LIMIT p_chunk);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END $$;
COMMENT ON FUNCTION livebox.prune_idempotency_keys(double precision, bigint) IS
    'Removes idempotency keys that are older than so many seconds, the oldest first and at most p_chunk. Gives how many went.';
