CREATE OR REPLACE FUNCTION livebox.unit_record(p_unit livebox.agent_snapshots) RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'at', livebox.utc(p_unit.created_at),
        'id', p_unit.id,
        'snapshot_id', p_unit.snapshot_id,
        'durable', p_unit.durable,
        'live', p_unit.live))
$$;
COMMENT ON FUNCTION livebox.unit_record(livebox.agent_snapshots) IS 'A published unit of work as the process maps it to a snapshot.';
